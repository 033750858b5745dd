/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * From two readings of a kernel group to its counts in between: the one place where these are scaled (unobserved.h is
 * for what has no reading). Pure.
 *
 * A group that shares the PMU runs only part of the time that it is enabled (perf_event_open(2),
 * PERF_FORMAT_TOTAL_TIME_RUNNING). Each interval's count is scaled by that interval's own share:
 *
 *     total += Δvalue × Δenabled / Δrunning
 *
 * So totals never go down, which value × enabled / running over the group's life can. An interval in which the group
 * was enabled but did not run says nothing about its counts: the baseline stays where it was, and the next reading in
 * which the group did run is scaled over both intervals.
 *
 * A clocked group has a clock of its own in it, because the kernel's running time of it is not to be trusted
 * (counting/engine/perf/run-clock.h). Once the kernel's times have been found false on this machine
 * (times_are_false()), the clock is the running time. Until then the kernel's is, which has the advantage that it and
 * the enabled time are taken at the same moments: the time that it takes to schedule the group is in both, and the
 * clock does not have it all. For the same reason a group ran all of the time where the kernel says so, and the clock
 * nearly does (ran_always()).
 *
 * A reading that can't be true is refused: nothing is added, and the baseline stays. So no time and no count is lost:
 * the next reading that can be true covers them. Only who calls can give up a baseline from which no reading comes true
 * any more (baseline_move()).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A reading makes an event count something by itself: so much, in so many readings of which that is known. */
struct reading_cost {
	uint64_t counts, readings;
};

/* The result of one read(2) of a group leader. Times in ns. */
struct reading {
	uint64_t enabled;
	uint64_t running; /* by the kernel */
	uint64_t clock;	  /* by the clock in the group, where it is clocked */
	bool clocked;
	bool doubtful; /* this kernel's running times have been found false */
	const uint64_t *values;
	uint64_t readings;		  /* that have been made of it: where they cost something */
	const struct reading_cost *costs; /* one a value; NULL: they cost nothing */
	const uint64_t *limits; /* one a value: there can't have been more since the baseline; NULL: there are none */
	uint64_t most;		/* ns: it can't have been enabled for longer since the baseline */
	bool brief;		/* too little was observed since the baseline to scale it */
	bool last;		/* none comes after it */
};

/* The reading that deltas are taken from; zeroed when the group is opened. */
struct baseline {
	uint64_t enabled;
	uint64_t running;
	uint64_t clock;
	uint64_t *values;
	uint64_t readings;
};

enum estimate {
	ESTIMATE_COUNTED,    /* deltas hold what to add; the baseline has moved on */
	ESTIMATE_UNOBSERVED, /* it did not run since the baseline, or too little to be scaled: nothing to add yet */
	/* The kernel's numbers went down: nothing is added. The baseline stays, so that values which they pass again
	 * are not counted twice. */
	ESTIMATE_BACKWARDS,
	/* Refused, of clocked groups: by its clock the group ran for longer than it was enabled. The kernel's enabled
	 * time lags, and is going to catch up. */
	ESTIMATE_LAGS,
	/* Refused, of clocked groups: a time went down, or the group was enabled for longer than there was time. */
	ESTIMATE_WRONG_TIME,
	/* Refused: a count is above its limit. deltas hold what would have been added. */
	ESTIMATE_TOO_MANY,
};

/*
 * Estimates nr counts. exact: the group is never multiplexed; its plain delta is taken, and its times, which are wrong
 * at times (kernel 6.18, cgroup events), are not looked at.
 *
 * The plain delta is also taken where the group ran for as long as it was enabled, or longer (the kernel reads the two
 * clocks one after the other), and of groups without a clock where the times can't be true: they went down, or the
 * group was enabled for longer than there was time. Scaling is done in 128 bits, rounds to the nearest count and
 * saturates.
 */
enum estimate estimate(struct baseline *base, const struct reading *now, size_t nr, bool exact, uint64_t *deltas);

/* The i-th event's counts since the baseline, without those that readings have made. These are not in the time in which
 * nobody has read it, and are not scaled. */
uint64_t reading_counts(const struct baseline *base, const struct reading *now, size_t i);

/* Takes deltas from this reading on; nr values. */
void baseline_move(struct baseline *base, const struct reading *now, size_t nr);

/* A CPU's events are enabled for as long as the CPU is online. May it have been offline for a part of the time between
 * two readings? The clocks of kernel and daemon may differ: an absence of less than 20 ms, or 1.6 % of the time, is not
 * seen. The kernel also stops them while it switches the events of cgroups, for several per cent of the time where
 * these are many: so ask as well whether they still count. */
bool time_is_missing(uint64_t enabled, uint64_t elapsed);

/* Of a clocked group, by the differences of its times between two readings: did it run all of the time? doubtful: as in
 * struct reading. */
bool ran_always(uint64_t enabled, uint64_t running, uint64_t clock, bool doubtful);
/* Does the kernel say that it ran for a part of the time, and for a quite different one from what it did? Or has it run
 * for longer than it was enabled? */
bool times_are_false(uint64_t enabled, uint64_t running, uint64_t clock);
