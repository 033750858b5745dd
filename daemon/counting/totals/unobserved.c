/* SPDX-License-Identifier: MIT */

#include "counting/totals/unobserved.h"

#include <math.h>
#include <stdlib.h>

/* Less than this is as good as nothing observed. With five times as much, ancestors of jobs of 70 us are taken to have
 * counted in them as in all else for too long: the storm `jobs beside a storm` was 11 % too low, once in nine runs. */
#define LEAST_NS 2e5
/* So much of the time observed tells of now: it is halved when it is more. */
#define MOST_NS 1e9

struct unobserved_pool {
	double running;	 /* ns that were observed */
	double counts[]; /* in that time, of each event */
};

void unobserved_learn(struct unobserved_pool **pool, size_t nr, const struct baseline *base, const struct reading *now)
{
	if (now->running <= base->running)
		return;
	if (!*pool)
		*pool = calloc(1, sizeof(**pool) + nr * sizeof((*pool)->counts[0]));
	if (!*pool)
		return;
	(*pool)->running += (double)(now->running - base->running);
	for (size_t i = 0; i < nr; i++)
		(*pool)->counts[i] += (double)reading_counts(base, now, i);
	if ((*pool)->running <= MOST_NS)
		return;
	(*pool)->running /= 2;
	for (size_t i = 0; i < nr; i++)
		(*pool)->counts[i] /= 2;
}

bool unobserved_estimate(const struct unobserved_pool *pool, size_t nr, uint64_t covered, uint64_t *ret)
{
	if (!pool || pool->running < LEAST_NS || covered == 0)
		return false;
	for (size_t i = 0; i < nr; i++)
		ret[i] = (uint64_t)llround(pool->counts[i] / pool->running * (double)covered);
	return true;
}

bool unobserved_estimate_by_row(const struct totals_row *row, const struct set *set, size_t number, uint64_t covered,
				uint64_t *ret)
{
	const struct totals_times *times = &row->times[number];
	double time = (double)times->enabled;

	if ((double)times->running < LEAST_NS || covered == 0)
		return false;
	for (size_t i = 0; i < set->nr; i++)
		ret[i] = (uint64_t)llround((double)row->cells[set->columns[i]].total / time * (double)covered);
	return true;
}
