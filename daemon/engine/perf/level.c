/* SPDX-License-Identifier: MIT */

#include "engine/perf/level.h"

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

void perf_level_add(struct perf_level *level, uint64_t counted, uint64_t covered)
{
	level->counted += counted;
	level->covered += covered;
}

void perf_level_add_times(struct perf_level *level, uint64_t enabled, uint64_t running, uint64_t at)
{
	if (!level->begun_at)
		level->begun_at = at;
	level->enabled += enabled;
	level->running += running;
}

double perf_level_estimate(const struct perf_level *level)
{
	return level->covered ? (double)level->counted / (double)level->covered * (double)level->enabled : 0;
}

bool perf_level_is_estimated(const struct perf_level *level)
{
	return (double)level->running < FULL_SHARE * (double)level->enabled;
}

void perf_level_end(struct perf_level *parent, const struct perf_level *child)
{
	parent->gone += perf_level_estimate(child);
	parent->gone_enabled += (double)child->enabled;
}
