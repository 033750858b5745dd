/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Whether the programs can be loaded here, by the last attempt of this process. It is no plan's own: what fails for one
 * fails for the next, and is not tried again at each reading or by each cgroup.
 *
 * To check the programs takes the kernel tens of milliseconds. So a trial loads them as an engine will need them, and
 * the engine takes what the trial has loaded. Programs that were found at work need no trial.
 */

#include "counting/engine/bpf/kernel.h"
#include "counting/engine/bpf/load.h"

/* Can they? Tries it once, in that size at least, and where loading has failed, in that which failed. sizes: NULL,
 * where a trial was made. -errno with the reason, which is the same for a second. */
int attempt_try(const struct bpf_sizes *sizes, struct reason *why);
/* What the last trial has loaded, if nobody has taken it; or NULL. */
struct bpf_kernel *attempt_take_trial(void);
/* What another instance of the daemon has loaded is at work. */
void attempt_note_restored(struct bpf_kernel *kernel);

/* As bpf_kernel_load(). Where that fails, the answer is the same for a minute. */
int attempt_load(struct bpf_kernel **ret, const struct bpf_sizes *sizes, bool v1, const struct bpf_kernel *former,
		 struct reason *why);

/* Loads that a thread runs (load.h): for attempt_try(), in that size at least (NULL: it is known whether it can be
 * done, or memory is short); … */
struct bpf_load *attempt_new_trial(const struct bpf_sizes *sizes);
/* … and as attempt_load(). NULL: it has failed less than a minute ago, or memory is short. */
struct bpf_load *attempt_new_load(const struct bpf_sizes *sizes, bool v1, struct bpf_kernel *former);
