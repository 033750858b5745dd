/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * When the world does what: the loop's sources that drive it.
 *
 *   timer     ends an interval: all counters are read
 *   timer     every second, changes that nobody announces: CPUs, the sysctl, mounts
 *   poll      mounts have changed (proc(5), mountinfo)
 *   inotify   cgroups come and go
 *   poll      names of containers are found (also every second)
 *   deferred  waiting cgroups are opened, a few milliseconds a turn of the loop, after everything else
 *
 * Changes are reported (report.h), and saved for the next start (saver.h).
 */

#include "counting/world/world.h"
#include "service/lifecycle/report.h"
#include "service/lifecycle/saver.h"

#include <systemd/sd-event.h>

struct schedule;

/* Priorities of the loop's sources; smaller is sooner. */
enum {
	PRIORITY_SIGNAL = -10,
	PRIORITY_TICK = -5,
	PRIORITY_MOUNTS = -2, /* before inotify events of a tree whose mount has just gone */
	PRIORITY_CGROUPS = 5, /* after HTTP; finding and opening have the same, so that neither starves the other */
};

/* Begins to drive the world, which has started, and profiles of it. All are borrowed. Negative errno. */
int schedule_new(struct schedule **ret, sd_event *loop, struct world *world, struct profiles *profiles,
		 struct saver *saver, struct report *report);
struct schedule *schedule_free(struct schedule *schedule);
DEFINE_CLEANUP(struct schedule *, schedule_free)

/* After a reload: the interval and the tree may be others, and cgroups may wait. Negative errno. */
int schedule_renew(struct schedule *schedule);

/* Call it when cgroups may wait, or the tree may be behind: the deferred source runs again. */
void schedule_wake(struct schedule *schedule);

/* Have all cgroups that were found at the start been opened? */
bool schedule_has_opened(const struct schedule *schedule);
