/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the counters of cgroups have counted of a sampled event, from the past that is kept of all numbers
 * (counting/history/history.h): for CPU time it is task-clock, and else the same event.
 */

#include "counting/history/history.h"
#include "profiler/answer/weights.h"
#include "profiler/profile-events.h"

/* Its labels are borrowed from the history. */
void profile_counts_release(struct profile_counts *counts);

/* Where the event is not counted in cgroups, or nothing is known yet, the sentence `problem` is set. -ENOMEM. */
int profile_counts_read(struct profile_counts *ret, const struct history *history, const struct profile_event *event);
