/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Loads BPF programs in a thread, for a reload: the kernel takes a tenth of a second to check them, for which the loop
 * must not be held. The engine in force counts on meanwhile.
 */

#include "base/util/cleanup.h"
#include "counting/engine/bpf/load.h"

#include <stdbool.h>
#include <systemd/sd-event.h>

struct loader;

/* Called on the loop when the load was run, which is the callee's then. */
typedef void (*loader_done_t)(void *userdata, struct bpf_load *load);

/* Negative errno. */
int loader_new(struct loader **ret, sd_event *loop, loader_done_t done, void *userdata);
/* Waits for a load that is running; it is not reported. */
struct loader *loader_free(struct loader *loader);
DEFINE_CLEANUP(struct loader *, loader_free)

/* Takes the load over. Precondition: the loader is not busy. False: there is no thread. */
bool loader_start(struct loader *loader, struct bpf_load *load);
bool loader_is_busy(const struct loader *loader);
