/* SPDX-License-Identifier: MIT */

#include "web/expose/past.h"

#include "base/util/clock.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* A copy takes a few steps between two readings. */
#define BEGINNINGS_MAX 10

/* --- points */

static void add_points(const struct past *past, const struct history_row *row, size_t column, double *points)
{
	for (size_t i = 0; i < past->nr_all; i++) {
		double count = (double)history_point(past->history, row, column, &past->all[i]);

		if (!isnan(count))
			points[i] = isnan(points[i]) ? count : points[i] + count;
	}
}

static uint64_t newest_total(const struct history_row *row, size_t column)
{
	uint64_t at = row->cells[column].at;

	return at == HISTORY_UNKNOWN ? 0 : at;
}

/* Fills in the points of all slots, and returns the total at the end of the newest one. */
static uint64_t load_points(const struct past *past, const struct past_target *target, size_t column, double *points)
{
	const struct history_row *row = NULL;
	uint64_t total = 0;

	for (size_t i = 0; i < past->nr_all; i++)
		points[i] = NAN;
	if (target->row) {
		add_points(past, target->row, column, points);
		return newest_total(target->row, column);
	}
	while ((row = history_next(past->history, row)) && !row->gone)
		if (row->scope == SCOPE_CPU) {
			add_points(past, row, column, points);
			total += newest_total(row, column);
		}
	return total;
}

/* The total is worked out from the newest one. */
static void load_series(const struct past *past, const struct past_target *target, size_t column, double *values)
{
	double points[HISTORY_SLOTS], total = (double)load_points(past, target, column, points);

	for (size_t i = 0; i < past->nr_all; i++)
		total -= isnan(points[i]) || past->repeated[i] ? 0 : points[i];
	total = total > 0 ? total : 0;
	for (size_t i = 0; i < past->first; i++)
		total += isnan(points[i]) || past->repeated[i] ? 0 : points[i];
	values[0] = total;
	memcpy(values + 1, points + past->first, (past->end - past->first) * sizeof(*values));
}

static size_t series_size(const struct past *past)
{
	return 1 + past->end - past->first;
}

const double *past_series(struct past *past, const struct past_target *target, size_t i)
{
	if (past->kind != PAST_WHOLE)
		return past->values + (target->series + i) * series_size(past);
	load_series(past, target, past->columns[target->scope][i], past->values);
	return past->values;
}

/* --- beginning */

/* Slots that follow each other can overlap by a drift of the clock. */
static void mark_repeated(struct past *past)
{
	uint64_t first = UINT64_MAX - CLOCK_STEP_NS;

	for (size_t i = past->nr_all; i-- > 0;) {
		const struct history_slot *slot = &past->all[i];

		past->repeated[i] = slot->end.realtime > first + CLOCK_STEP_NS;
		if (!past->repeated[i] && slot->end.realtime - slot->length < first)
			first = slot->end.realtime - slot->length;
	}
}

/* A slot is of the stretch in which its end is, and one that ends with a stretch is not of the next one. */
static int choose_slots(struct past *past)
{
	const struct history *history = past->history;
	uint64_t from, to;
	int r = clock_steps_stretch(history_clock(history), &past->query->from, &past->query->to, &from, &to);

	past->nr_all = history_plan(history) ? history_slots(history, past->all) : 0;
	while (past->first < past->nr_all && past->all[past->first].end.boottime <= from)
		past->first++;
	past->end = past->nr_all;
	while (past->end > past->first && past->all[past->end - 1].end.boottime > to)
		past->end--;
	mark_repeated(past);
	return r;
}

static void past_release(struct past *past)
{
	plan_unref(past->plan);
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		free(past->columns[scope]);
	for (size_t i = 0; i < past->nr_targets; i++)
		cgroup_identity_unref(past->targets[i].identity);
	free(past->targets);
	free(past->values);
	sieve_release(&past->events);
	sieve_release(&past->cgroups);
}

static void add_target(struct past *past, enum scope scope, const struct history_row *row)
{
	past->targets[past->nr_targets++] = (struct past_target){
		.scope = scope,
		.row = row,
		.identity = row && row->identity ? cgroup_identity_ref(row->identity) : NULL,
		.cpu = row ? row->cpu : ROW_ALL_CPUS,
		.gone = row && row->gone,
		.series = past->nr_series,
	};
}

static size_t nr_shown(const struct past *past, int scope)
{
	return past->plan && !past->query->without[scope] ? plan_nr_shown(&past->plan->scope[scope]) : 0;
}

static int allocate(struct past *past)
{
	past->targets = calloc(history_stats(past->history).nr_rows + 1, sizeof(*past->targets));
	past->room = past->kind == PAST_WHOLE ? 1 : 64;
	past->values = calloc(past->room, series_size(past) * sizeof(*past->values));
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		past->columns[scope] = calloc(nr_shown(past, scope) + 1, sizeof(size_t));
		if (!past->columns[scope])
			return -ENOMEM;
	}
	return past->targets && past->values ? 0 : -ENOMEM;
}

/* Or begins anew. */
static int begin_copy(struct past *past)
{
	const struct history *history = past->history;
	const struct history_stats stats = history_stats(history);
	struct plan *plan = history_plan(history);
	int r;

	past_release(past);
	*past = (struct past){
		.history = history,
		.snapshot = past->snapshot,
		.query = past->query,
		.kind = past->kind,
		.plan = plan ? plan_ref(plan) : NULL,
		.changes = stats.changes,
		.nr_begun = past->nr_begun + 1,
	};
	sieve_init(&past->events, past->query->event);
	sieve_init(&past->cgroups, past->query->cgroup);
	r = choose_slots(past);
	if (r == 0)
		r = allocate(past);
	if (r == 0 && past->snapshot->options.aggregate && stats.nr_rows && !past->query->without[SCOPE_CPU])
		add_target(past, SCOPE_CPU, NULL);
	return r;
}

int past_new(struct past **ret, const struct history *history, const struct snapshot *snapshot,
	     const struct expose_query *query, enum past_kind kind)
{
	_cleanup_(past_freep) struct past *past = calloc(1, sizeof(*past));
	int r;

	if (!past)
		return -ENOMEM;
	past->history = history;
	past->snapshot = snapshot;
	past->query = query;
	past->kind = kind;
	r = begin_copy(past);
	if (r < 0)
		return r;
	*ret = steal_ptr(past);
	return 0;
}

struct past *past_free(struct past *past)
{
	if (past)
		past_release(past);
	free(past);
	return NULL;
}

/* --- steps: 1; 0: there is no more to do; or an error */

static int choose_column(struct past *past)
{
	enum scope scope = (enum scope)past->scope;

	if (past->next == nr_shown(past, scope)) {
		past->scope++;
		past->next = 0;
		return 1;
	}
	if (sieve_admits_event(&past->events, past->plan->scope[scope].columns[past->next].event))
		past->columns[scope][past->nr_columns[scope]++] = past->next;
	past->next++;
	return sieve_is_exhausted(&past->events) ? -E2BIG : 1;
}

static int choose_target(struct past *past)
{
	const struct history_row *row = history_next(past->history, past->row);
	bool is_sum = row && row->scope == SCOPE_CPU && past->snapshot->options.aggregate;

	if (!row)
		return 0;
	past->row = row;
	if (past->query->without[row->scope] || is_sum)
		return 1;
	if (!row->identity || sieve_admits_text(&past->cgroups, row->identity->label))
		add_target(past, row->scope, row);
	return sieve_is_exhausted(&past->cgroups) ? -E2BIG : 1;
}

static bool make_room(struct past *past)
{
	double *values;

	if (past->nr_series < past->room)
		return true;
	values = reallocarray(past->values, 2 * past->room, series_size(past) * sizeof(*values));
	if (!values)
		return false;
	past->values = values;
	past->room *= 2;
	return true;
}

/* A column of the first target that is not copied yet. */
static int copy_column(struct past *past)
{
	const struct past_target *target = &past->targets[past->copied];
	size_t nr = past->end - past->first;

	if (past->column == past->nr_columns[target->scope] || past->kind == PAST_WHOLE) {
		past->copied++;
		past->column = 0;
		return 1;
	}
	if ((past->nr_series + 1) * nr > PAST_POINTS_MAX)
		return -EOVERFLOW;
	if (!make_room(past))
		return -ENOMEM;
	load_series(past, target, past->columns[target->scope][past->column++],
		    past->values + past->nr_series++ * series_size(past));
	return 1;
}

int past_step(struct past *past, uint64_t until)
{
	int r = past->is_complete ? 0 : 1;

	if (r && past->changes != history_stats(past->history).changes)
		r = past->nr_begun == BEGINNINGS_MAX ? -ESTALE : begin_copy(past) ?: 1;
	while (r > 0) {
		if (past->scope < _SCOPE_MAX)
			r = choose_column(past);
		else if (past->copied < past->nr_targets)
			r = copy_column(past);
		else
			r = choose_target(past);
		if (clock_monotonic_ns() >= until)
			break;
	}
	past->is_complete = r == 0;
	return r;
}

const struct column *past_column(const struct past *past, enum scope scope, size_t i)
{
	return &past->plan->scope[scope].columns[past->columns[scope][i]];
}
