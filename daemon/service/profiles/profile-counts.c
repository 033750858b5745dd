/* SPDX-License-Identifier: MIT */

#include "service/profiles/profile-counts.h"

#include "base/util/clock.h"

#include <errno.h>
#include <math.h>
#include <string.h>

void profile_counts_release(struct profile_counts *counts)
{
	for (size_t i = 0; i < counts->nr; i++)
		free(counts->cgroups[i].counted);
	free(counts->cgroups);
	*counts = (struct profile_counts){};
}

static bool is_clock(const struct event *event, uint64_t config)
{
	return event->attr.type == PERF_TYPE_SOFTWARE && event->attr.config == config && !event->attr.exclude_user &&
	       !event->attr.exclude_kernel;
}

/* Does the column count what is sampled? */
static bool counts_event(const struct column *column, const struct event_list *list)
{
	const struct event *sampled = &list->events[0];

	if (column->set == NO_SET || list->nr != 1)
		return false;
	if (is_clock(sampled, PERF_COUNT_SW_CPU_CLOCK) || is_clock(sampled, PERF_COUNT_SW_TASK_CLOCK))
		return is_clock(column->event, PERF_COUNT_SW_TASK_CLOCK);
	return event_equal(column->event, sampled);
}

static size_t find_column(const struct history *history, const struct event_list *sampled)
{
	const struct scope_plan *plan = &history->plan->scope[SCOPE_CGROUP];

	for (size_t i = 0; i < plan->nr_columns; i++)
		if (counts_event(&plan->columns[i], sampled))
			return i;
	return NO_COLUMN;
}

static void fill_times(struct profile_counts *ret, const struct history_slot *slots)
{
	ret->begin = clock_whole_ms(slots[0].end.monotonic - slots[0].length);
	for (size_t i = 0; i < ret->nr_slots; i++)
		ret->ends[i] = clock_whole_ms(slots[i].end.monotonic);
}

static int add_row(struct profile_counts *counts, const struct history *history, const struct history_row *row,
		   size_t column, const struct history_slot *slots)
{
	struct profile_count *count;

	if (row->scope != SCOPE_CGROUP)
		return 0;
	if (row->cpu != ROW_ALL_CPUS && history->left_out) {
		counts->problem = "the history has no room for all CPUs of all cgroups: raise history_memory";
		return 0;
	}
	count = &counts->cgroups[counts->nr];
	*count = (struct profile_count){ .cgroup = row->identity->label };
	count->counted = calloc(counts->nr_slots, sizeof(*count->counted));
	if (!count->counted)
		return -ENOMEM;
	counts->nr++;
	/* The samples of a CPU that was not counted are there. */
	for (size_t i = 0; i < counts->nr_slots; i++)
		count->counted[i] = slots[i].gap ? NAN : history_point(history, row, column, &slots[i]);
	return 0;
}

static int compare_counts(const void *a, const void *b)
{
	return strcmp(((const struct profile_count *)a)->cgroup, ((const struct profile_count *)b)->cgroup);
}

/* Cgroups of one label, one after the other, and one on several CPUs: what is known of any is known. */
static void merge_equal(struct profile_counts *counts)
{
	size_t nr = 0;

	qsort(counts->cgroups, counts->nr, sizeof(*counts->cgroups), compare_counts);
	for (size_t i = 0; i < counts->nr; i++) {
		struct profile_count *last = nr ? &counts->cgroups[nr - 1] : NULL, *count = &counts->cgroups[i];

		if (!last || strcmp(last->cgroup, count->cgroup)) {
			counts->cgroups[nr++] = *count;
			continue;
		}
		for (size_t slot = 0; slot < counts->nr_slots; slot++)
			if (isnan(last->counted[slot]))
				last->counted[slot] = count->counted[slot];
			else if (!isnan(count->counted[slot]))
				last->counted[slot] += count->counted[slot];
		free(count->counted);
	}
	counts->nr = nr;
}

int profile_counts_read(struct profile_counts *ret, const struct history *history, const struct event_list *sampled)
{
	struct history_slot slots[HISTORY_SLOTS];
	const struct history_row *row;
	size_t column;
	int r = 0;

	_Static_assert(HISTORY_SLOTS <= PROFILE_SLOTS_MAX, "there is room for all slots");
	*ret = (struct profile_counts){};
	ret->nr_slots = history->plan ? history_slots(history, slots) : 0;
	column = ret->nr_slots ? find_column(history, sampled) : NO_COLUMN;
	if (!ret->nr_slots)
		ret->problem = "nothing is known of the counters' past: it has just begun, or history_memory is 0";
	else if (column == NO_COLUMN)
		ret->problem = "no group of [cgroup] counts this event; CPU time is counted by task-clock";
	if (ret->problem)
		return 0;
	fill_times(ret, slots);
	ret->root_is_idle = is_clock(&sampled->events[0], PERF_COUNT_SW_CPU_CLOCK) ||
			    is_clock(&sampled->events[0], PERF_COUNT_SW_TASK_CLOCK);
	ret->cgroups = calloc(history->nr_rows + 1, sizeof(*ret->cgroups));
	if (!ret->cgroups)
		return -ENOMEM;
	TAILQ_FOREACH(row, &history->there, in_list)
		r = r < 0 ? r : add_row(ret, history, row, column, slots);
	TAILQ_FOREACH(row, &history->gone, in_list)
		r = r < 0 ? r : add_row(ret, history, row, column, slots);
	if (r < 0)
		profile_counts_release(ret);
	else
		merge_equal(ret);
	return r;
}
