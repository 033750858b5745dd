/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The counts of a sampled event by the counters of cgroups, from the past that is kept of all numbers
 * (counting/history/history.h): for CPU time it is task-clock, and else the same event.
 */

#include "counting/event/event.h"
#include "counting/history/history.h"
#include "profiler/protocol.h"

/* Its labels are borrowed from the history. */
void profile_counts_release(struct profile_counts *counts);

/* sampled: the event, or all that its text makes on this machine. Where it is not counted in cgroups, or nothing is
 * known yet, the sentence `problem` is set. Times are whole milliseconds, as those of samples. -ENOMEM. */
int profile_counts_read(struct profile_counts *ret, const struct history *history, const struct event_list *sampled);
