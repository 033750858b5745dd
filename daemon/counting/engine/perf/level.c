/* SPDX-License-Identifier: MIT */

#include "counting/engine/perf/level.h"

/* What a group misses while it is switched to is no estimate. */
#define FULL_SHARE 0.98

size_t set_find_witness(const struct scope_plan *plan, const struct set *set)
{
	for (size_t i = 0; i < set->nr; i++) {
		const struct perf_event_attr *attr = &plan->columns[set->columns[i]].event->attr;
		uint64_t config = attr->config & PERF_HW_EVENT_MASK;

		if (attr->type == PERF_TYPE_HARDWARE &&
		    (config == PERF_COUNT_HW_CPU_CYCLES || config == PERF_COUNT_HW_INSTRUCTIONS))
			return i;
	}
	return 0;
}

static void sums_add(struct perf_sums *sums, const struct perf_sums *more)
{
	sums->counted += more->counted;
	sums->covered += more->covered;
	sums->enabled += more->enabled;
	sums->running += more->running;
}

static void level_add(struct perf_level *level, const struct perf_sums *more)
{
	sums_add(&level->own, more);
	sums_add(&level->part, more);
}

void perf_level_add(struct perf_level *level, uint64_t counted, uint64_t covered)
{
	level_add(level, &(struct perf_sums){ .counted = (double)counted, .covered = (double)covered });
}

void perf_level_add_times(struct perf_level *level, uint64_t enabled, uint64_t running, uint64_t at)
{
	if (!level->begun_at)
		level->begun_at = level->halved_at = at;
	level_add(level, &(struct perf_sums){ .enabled = (double)enabled, .running = (double)running });
}

double perf_sums_estimate(const struct perf_sums *sums)
{
	return sums->covered > 0 ? sums->counted / sums->covered * sums->enabled : 0;
}

bool perf_level_is_estimated(const struct perf_level *level)
{
	return level->own.running < FULL_SHARE * level->own.enabled;
}

void perf_sums_halve(struct perf_sums *sums)
{
	sums->counted /= 2;
	sums->covered /= 2;
	sums->enabled /= 2;
	sums->running /= 2;
}

void perf_level_halve(struct perf_level *level, uint64_t at)
{
	perf_sums_halve(&level->own);
	perf_sums_halve(&level->gone);
	level->halved_at = at;
}

void perf_level_end(struct perf_level *parent, const struct perf_level *child)
{
	const struct perf_sums *part = &child->part;

	sums_add(&parent->gone, &(struct perf_sums){
					.counted = perf_sums_estimate(part),
					.covered = part->enabled,
					.enabled = part->enabled,
					.running = child->agrees ? part->running : 0,
				});
}
