/* SPDX-License-Identifier: MIT */

#include "counting/engine/perf/run-clock.h"

static char clock_text[] = "cpu-clock", clock_pmu[] = "software";

static const struct event clock_event = {
	.text = clock_text,
	.metric = clock_text,
	.pmu = clock_pmu,
	.software = true,
	.attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(struct perf_event_attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
	},
};

bool set_has_run_clock(const struct scope_plan *plan, const struct set *set)
{
	return !set->exact && plan->columns[set->columns[0]].scope == SCOPE_CGROUP;
}

size_t set_nr_events(const struct scope_plan *plan, const struct set *set)
{
	return set->nr + set_has_run_clock(plan, set);
}

size_t set_nth_opened(const struct scope_plan *plan, const struct set *set, size_t nth)
{
	if (nth == 0 || !set_has_run_clock(plan, set))
		return nth;
	return nth == 1 ? set->nr : nth - 1;
}

const struct event *set_event(const struct scope_plan *plan, const struct set *set, size_t at,
			      struct perf_event_attr *ret_attr)
{
	if (at < set->nr) {
		*ret_attr = set_attr(plan, set, at);
		return plan->columns[set->columns[at]].event;
	}
	*ret_attr = clock_event.attr;
	return &clock_event;
}
