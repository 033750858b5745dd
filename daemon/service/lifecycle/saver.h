/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * When totals are saved for the next start (service/persist/store.h): the image is written after each reading, and perf
 * events that were opened or closed go to the fd store a little later, together. Failures are logged by report.h.
 */

#include "counting/world/world.h"
#include "service/lifecycle/report.h"
#include "service/persist/store.h"

#include <systemd/sd-event.h>

struct saver;

/*
 * Claims the state directory (STATE_DIRECTORY, systemd.exec(5)). Negative errno with the sentence in why: -EBUSY where
 * it is another daemon's. A daemon without a state directory would seem to work, and lose its totals at each stop: so
 * it does not start. report is borrowed.
 */
int saver_new(struct saver **ret, struct report *report, struct reason *why);
/* Leaves in place whatever is saved. */
struct saver *saver_free(struct saver *saver);
DEFINE_CLEANUP(struct saver *, saver_free)

/* The session of the instance before this one, or NULL; logs what was found. It may not outlive the saver. */
struct session *saver_restore(struct saver *saver, const struct config *config, struct listen_fds *passed);

/* Begins to save the totals of the world, which has started. Both are borrowed. Negative errno of the loop. */
int saver_start(struct saver *saver, sd_event *loop, const struct world *world);

/* Writes the image: after a reading, and before it is shown. */
void saver_write_image(struct saver *saver);

/* Brings the fd store up to date: at once, or soon if anything was opened or closed. */
void saver_update_fds(struct saver *saver);
void saver_update_fds_soon(struct saver *saver);

/* At the stop: saves everything, … */
void saver_leave(struct saver *saver);
/* … and last the profiler's samples (or NULL). The state directory is then free. */
void saver_leave_samples(struct saver *saver, const struct blob *image);
/* Those of the instance before, which are kept no more; NULL: none. */
struct blob *saver_take_samples(struct saver *saver);

struct store_stats saver_stats(const struct saver *saver);
