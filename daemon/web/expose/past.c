/* SPDX-License-Identifier: MIT */

/*
 *   {"timestamp": 1700000000.123, "times": [1699999940.1, …], "seconds": [1.0, …],
 *    "cpus": [{"cpu": 0, "events": {"cycles": [2.1e9, null, …]}}],
 *    "cgroups": [{"cgroup": "/a", "id": 7, "gone": true, "events": {…}}]}
 *
 * times are the ends of the slots, seconds their lengths; rates are in the event's unit per second.
 */

#include "web/expose/past.h"

#include "base/util/clock.h"
#include "base/util/escape.h"
#include "base/util/number.h"
#include "web/expose/family.h"
#include "web/expose/sieve.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A target of the answer: a row, or the sum of all CPUs (row NULL). */
struct past_target {
	enum scope scope;
	const struct history_row *row;
};

/* The selection. */
struct past {
	const struct history *history;
	const struct snapshot *snapshot;
	struct history_slot all[HISTORY_SLOTS]; /* without a bound on the time */
	size_t nr_all, first, end;		/* selected: first to end - 1 */
	bool repeated[HISTORY_SLOTS];		/* the wall clock was set back, and has shown that time again */
	struct past_target *targets;
	size_t nr_targets;
	size_t *columns[_SCOPE_MAX];
	size_t nr_columns[_SCOPE_MAX];
	double *points; /* of one target and column: counts in each slot of all */
	int (*write)(void *userdata, const char *data, size_t n); /* NULL: the text is one piece */
	void *userdata;
	int written; /* the first error of write */
};

/* Bytes that a piece of the text has at least. */
#define PIECE_SIZE (64 * 1024)

static void past_release(struct past *past)
{
	free(past->targets);
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		free(past->columns[scope]);
	free(past->points);
}

/* The i-th selected column. */
static const struct column *past_column(const struct past *past, enum scope scope, size_t i)
{
	return &past->history->plan->scope[scope].columns[past->columns[scope][i]];
}

static const struct event *past_event(const struct past *past, enum scope scope, size_t i)
{
	return past_column(past, scope, i)->event;
}

/* --- selecting */

/* A slot is of the stretch in which its end is, and one that ends with a stretch is not of the next one. */
static int choose_slots(struct past *past, const struct expose_query *query)
{
	uint64_t from, to;
	int r = clock_steps_stretch(past->history->clock, &query->from, &query->to, &from, &to);

	if (past->history->plan)
		past->nr_all = history_slots(past->history, past->all);
	while (past->first < past->nr_all && past->all[past->first].end.boottime <= from)
		past->first++;
	past->end = past->nr_all;
	while (past->end > past->first && past->all[past->end - 1].end.boottime > to)
		past->end--;
	return r;
}

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

static int choose_past_columns(struct past *past, const struct expose_query *query)
{
	struct sieve events;
	int r = 0;

	sieve_init(&events, query->event);
	for (int scope = 0; scope < _SCOPE_MAX && r == 0 && past->history->plan; scope++) {
		const struct scope_plan *plan = &past->history->plan->scope[scope];
		size_t nr = query->without[scope] ? 0 : plan_nr_shown(plan);

		past->columns[scope] = calloc(nr + 1, sizeof(size_t));
		for (size_t i = 0; i < nr && past->columns[scope] && !sieve_is_exhausted(&events); i++)
			if (sieve_admits_event(&events, plan->columns[i].event))
				past->columns[scope][past->nr_columns[scope]++] = i;
		r = !past->columns[scope] ? -ENOMEM : sieve_is_exhausted(&events) ? -E2BIG : 0;
	}
	sieve_release(&events);
	return r;
}

static void choose_target(struct past *past, const struct history_row *row, const struct expose_query *query,
			  bool aggregate, struct sieve *cgroups)
{
	if (query->without[row->scope] || (aggregate && row->scope == SCOPE_CPU))
		return;
	if (!row->identity || sieve_admits_text(cgroups, row->identity->label))
		past->targets[past->nr_targets++] = (struct past_target){ row->scope, row };
}

static int choose_targets(struct past *past, const struct expose_query *query)
{
	const struct history *history = past->history;
	bool aggregate = past->snapshot->options.aggregate;
	const struct history_row *row;
	struct sieve cgroups;
	int r;

	past->targets = calloc(history->nr_rows + 1, sizeof(*past->targets));
	if (!past->targets)
		return -ENOMEM;
	if (aggregate && history->nr_rows && !query->without[SCOPE_CPU])
		past->targets[past->nr_targets++] = (struct past_target){ SCOPE_CPU, NULL };
	sieve_init(&cgroups, query->cgroup);
	TAILQ_FOREACH(row, &history->there, in_list)
		if (!sieve_is_exhausted(&cgroups))
			choose_target(past, row, query, aggregate, &cgroups);
	TAILQ_FOREACH(row, &history->gone, in_list)
		if (!sieve_is_exhausted(&cgroups))
			choose_target(past, row, query, aggregate, &cgroups);
	r = sieve_is_exhausted(&cgroups) ? -E2BIG : 0;
	sieve_release(&cgroups);
	return r;
}

static int past_choose(struct past *past, const struct expose_query *query)
{
	uint64_t points = 0;
	int r = choose_past_columns(past, query);

	if (r == 0)
		r = choose_slots(past, query);
	if (r == 0)
		r = choose_targets(past, query);
	past->points = calloc(past->nr_all + 1, sizeof(*past->points));
	if (r < 0 || !past->points)
		return r < 0 ? r : -ENOMEM;
	for (size_t i = 0; i < past->nr_targets; i++)
		points += (past->end - past->first) * past->nr_columns[past->targets[i].scope];
	return points > PAST_POINTS_MAX && !past->write ? -EOVERFLOW : 0;
}

/* --- points */

static void add_points(struct past *past, const struct history_row *row, size_t column)
{
	for (size_t i = 0; i < past->nr_all; i++) {
		double count = (double)history_point(past->history, row, column, &past->all[i]);

		if (!isnan(count))
			past->points[i] = isnan(past->points[i]) ? count : past->points[i] + count;
	}
}

static uint64_t newest_total(const struct history_row *row, size_t column)
{
	uint64_t at = row->cells[column].at;

	return at == HISTORY_UNKNOWN ? 0 : at;
}

/* Fills in the points of all slots, and returns the total at the end of the newest one. */
static uint64_t load_points(struct past *past, const struct past_target *target, size_t column)
{
	const struct history_row *row;
	uint64_t total = 0;

	for (size_t i = 0; i < past->nr_all; i++)
		past->points[i] = NAN;
	if (target->row) {
		add_points(past, target->row, column);
		return newest_total(target->row, column);
	}
	TAILQ_FOREACH(row, &past->history->there, in_list)
		if (row->scope == SCOPE_CPU) {
			add_points(past, row, column);
			total += newest_total(row, column);
		}
	return total;
}

static bool has_points(const struct past *past)
{
	for (size_t i = past->first; i < past->end; i++)
		if (!isnan(past->points[i]))
			return true;
	return false;
}

static bool is_gone(const struct past *past, const struct past_target *target)
{
	return target->row && target->row->seen != past->history->takes;
}

/* --- JSON */

static void add_comma(struct buf *out, size_t i)
{
	if (i)
		buf_char(out, ',');
}

static void add_axis(struct buf *out, const struct past *past)
{
	const struct scale ns = SCALE_NS, ms = SCALE_MS;

	buf_str(out, "{\"timestamp\":");
	number_add(out, past->nr_all ? past->all[past->nr_all - 1].end.realtime / NS_PER_MS : 0, &ms);
	buf_str(out, ",\"times\":[");
	for (size_t i = past->first; i < past->end; i++) {
		add_comma(out, i - past->first);
		number_add(out, past->all[i].end.realtime / NS_PER_MS, &ms);
	}
	buf_str(out, "],\"seconds\":[");
	for (size_t i = past->first; i < past->end; i++) {
		add_comma(out, i - past->first);
		number_add(out, past->all[i].length, &ns);
	}
	buf_char(out, ']');
}

static void add_target_head(struct buf *out, const struct past *past, const struct past_target *target)
{
	const struct scale one = SCALE_ONE;
	const struct history_row *row = target->row;

	buf_char(out, '{');
	if (row && row->identity) {
		buf_str(out, "\"cgroup\":");
		escape_json_string(out, row->identity->label);
		buf_str(out, ",\"id\":");
		number_add(out, row->identity->id, &one);
		buf_char(out, ',');
	}
	if (row && row->cpu != ROW_ALL_CPUS) {
		buf_str(out, "\"cpu\":");
		number_add(out, (uint64_t)row->cpu, &one);
		buf_char(out, ',');
	}
	buf_str(out, is_gone(past, target) ? "\"gone\":true,\"events\":{" : "\"events\":{");
}

static void add_rates(struct buf *out, const struct past *past, const struct event *event)
{
	buf_char(out, '"');
	escape_json(out, event->metric);
	if (event->by_pmu) {
		buf_char(out, '/');
		escape_json(out, event->pmu);
	}
	buf_str(out, "\":[");
	for (size_t i = past->first; i < past->end; i++) {
		add_comma(out, i - past->first);
		measure_add(out, past->all[i].gap ? NAN :
						    past->points[i] * event->scale * 1e9 / (double)past->all[i].length);
	}
	buf_char(out, ']');
}

static void add_past_targets(struct buf *out, struct past *past, enum scope scope)
{
	size_t nr = 0;

	for (size_t i = 0; i < past->nr_targets; i++) {
		const struct past_target *target = &past->targets[i];
		size_t shown = 0;

		if (target->scope != scope)
			continue;
		add_comma(out, nr++);
		add_target_head(out, past, target);
		for (size_t k = 0; k < past->nr_columns[scope]; k++) {
			(void)load_points(past, target, past->columns[scope][k]);
			if (!has_points(past))
				continue;
			add_comma(out, shown++);
			add_rates(out, past, past_event(past, scope, k));
		}
		buf_str(out, "}}");
	}
}

int expose_past_json(struct buf *out, const struct history *history, const struct snapshot *snapshot,
		     const struct expose_query *query)
{
	_cleanup_(past_release) struct past past = { .history = history, .snapshot = snapshot };
	int r = past_choose(&past, query);

	if (r == 0) {
		add_axis(out, &past);
		buf_str(out, ",\"cpus\":[");
		add_past_targets(out, &past, SCOPE_CPU);
		buf_str(out, "],\"cgroups\":[");
		add_past_targets(out, &past, SCOPE_CGROUP);
		buf_str(out, "]}\n");
	}
	return buf_finish(out, r);
}

/* --- OpenMetrics */

static struct cpu_place place_of(const struct past *past, int cpu)
{
	const struct snapshot_table *cpus = &past->snapshot->table[SCOPE_CPU];

	for (size_t i = 0; i < cpus->nr_rows; i++)
		if (cpus->rows[i].cpu == cpu)
			return cpus->rows[i].place;
	return (struct cpu_place){ CPU_NOWHERE, CPU_NOWHERE };
}

/* As /metrics has them. */
static void make_labels(struct buf *labels, const struct past *past, const struct past_target *target,
			const struct event *event)
{
	const struct history_row *row = target->row;

	labels->len = 0;
	if (row && row->identity)
		family_label(labels, "cgroup", row->identity->label);
	if (row)
		family_number_label(labels, "cpu", row->cpu);
	if (row && row->scope == SCOPE_CPU && event->uncore) {
		struct cpu_place place = place_of(past, row->cpu);

		family_number_label(labels, "package", place.package);
		family_number_label(labels, "die", place.die);
	}
	if (event->by_pmu)
		family_label(labels, "pmu", event->pmu);
}

struct past_series {
	struct buf *out;
	const struct buf *name, *labels;
	struct scale scale;
};

static void add_total(const struct past_series *series, double total, uint64_t when)
{
	const struct series labels = { .target = { series->labels->data, series->labels->len } };
	const struct scale ms = SCALE_MS;

	family_series(series->out, series->name, &labels);
	number_add(series->out, total > 0 ? (uint64_t)(total + 0.5) : 0, &series->scale);
	buf_char(series->out, ' ');
	number_add(series->out, when / NS_PER_MS, &ms);
	buf_char(series->out, '\n');
}

/* Times of a series only rise: of slots with the same wall time, the last one counts. */
static bool has_point(const struct past *past, size_t i)
{
	return !isnan(past->points[i]) && !past->repeated[i];
}

/* The totals at the ends of the slots, worked out from the newest one; and one at the beginning of what is known, so
 * that the first slot counts. A label whose totals began anew meanwhile has them from the beginning of the history. */
static void add_totals(const struct past_series *series, const struct past *past, uint64_t newest)
{
	uint64_t last = 0;
	double total = (double)newest;
	bool known = false;

	for (size_t i = 0; i < past->nr_all; i++)
		total -= has_point(past, i) ? past->points[i] : 0;
	total = total > 0 ? total : 0;
	for (size_t i = 0; i < past->end; i++) {
		uint64_t end = past->all[i].end.realtime, begin = end - past->all[i].length;
		bool selected = i >= past->first;

		if (!has_point(past, i)) {
			known = false;
			continue;
		}
		if (selected && !known && begin / NS_PER_MS > last / NS_PER_MS)
			add_total(series, total, begin);
		total += past->points[i];
		if (selected)
			add_total(series, total, last = end);
		known = selected;
	}
}

/* Writes the text so far, if it is to be written and is not too little. */
static void put_piece(struct buf *out, struct past *past, size_t least)
{
	if (!past->write || out->failed || out->len < least)
		return;
	if (past->written >= 0)
		past->written = past->write(past->userdata, out->data, out->len);
	out->len = 0;
}

/* Has it any samples? */
static bool add_series_of(struct buf *out, struct past *past, enum scope scope, size_t column, const struct buf *name)
{
	const struct event *event = past_event(past, scope, column);
	_cleanup_(buf_release) struct buf labels = {};
	const struct past_series series = { out, name, &labels, scale_of(event->scale) };
	bool any = false;

	for (size_t i = 0; i < past->nr_targets && past->written >= 0; i++) {
		size_t before = out->len;
		uint64_t total;

		if (past->targets[i].scope != scope)
			continue;
		total = load_points(past, &past->targets[i], past->columns[scope][column]);
		make_labels(&labels, past, &past->targets[i], event);
		out->failed |= labels.failed;
		add_totals(&series, past, total);
		if (out->len == before)
			continue;
		any = true;
		put_piece(out, past, PIECE_SIZE);
	}
	return any;
}

/* Of a scope's events, those of one name differ in their PMUs (counting/session/planner.h), which can differ in the
 * unit. */
static bool is_of_family(const struct event *event, const struct event *first)
{
	return event->unit == first->unit && strcmp(event->metric, first->metric) == 0;
}

/* A family, and the series of all its columns: of several PMUs. Begun as in /metrics: a database may have both. */
static int add_family(struct buf *out, struct past *past, enum scope scope, size_t first)
{
	const struct column *column = past_column(past, scope, first);
	_cleanup_(buf_release) struct buf name = {}, help = {}, samples = {};
	struct family family = { .type = FAMILY_COUNTER, .unit = event_unit_name(column->event->unit) };
	size_t before = out->len;
	bool any = false;

	for (size_t i = 0; i < first; i++)
		if (is_of_family(past_event(past, scope, i), column->event))
			return 0;
	family_event_name(&name, scope, column->event);
	family_event_help(&help, column, past->snapshot->options.aggregate);
	buf_char(&name, '\0');
	buf_char(&help, '\0');
	if (name.failed || help.failed)
		return -ENOMEM;
	family.name = name.data;
	family.help = help.data;
	(void)family_begin_openmetrics(out, &samples, &family);
	for (size_t i = first; i < past->nr_columns[scope] && !out->failed; i++)
		if (is_of_family(past_event(past, scope, i), column->event))
			any |= add_series_of(out, past, scope, i, &samples);
	/* A family without samples is none. */
	if (!any)
		out->len = before;
	return 0;
}

static int add_families(struct buf *out, struct past *past, const struct expose_query *query)
{
	int r = past_choose(past, query);

	mark_repeated(past);
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < past->nr_columns[scope] && r == 0; i++)
			r = add_family(out, past, (enum scope)scope, i);
	if (r == 0)
		buf_str(out, "# EOF\n");
	return r;
}

int expose_past_openmetrics(struct buf *out, const struct history *history, const struct snapshot *snapshot,
			    const struct expose_query *query)
{
	_cleanup_(past_release) struct past past = { .history = history, .snapshot = snapshot };

	return buf_finish(out, add_families(out, &past, query));
}

int expose_past_write(const struct history *history, const struct snapshot *snapshot,
		      int (*write)(void *userdata, const char *data, size_t n), void *userdata)
{
	_cleanup_(past_release) struct past past = {
		.history = history, .snapshot = snapshot, .write = write, .userdata = userdata
	};
	_cleanup_(buf_release) struct buf out = {};
	const struct expose_query everything = {};
	int r = buf_finish(&out, add_families(&out, &past, &everything));

	if (r == 0)
		put_piece(&out, &past, 0);
	return r < 0 ? r : past.written;
}
