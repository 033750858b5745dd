/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a set of a cgroup has counted of one event, the witness: cycles or instructions, which are counted all the time,
 * or else the event that leads the set. levels.h compares it with what cgroups below have.
 */

#include "plan/plan.h"

struct perf_level {
	uint64_t begun_at;	   /* CLOCK_MONOTONIC ns of the reading since which it counts; 0: there was none yet */
	uint64_t counted;	   /* of the witness, on all CPUs */
	uint64_t covered;	   /* ns: the part of `enabled` that these counts cover */
	uint64_t enabled, running; /* ns */
	bool agrees;		   /* as it was compared last; nothing else is shown of an estimate */

	/* Of children that have ended since. */
	double gone, gone_enabled;

	/* While levels are compared, of its children: */
	double below, below_enabled, below_running;
	double below_covered; /* the part of below_enabled that is of children which are compared themselves */
	bool compared;	      /* with its children, of which it has no need if it has none */
	bool contradicted;    /* somewhere in its tree */
};

/* The member of the set that is the witness. */
size_t set_find_witness(const struct scope_plan *plan, const struct set *set);

/* Notes what a reading has counted of the witness, and the enabled time that this covers. */
void perf_level_add(struct perf_level *level, uint64_t counted, uint64_t covered);
/* Notes the times that a reading has shown. at: CLOCK_MONOTONIC ns. */
void perf_level_add_times(struct perf_level *level, uint64_t enabled, uint64_t running, uint64_t at);

/* How much it has counted, with what waits to be scaled. */
double perf_level_estimate(const struct perf_level *level);
/* Has it run for a part of the time only? */
bool perf_level_is_estimated(const struct perf_level *level);

/* A child ends: what it has counted stays in its parent. */
void perf_level_end(struct perf_level *parent, const struct perf_level *child);
