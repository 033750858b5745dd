/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * From two readings of a kernel group to what happened in between: the one place where counts are scaled. Pure.
 *
 * A group that shares the PMU runs only part of the time that it is enabled (perf_event_open(2),
 * PERF_FORMAT_TOTAL_TIME_RUNNING). Each interval's count is scaled by that interval's own share:
 *
 *     total += Δvalue × Δenabled / Δrunning
 *
 * So totals never go down, which value × enabled / running over the group's life can. An interval in which the group
 * was enabled but did not run says nothing about its counts: the baseline stays where it was, and the next reading in
 * which the group did run is scaled over both intervals.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The result of one read(2) of a group leader. Times in ns. */
struct reading {
	uint64_t enabled;
	uint64_t running;
	const uint64_t *values;
	uint64_t most; /* ns: it can't have been enabled for longer since the baseline */
	bool brief;    /* too soon after the baseline: a share of so little time says little */
};

/* The reading that deltas are taken from; zeroed when the group is opened. */
struct baseline {
	uint64_t enabled;
	uint64_t running;
	uint64_t *values;
};

enum estimate {
	ESTIMATE_COUNTED,    /* deltas hold what to add; the baseline has moved on */
	ESTIMATE_UNOBSERVED, /* it did not run since the baseline, or for part of a brief time: nothing to add yet */
	/* The kernel's numbers went down: nothing is added. The baseline stays, so that values which they pass again
	 * are not counted twice. */
	ESTIMATE_BACKWARDS,
};

/*
 * Estimates nr counts. exact: the group is never multiplexed; its plain delta is taken, and its times, which are wrong
 * at times (kernel 6.18, cgroup events), are not looked at.
 *
 * The plain delta is also taken where the group ran for longer than it was enabled (the kernel reads the two clocks one
 * after the other), and where the times can't be true: they went down, or the group was enabled for longer than there
 * was time. Scaling is done in 128 bits, rounds to the nearest count and saturates.
 */
enum estimate estimate(struct baseline *base, const struct reading *now, size_t nr, bool exact, uint64_t *deltas);
