/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Programs that are loaded ahead, in a thread, for the engine that is made next (bpf.h, attempt.h): the kernel takes a
 * tenth of a second to check them. The engine in force counts on meanwhile. An engine that needs another load than was
 * expected loads by itself.
 */

struct bpf_load;

/* In a thread. */
void bpf_load_run(struct bpf_load *load);
/* After that, on the loop: the engine that is made next has what was loaded. Negative errno: that failed; the engine is
 * not available for a minute then, or after a trial for a second. */
int bpf_load_use(struct bpf_load *load);
/* On the loop. */
struct bpf_load *bpf_load_free(struct bpf_load *load);
