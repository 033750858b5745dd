/* SPDX-License-Identifier: MIT */

#include "counting/alarm/capture-values.h"

#include "base/util/clock.h"
#include "counting/alarm/capture-rules.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

/* --- captures */

static void release_values(struct capture_values *values)
{
	free((char *)values->id);
	free((char *)values->cgroup);
	free((char *)values->counter);
	free(values->points);
	*values = (struct capture_values){};
}

static void drop_values(struct capture_values_list *list, size_t i)
{
	release_values(&list->items[i]);
	list->nr--;
	memmove(&list->items[i], &list->items[i + 1], (list->nr - i) * sizeof(list->items[i]));
}

void capture_values_release(struct capture_values_list *list)
{
	while (list->nr > 0)
		drop_values(list, list->nr - 1);
}

char *capture_values_new_id(const struct capture_values_list *list, const char *rule, uint64_t realtime)
{
	time_t seconds = (time_t)(realtime / NS_PER_S);
	char when[32] = "", *id;
	struct tm utc;

	if (gmtime_r(&seconds, &utc))
		(void)strftime(when, sizeof(when), "%Y%m%dT%H%M%SZ", &utc);
	return asprintf(&id, "%s-%s-%" PRIu64, rule, when, list->ever + 1) < 0 ? NULL : id;
}

int capture_values_add(struct capture_values_list *list, const struct capture_values *capture)
{
	struct capture_values values = {
		.id = strdup(capture->id),
		.cgroup = capture->cgroup ? strdup(capture->cgroup) : NULL,
		.counter = strdup(capture->counter),
		.from = capture->from,
		.to = capture->to,
	};

	/* Its number is used up, with and without values. */
	list->ever++;
	if (!values.id || !values.counter || (capture->cgroup && !values.cgroup)) {
		release_values(&values);
		return -ENOMEM;
	}
	if (list->nr == CAPTURE_VALUES_MAX)
		drop_values(list, 0);
	list->items[list->nr++] = values;
	return 0;
}

void capture_values_trim(struct capture_values_list *list, bool (*is_there)(const void *userdata, const char *id),
			 const void *userdata)
{
	for (size_t i = list->nr; i > 0; i--)
		if (!is_there(userdata, list->items[i - 1].id))
			drop_values(list, i - 1);
}

const struct capture_values *capture_values_at(const struct capture_values_list *list, size_t i)
{
	return i < list->nr ? &list->items[i] : NULL;
}

/* --- points */

/* The slots of a stretch, and the counts of its counter in each; NAN: not known. */
struct stretch {
	struct history_slot slots[HISTORY_SLOTS];
	double counts[HISTORY_SLOTS];
	size_t nr;
};

static void find_slots(struct stretch *ret, const struct capture_values *values, const struct history *history)
{
	size_t nr = history_slots(history, ret->slots);

	ret->nr = 0;
	for (size_t i = 0; i < nr; i++) {
		const struct history_slot *slot = &ret->slots[i];

		if (slot->end.monotonic <= values->from || slot->end.monotonic - slot->length >= values->to)
			continue;
		ret->counts[ret->nr] = NAN;
		ret->slots[ret->nr++] = *slot;
	}
}

static bool is_row_of(const struct capture_values *values, const struct history_row *row)
{
	if (!values->cgroup)
		return row->scope == SCOPE_CPU;
	return row->scope == SCOPE_CGROUP && strcmp(row->identity->label, values->cgroup) == 0;
}

/* A count of one column is enough, and so is one of one row. */
static void add_count(double *sum, double count)
{
	if (!isnan(count))
		*sum = isnan(*sum) ? count : *sum + count;
}

static void add_counts(struct stretch *stretch, const struct capture_values *values, const struct history *history,
		       const struct rule_columns *columns)
{
	const struct history_row *row = NULL;

	while ((row = history_next(history, row))) {
		if (!is_row_of(values, row))
			continue;
		for (size_t i = 0; i < stretch->nr; i++)
			for (size_t k = 0; k < columns->nr; k++)
				add_count(&stretch->counts[i],
					  (double)history_point(history, row, columns->items[k], &stretch->slots[i]));
	}
}

/* False: no memory. scale: of the counter's counts. */
static bool set_points(struct capture_values *values, const struct stretch *stretch, double scale)
{
	struct capture_point *points = calloc(stretch->nr + 1, sizeof(*points));

	if (!points)
		return false;
	for (size_t i = 0; i < stretch->nr; i++) {
		const struct history_slot *slot = &stretch->slots[i];

		points[i].end = slot->end.realtime;
		points[i].rate = slot->gap ? NAN : stretch->counts[i] * scale / ((double)slot->length / NS_PER_S);
	}
	free(values->points);
	values->points = points;
	values->nr_points = stretch->nr;
	return true;
}

/* Where the counter is not counted any more, the points that there are stay. */
static void take_values(struct capture_values *values, const struct history *history, uint64_t newest)
{
	const struct scope_plan *plan = &history_plan(history)->scope[values->cgroup ? SCOPE_CGROUP : SCOPE_CPU];
	struct rule_columns columns;
	struct stretch stretch;

	if (!capture_rule_columns(&columns, values->counter, plan))
		return;
	find_slots(&stretch, values, history);
	add_counts(&stretch, values, history, &columns);
	if (set_points(values, &stretch, plan->columns[columns.items[0]].event->scale))
		values->taken = newest;
}

void capture_values_take(struct capture_values_list *list, const struct history *history)
{
	uint64_t newest = history_stats(history).newest;

	for (size_t i = 0; history_plan(history) && i < list->nr; i++) {
		struct capture_values *values = &list->items[i];

		if (values->taken < values->to && values->taken < newest)
			take_values(values, history, newest);
	}
}
