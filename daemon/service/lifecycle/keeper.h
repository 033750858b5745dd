/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * When totals are kept for the next start (service/persist/store.h): the image is written after each reading, and perf
 * events that were opened or closed go to the fd store a little later, together. Failures are logged by report.h.
 */

#include "counting/world/world.h"
#include "service/lifecycle/report.h"
#include "service/persist/store.h"

#include <systemd/sd-event.h>

struct keeper;

/*
 * Claims the state directory (STATE_DIRECTORY, systemd.exec(5)). Negative errno with the sentence in why: -EBUSY where
 * it is another daemon's. A daemon without a state directory would seem to work, and lose its totals at each stop: so
 * it does not start. report is borrowed.
 */
int keeper_new(struct keeper **ret, struct report *report, struct reason *why);
/* Leaves in place whatever is kept. */
struct keeper *keeper_free(struct keeper *keeper);
DEFINE_CLEANUP(struct keeper *, keeper_free)

/* The session of the instance before this one, or NULL; logs what was found. It may not outlive the keeper. */
struct session *keeper_restore(struct keeper *keeper, const struct config *config, struct listen_fds *passed);

/* Begins to keep what the world counts, which has started. Both are borrowed. Negative errno of the loop. */
int keeper_start(struct keeper *keeper, sd_event *loop, const struct world *world);

/* Writes the image: after a reading, and before it is shown. */
void keeper_save(struct keeper *keeper);

/* Brings the fd store up to date: at once, or soon if anything was opened or closed. */
void keeper_update(struct keeper *keeper);
void keeper_update_soon(struct keeper *keeper);

/* At the stop: keeps everything. */
void keeper_leave(struct keeper *keeper);

struct store_stats keeper_stats(const struct keeper *keeper);
