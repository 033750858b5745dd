/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Counts of cgroups that have ended before enough of them was observed.
 *
 * The BPF engine reads dear events for a part of the time, and a multiplexed set counts for a part of it: a cgroup that
 * lives for milliseconds can fall between. Nobody knows its counts, but its ancestors have its time, and would come out
 * too low. Chance has let others that ended below the same target be observed, or parts of them: so it is taken to have
 * counted as much in its time as these in theirs. That is an estimate, as all that is scaled; it is for ancestors, and
 * for a cgroup itself only if something was observed of it.
 *
 * Without it, a parent of 300 short jobs has 31 % too little under a budget of 1 %: guest/test_truth.py, `jobs`.
 */

#include "counting/totals/estimate.h"
#include "counting/totals/rows.h"

/* Counts of those that have ended, as far as they were observed, of nr events. */
struct unobserved_pool;

/* One ends: notes what it was observed to count from `base` to `now`. Makes the pool where it is NULL, which the caller
 * frees; without memory nothing is noted. */
void unobserved_learn(struct unobserved_pool **pool, size_t nr, const struct baseline *base, const struct reading *now);

/* The counts of one that was not observed, in its last `covered` ns: by the pool, or by all that the row's cgroup has
 * counted. False: too little of these was observed. */
bool unobserved_estimate(const struct unobserved_pool *pool, size_t nr, uint64_t covered, uint64_t *ret);
bool unobserved_estimate_by_row(const struct totals_row *row, const struct set *set, size_t number, uint64_t covered,
				uint64_t *ret);
