/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * From two readings of a kernel group to what happened in between: the one place where counts are
 * scaled. Pure.
 *
 * A group that shares the PMU runs only part of the time it is enabled (perf_event_open(2),
 * PERF_FORMAT_TOTAL_TIME_RUNNING). Each interval's count is scaled by that interval's own share:
 *
 *     total += Δvalue × Δenabled / Δrunning
 *
 * so that totals never go down, which value × enabled / running over the group's life can. An interval
 * in which the group was enabled but did not run says nothing about its counts: the baseline then stays
 * where it was, and the next reading in which it did run is scaled over both.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What one read(2) of a group leader returned. times in ns. */
struct reading {
	uint64_t enabled;
	uint64_t running;
	const uint64_t *values;
	uint64_t most; /* ns it can have been enabled since the baseline */
	bool brief;    /* so soon after the baseline that a share of it would say little */
};

/* The reading that deltas are taken from; zeroed when the group is opened. */
struct baseline {
	uint64_t enabled;
	uint64_t running;
	uint64_t *values;
};

enum estimate {
	ESTIMATE_COUNTED,    /* deltas hold what to add; the baseline has moved on */
	ESTIMATE_UNOBSERVED, /* enabled but not running since the baseline, or for part of a brief time: nothing
			      * to add yet */
	ESTIMATE_BACKWARDS,  /* the kernel's numbers went down: nothing added, the baseline stays, so that
			      * what they pass again is not counted twice */
};

/*
 * Takes nr values. `exact` is for groups that are never multiplexed: their plain delta is taken and
 * their times are not looked at, which are wrong at times (kernel 6.18, cgroup events).
 *
 * Where the group ran longer than it was enabled (the two clocks are read apart), the delta is taken as
 * it is. So it is where the times can't be true: where they went down, or the group was enabled for longer
 * than there was time. Scaling is done in 128 bits, rounds to the nearest count and saturates.
 */
enum estimate estimate(struct baseline *base, const struct reading *now, size_t nr, bool exact, uint64_t *deltas);
