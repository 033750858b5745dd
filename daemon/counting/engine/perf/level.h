/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a set of a cgroup has counted of one event, the witness: cycles or instructions, which are counted all the time,
 * or else the event that leads the set. levels.h compares it with what cgroups below have.
 *
 * Sums fade: they are halved from time to time, so that they tell of the present. A cgroup is in two comparisons, with
 * its children and as a child. All sums of one comparison are halved at the same reading, each comparison when it has
 * enough to spare. So a cgroup has its sums twice.
 */

#include "counting/plan/plan.h"

/* Not whole numbers, so that halving keeps what they are to each other. */
struct perf_sums {
	double counted;		 /* of the witness, on all CPUs */
	double covered;		 /* ns: the part of `enabled` that these counts cover */
	double enabled, running; /* ns */
};

struct perf_level {
	uint64_t begun_at;  /* CLOCK_MONOTONIC ns of the reading since which it counts; 0: there was none yet */
	uint64_t halved_at; /* … of the reading at which it was halved last, or of the first one */
	bool agrees;	    /* as it was compared last; nothing else is shown of an estimate */

	struct perf_sums own;  /* to be compared with its children's; halved with `gone` */
	struct perf_sums part; /* the same, to be compared with its parent's; halved with the parent's `own` */

	/* Of its children: counted is what they are estimated to have, covered is the part of `enabled` that is of
	 * children which are compared themselves. */
	struct perf_sums gone;	/* those that have ended; running: of those that agreed */
	struct perf_sums below; /* all, as they were compared last */

	/* While levels are compared: */
	bool halved;	   /* at this reading */
	bool compared;	   /* with its children, of which it has no need if it has none */
	bool contradicted; /* somewhere in its tree */
};

/* The member of the set that is the witness. */
size_t set_find_witness(const struct scope_plan *plan, const struct set *set);

/* Notes what a reading has counted of the witness, and the enabled time that this covers. */
void perf_level_add(struct perf_level *level, uint64_t counted, uint64_t covered);
/* Notes the times that a reading has shown. at: CLOCK_MONOTONIC ns. */
void perf_level_add_times(struct perf_level *level, uint64_t enabled, uint64_t running, uint64_t at);

/* How much was counted, with what waits to be scaled. */
double perf_sums_estimate(const struct perf_sums *sums);
/* Has it run for a part of the time only? */
bool perf_level_is_estimated(const struct perf_level *level);

void perf_sums_halve(struct perf_sums *sums);
/* Halves what is compared with its children; their part is left to the caller. at: CLOCK_MONOTONIC ns. */
void perf_level_halve(struct perf_level *level, uint64_t at);

/* A child ends: what it has counted stays in its parent. */
void perf_level_end(struct perf_level *parent, const struct perf_level *child);
