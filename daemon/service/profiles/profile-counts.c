/* SPDX-License-Identifier: MIT */

#include "service/profiles/profile-counts.h"

#include "base/util/clock.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Points in a step: less than 10 ms on a slow machine, and 500 cgroups of the whole past. */
#define STEP_POINTS 150000

struct counts_row {
	const char *label;
	const struct history_row *row;
};

struct counts_reader {
	struct buf *out;
	size_t begin; /* bytes of the message before the counts */
	const struct history *history;
	struct event_list sampled;
	uint64_t from, to; /* CLOCK_MONOTONIC ns */
	char *prefix;	   /* of the labels */

	/* Of the history after so many changes: */
	bool has_begun;
	uint64_t changes;
	struct history_slot slots[HISTORY_SLOTS];
	size_t nr_slots, column;
	struct counts_row *rows; /* sorted by the label */
	size_t nr, at;
};

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
	const struct scope_plan *plan = &history_plan(history)->scope[SCOPE_CGROUP];

	for (size_t i = 0; i < plan->nr_columns; i++)
		if (counts_event(&plan->columns[i], sampled))
			return i;
	return NO_COLUMN;
}

/* The slots that the stretch reaches into. */
static void find_slots(struct counts_reader *reader, struct profile_counts *counts)
{
	size_t nr = history_slots(reader->history, reader->slots);

	reader->nr_slots = 0;
	for (size_t i = 0; i < nr; i++) {
		const struct history_slot slot = reader->slots[i];
		uint64_t begin = clock_whole_ms(slot.end.monotonic - slot.length);

		if (slot.end.monotonic <= reader->from || begin >= reader->to)
			continue;
		if (!reader->nr_slots)
			counts->begin = begin;
		counts->ends[reader->nr_slots] = clock_whole_ms(slot.end.monotonic);
		reader->slots[reader->nr_slots++] = slot;
	}
	counts->nr_slots = reader->nr_slots;
	if (!nr)
		counts->problem = "nothing is known of the counters' past: it has just begun, or history_memory is 0";
}

static void add_rows(struct counts_reader *reader, bool has_left_out, struct profile_counts *counts)
{
	const struct history_row *row = NULL;

	while ((row = history_next(reader->history, row))) {
		if (row->scope != SCOPE_CGROUP ||
		    strncmp(row->identity->label, reader->prefix, strlen(reader->prefix)) != 0)
			continue;
		if (row->cpu != ROW_ALL_CPUS && has_left_out)
			counts->problem = "the history has no room for all CPUs of all cgroups: raise history_memory";
		reader->rows[reader->nr++] = (struct counts_row){ row->identity->label, row };
	}
}

static int compare_rows(const void *a, const void *b)
{
	return strcmp(((const struct counts_row *)a)->label, ((const struct counts_row *)b)->label);
}

/* Is it of the same label as the one before it? */
static bool is_more(const struct counts_reader *reader, size_t i)
{
	return i > 0 && strcmp(reader->rows[i - 1].label, reader->rows[i].label) == 0;
}

static int find_rows(struct counts_reader *reader, struct profile_counts *counts)
{
	const struct history_stats stats = history_stats(reader->history);

	reader->rows = calloc(stats.nr_rows + 1, sizeof(*reader->rows));
	if (!reader->rows)
		return -ENOMEM;
	add_rows(reader, stats.left_out > 0, counts);
	qsort(reader->rows, reader->nr, sizeof(*reader->rows), compare_rows);
	for (size_t i = 0; i < reader->nr; i++)
		counts->nr += !is_more(reader, i);
	return 0;
}

/* Or begins again. */
static int begin_reading(struct counts_reader *reader)
{
	const struct event *sampled = &reader->sampled.events[0];
	struct profile_counts counts = {
		.root_is_idle = is_clock(sampled, PERF_COUNT_SW_CPU_CLOCK) ||
				is_clock(sampled, PERF_COUNT_SW_TASK_CLOCK),
	};
	int r = 0;

	_Static_assert(HISTORY_SLOTS <= PROFILE_SLOTS_MAX, "there is room for all slots");
	free(steal_ptr(reader->rows));
	reader->nr = reader->at = 0;
	reader->changes = history_stats(reader->history).changes;
	find_slots(reader, &counts);
	reader->column = counts.problem ? NO_COLUMN : find_column(reader->history, &reader->sampled);
	if (!counts.problem && reader->column == NO_COLUMN)
		counts.problem = "no group of [cgroup] counts this event; CPU time is counted by task-clock";
	if (!counts.problem && reader->nr_slots)
		r = find_rows(reader, &counts);
	if (counts.problem)
		reader->nr = counts.nr = 0;
	reader->out->len = reader->begin;
	write_counts(reader->out, &counts);
	return r;
}

static void add_points(const struct counts_reader *reader, float *sums, const struct history_row *row)
{
	for (size_t i = 0; i < reader->nr_slots; i++) {
		float count = history_point(reader->history, row, reader->column, &reader->slots[i]);

		/* The samples of a CPU that was not counted are there. */
		if (!reader->slots[i].gap && !isnan(count))
			sums[i] = isnan(sums[i]) ? count : sums[i] + count;
	}
}

/* The next label: of cgroups one after the other, or of one on several CPUs. A count of one of them is enough. */
static void read_label(struct counts_reader *reader)
{
	float sums[HISTORY_SLOTS];
	const struct profile_count count = { reader->rows[reader->at].label, sums };

	for (size_t i = 0; i < reader->nr_slots; i++)
		sums[i] = NAN;
	do
		add_points(reader, sums, reader->rows[reader->at++].row);
	while (reader->at < reader->nr && is_more(reader, reader->at));
	write_count(reader->out, &count, reader->nr_slots);
}

int counts_reader_step(struct counts_reader *reader)
{
	size_t end;

	if (reader->changes != history_stats(reader->history).changes || !reader->has_begun) {
		int r = begin_reading(reader);

		reader->has_begun = r == 0;
		return r < 0 ? r : reader->nr > 0;
	}
	end = reader->at + STEP_POINTS / reader->nr_slots;
	while (reader->at < reader->nr && reader->at < end)
		read_label(reader);
	return reader->at < reader->nr;
}

/* --- life */

/* The part of all labels that the question's glob can match, and of those below them. */
static char *common_prefix(const struct profile_question *question)
{
	const char *glob = question->cgroup ?: "";

	return strndup(glob, strcspn(glob, "*?["));
}

int counts_reader_new(struct counts_reader **ret, struct buf *out, const struct history *history,
		      struct event_list *sampled, const struct profile_question *question, struct reason *why)
{
	_cleanup_(counts_reader_freep) struct counts_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return reason_set(why, -ENOMEM, "out of memory");
	reader->prefix = common_prefix(question);
	if (!reader->prefix)
		return reason_set(why, -ENOMEM, "out of memory");
	if (profile_question_stretch(question, &question->clock, &reader->from, &reader->to) < 0)
		return reason_set(why, -EINVAL, CLOCK_STEPS_REVERSED);
	write_asked(out, question);
	reader->out = out;
	reader->begin = out->len;
	reader->history = history;
	reader->sampled = steal_struct(*sampled);
	*ret = steal_ptr(reader);
	return 0;
}

struct counts_reader *counts_reader_free(struct counts_reader *reader)
{
	if (!reader)
		return NULL;
	event_list_release(&reader->sampled);
	free(reader->prefix);
	free(reader->rows);
	free(reader);
	return NULL;
}
