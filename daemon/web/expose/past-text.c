/* SPDX-License-Identifier: MIT */

/*
 *   {"timestamp": 1700000000.123, "times": [1699999940.1, …], "seconds": [1.0, …],
 *    "cpus": [{"cpu": 0, "events": {"cycles": [2.1e9, null, …]}}],
 *    "cgroups": [{"cgroup": "/a", "id": 7, "gone": true, "events": {…}}]}
 *
 * times are the ends of the slots, seconds their lengths; rates are in the event's unit per second.
 */

#include "web/expose/past-text.h"

#include "base/util/clock.h"
#include "base/util/escape.h"
#include "base/util/number.h"
#include "web/expose/family.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Bytes that a piece of the text has at least. */
#define PIECE_SIZE (64 * 1024)

static const struct event *past_event(const struct past *past, enum scope scope, size_t i)
{
	return past_column(past, scope, i)->event;
}

static bool has_points(const struct past *past, const double *points)
{
	for (size_t i = past->first; i < past->end; i++)
		if (!isnan(points[i - past->first]))
			return true;
	return false;
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

static void add_target_head(struct buf *out, const struct past_target *target)
{
	const struct scale one = SCALE_ONE;

	buf_char(out, '{');
	if (target->identity) {
		buf_str(out, "\"cgroup\":");
		escape_json_string(out, target->identity->label);
		buf_str(out, ",\"id\":");
		number_add(out, target->identity->id, &one);
		buf_char(out, ',');
	}
	if (target->cpu != ROW_ALL_CPUS) {
		buf_str(out, "\"cpu\":");
		number_add(out, (uint64_t)target->cpu, &one);
		buf_char(out, ',');
	}
	buf_str(out, target->gone ? "\"gone\":true,\"events\":{" : "\"events\":{");
}

static void add_rates(struct buf *out, const struct past *past, const struct event *event, const double *points)
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
		measure_add(out, past->all[i].gap ?
					 NAN :
					 points[i - past->first] * event->scale * 1e9 / (double)past->all[i].length);
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
		add_target_head(out, target);
		for (size_t k = 0; k < past->nr_columns[scope]; k++) {
			const double *points = past_series(past, target, k) + 1;

			if (!has_points(past, points))
				continue;
			add_comma(out, shown++);
			add_rates(out, past, past_event(past, scope, k), points);
		}
		buf_str(out, "}}");
	}
}

int past_text_json(struct buf *out, struct past *past)
{
	add_axis(out, past);
	buf_str(out, ",\"cpus\":[");
	add_past_targets(out, past, SCOPE_CPU);
	buf_str(out, "],\"cgroups\":[");
	add_past_targets(out, past, SCOPE_CGROUP);
	buf_str(out, "]}\n");
	return buf_finish(out, 0);
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
	labels->len = 0;
	if (target->identity)
		family_label(labels, "cgroup", target->identity->label);
	family_number_label(labels, "cpu", target->cpu);
	if (target->scope == SCOPE_CPU && event->uncore) {
		struct cpu_place place = place_of(past, target->cpu);

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
static bool has_point(const struct past *past, const double *points, size_t i)
{
	return !isnan(points[i - past->first]) && !past->repeated[i];
}

/* The totals at the ends of the slots; and one at the beginning of what is known, so that the first slot counts. A
 * label whose totals began anew meanwhile has them from the beginning of the history. */
static void add_totals(const struct past_series *series, const struct past *past, const double *values)
{
	const double *points = values + 1;
	double total = values[0];
	uint64_t last = 0;
	bool known = false;

	for (size_t i = past->first; i < past->end; i++) {
		uint64_t end = past->all[i].end.realtime, begin = end - past->all[i].length;

		if (!has_point(past, points, i)) {
			known = false;
			continue;
		}
		if (!known && begin / NS_PER_MS > last / NS_PER_MS)
			add_total(series, total, begin);
		total += points[i - past->first];
		add_total(series, total, last = end);
		known = true;
	}
}

/* The text so far, which is written, or has to be one piece. */
struct past_sink {
	struct buf *out;
	int (*write)(void *userdata, const char *data, size_t n); /* NULL: one piece */
	void *userdata;
	int written; /* the first error of write() */
};

/* Writes the text so far, if it is to be written and is not too little. */
static void put_piece(struct past_sink *sink, size_t least)
{
	if (!sink->write || sink->out->failed || sink->out->len < least)
		return;
	if (sink->written >= 0)
		sink->written = sink->write(sink->userdata, sink->out->data, sink->out->len);
	sink->out->len = 0;
}

/* Has it any samples? */
static bool add_series_of(struct past_sink *sink, struct past *past, enum scope scope, size_t column,
			  const struct buf *name)
{
	const struct event *event = past_event(past, scope, column);
	_cleanup_(buf_release) struct buf labels = {};
	struct buf *out = sink->out;
	const struct past_series series = { out, name, &labels, scale_of(event->scale) };
	bool any = false;

	for (size_t i = 0; i < past->nr_targets && sink->written >= 0; i++) {
		const struct past_target *target = &past->targets[i];
		size_t before = out->len;

		if (target->scope != scope)
			continue;
		make_labels(&labels, past, target, event);
		out->failed |= labels.failed;
		add_totals(&series, past, past_series(past, target, column));
		if (out->len == before)
			continue;
		any = true;
		put_piece(sink, PIECE_SIZE);
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
static int add_family(struct past_sink *sink, struct past *past, enum scope scope, size_t first)
{
	struct buf *out = sink->out;
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
			any |= add_series_of(sink, past, scope, i, &samples);
	/* A family without samples is none. */
	if (!any)
		out->len = before;
	return 0;
}

static int add_families(struct past_sink *sink, struct past *past)
{
	int r = 0;

	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < past->nr_columns[scope] && r == 0; i++)
			r = add_family(sink, past, (enum scope)scope, i);
	buf_str(sink->out, "# EOF\n");
	return buf_finish(sink->out, r);
}

int past_text_openmetrics(struct buf *out, struct past *past)
{
	struct past_sink sink = { .out = out };

	return add_families(&sink, past);
}

int past_text_write(const struct history *history, const struct snapshot *snapshot,
		    int (*write)(void *userdata, const char *data, size_t n), void *userdata)
{
	static const struct expose_query everything = {};
	_cleanup_(buf_release) struct buf out = {};
	_cleanup_(past_freep) struct past *past = NULL;
	struct past_sink sink = { .out = &out, .write = write, .userdata = userdata };
	int r = past_new(&past, history, snapshot, &everything, PAST_WHOLE);

	if (r == 0)
		r = past_step(past, UINT64_MAX);
	if (r == 0)
		r = add_families(&sink, past);
	if (r == 0)
		put_piece(&sink, 0);
	return r < 0 ? r : sink.written;
}
