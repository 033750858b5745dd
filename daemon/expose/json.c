/* SPDX-License-Identifier: MIT */

/*
 * The answers of the API that can be large, a snapshot's numbers and all cgroups, written straight into
 * the buffer. The snapshot's is a writer of the walk by target.
 *
 *   {"timestamp": 1700000000.123, "age_seconds": 0.05, "interval_seconds": 1,
 *    "matched": {"cpus": 2, "cgroups": 40}, "shown": {"cpus": 2, "cgroups": 10},
 *    "cpus": [{"cpu": 0, "events": {…}, "derived": {"ipc": 1.2}}, …],
 *    "cgroups": [{"cgroup": "/a", "id": 7, "unit": …, "cpu": …, "gone": true, "events": {…}, …}, …]}
 *
 *   {"cgroups": [{"cgroup": "/a", "id": 7, "unit": …, "status": "over_max", "reason": "…"}, …],
 *    "unlisted": {"cgroups": 1, "example": "/b/…: its path is longer than …"}}
 *
 * An event's key is its metric's name, and "name/pmu" where several PMUs count it. Totals and rates (a
 * second) are in the event's unit, which is named where it is not a plain count: "rate" over the last interval,
 * "rate_1m" and "rate_5m" its averages, "rate_peak" the highest of one interval within the last minute. A
 * rate or share that is not known is null; an event that was not measured is not there. An uncore event has
 * "package", and "die" where the package has several, which are those of the CPU. doc/openapi.json has all of it.
 */

#include "expose/expose.h"

#include "expose/escape.h"
#include "expose/walk.h"

#include <errno.h>
#include <math.h>

/* --- small pieces */

static void add_string(struct buf *out, const char *text)
{
	buf_char(out, '"');
	escape_json(out, text);
	buf_char(out, '"');
}

/* Opens an item of an object or array that begins with that character. */
static void add_separator(struct buf *out)
{
	char last = out->len ? out->data[out->len - 1] : '{';

	if (last != '{' && last != '[')
		buf_char(out, ',');
}

/* name is known to need no escaping. */
static void add_key(struct buf *out, const char *name)
{
	add_separator(out);
	buf_char(out, '"');
	buf_str(out, name);
	buf_add(out, "\":", 2);
}

static void add_text_member(struct buf *out, const char *name, const char *text)
{
	if (!text)
		return;
	add_key(out, name);
	add_string(out, text);
}

static void add_number_member(struct buf *out, const char *name, uint64_t count, struct scale scale)
{
	add_key(out, name);
	number_add(out, count, &scale);
}

static void add_identity(struct buf *out, const struct cgroup_identity *identity)
{
	add_text_member(out, "cgroup", identity->label);
	add_number_member(out, "id", identity->id, SCALE_ONE);
	add_text_member(out, "unit", identity->unit);
	add_text_member(out, "slice", identity->slice);
	add_text_member(out, "container_id", identity->container_id);
	add_text_member(out, "pod_uid", identity->pod_uid);
}

static int finish(struct buf *out)
{
	buf_char(out, '\n');
	if (!out->failed)
		return 0;
	buf_release(out);
	return -ENOMEM;
}

/* --- the snapshot */

/* A column's text around its numbers, made once: `"cycles":{"total":` and `,"state":"ok"`. */
struct column_text {
	size_t head, tail, end; /* where they begin, and the tail ends, in the text of all */
};

struct json_snapshot {
	struct buf *out;
	struct buf text;
	struct column_text *columns; /* of the scope at hand */
	struct cpu_place place;	     /* of the target at hand */
	bool in_derived;
	bool failed;
};

static const char *const scope_keys[_SCOPE_MAX] = { [SCOPE_CPU] = "cpus", [SCOPE_CGROUP] = "cgroups" };

static void add_column_text(struct buf *text, struct column_text *ret, const struct snapshot_column *column)
{
	const struct event *event = column->column->event;

	ret->head = text->len;
	buf_char(text, '"');
	escape_json(text, event->metric);
	if (event->by_pmu) {
		buf_char(text, '/');
		escape_json(text, event->pmu);
	}
	buf_str(text, "\":{\"total\":");
	ret->tail = text->len;
	buf_str(text, ",\"state\":\"");
	buf_str(text, event_state_name(column->state));
	if (event->unit != EVENT_UNIT_NONE) {
		buf_str(text, "\",\"unit\":\"");
		buf_str(text, event_unit_name(event->unit));
	}
	buf_char(text, '"');
	ret->end = text->len;
}

static void begin_scope(void *userdata, const struct walk_table *table)
{
	struct json_snapshot *json = userdata;

	free(json->columns);
	json->columns = calloc(table->nr_columns + 1, sizeof(*json->columns));
	json->text.len = 0;
	if (json->columns)
		for (size_t i = 0; i < table->nr_columns; i++)
			add_column_text(&json->text, &json->columns[i], &table->table->columns[table->columns[i]]);
	json->failed |= !json->columns || json->text.failed;

	add_key(json->out, scope_keys[table->scope]);
	buf_char(json->out, '[');
}

static void begin_target(void *userdata, const struct walk_table *table, const struct snapshot_row *row)
{
	struct json_snapshot *json = userdata;

	(void)table;
	json->place = row->place;
	add_separator(json->out);
	buf_char(json->out, '{');
	if (row->identity)
		add_identity(json->out, row->identity);
	if (row->cpu != ROW_ALL_CPUS)
		add_number_member(json->out, "cpu", (uint64_t)row->cpu, SCALE_ONE);
	if (row->gone) {
		add_key(json->out, "gone");
		buf_str(json->out, "true");
	}
	add_key(json->out, "events");
	buf_char(json->out, '{');
	json->in_derived = false;
}

static void add_place(struct buf *out, struct cpu_place place)
{
	add_number_member(out, "package", (uint64_t)place.package, SCALE_ONE);
	if (place.die != CPU_NOWHERE)
		add_number_member(out, "die", (uint64_t)place.die, SCALE_ONE);
}

/* member: `,"rate":`, in the event's unit. */
static void add_rate(struct buf *out, const char *member, double rate, const struct scale *scale)
{
	buf_str(out, member);
	measure_add(out, rate * scale->real);
}

static void add_value(void *userdata, const struct walk_table *table, size_t column, const struct snapshot_cell *cell,
		      const struct snapshot_times *times)
{
	struct json_snapshot *json = userdata;
	const struct scale *scale = &table->scales[column];
	const struct column_text *text;
	struct buf *out = json->out;

	if (json->failed)
		return;
	text = &json->columns[column];
	add_separator(out);
	buf_add(out, json->text.data + text->head, text->tail - text->head);
	if (number_is_finite(cell->total, scale))
		number_add(out, cell->total, scale);
	else
		buf_str(out, "null");
	add_rate(out, ",\"rate\":", cell->rate, scale);
	add_rate(out, ",\"rate_1m\":", (double)cell->average[TREND_1M], scale);
	add_rate(out, ",\"rate_5m\":", (double)cell->average[TREND_5M], scale);
	add_rate(out, ",\"rate_peak\":", snapshot_peak(cell), scale);
	buf_str(out, ",\"running\":");
	measure_add(out, times ? times->share : NAN);
	buf_add(out, json->text.data + text->tail, text->end - text->tail);
	if (json->place.package != CPU_NOWHERE && walk_event(table, column)->uncore)
		add_place(out, json->place);
	buf_char(out, '}');
}

static void begin_derived(struct json_snapshot *json)
{
	if (!json->in_derived)
		buf_str(json->out, "},\"derived\":{");
	json->in_derived = true;
}

static void add_ratio(void *userdata, const char *name, double value)
{
	struct json_snapshot *json = userdata;

	begin_derived(json);
	add_separator(json->out);
	add_string(json->out, name);
	buf_char(json->out, ':');
	measure_add(json->out, value);
}

static void end_target(void *userdata)
{
	struct json_snapshot *json = userdata;

	begin_derived(json);
	buf_add(json->out, "}}", 2);
}

static void end_scope(void *userdata)
{
	struct json_snapshot *json = userdata;

	buf_char(json->out, ']');
}

static void add_counts(struct buf *out, const struct walk *walk)
{
	add_key(out, "matched");
	buf_char(out, '{');
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		add_number_member(out, scope_keys[scope], walk->table[scope].nr_matched, SCALE_ONE);
	buf_char(out, '}');
	add_key(out, "shown");
	buf_char(out, '{');
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		add_number_member(out, scope_keys[scope], walk->table[scope].nr_rows, SCALE_ONE);
	buf_char(out, '}');
}

static void add_head(struct buf *out, const struct snapshot *snapshot, const struct expose_query *query)
{
	buf_char(out, '{');
	add_number_member(out, "timestamp", snapshot->realtime / 1000000U, SCALE_MS);
	if (query->now)
		add_number_member(out, "age_seconds", query->now > snapshot->taken ? query->now - snapshot->taken : 0,
				  SCALE_NS);
	add_number_member(out, "interval_seconds", snapshot->self.interval, SCALE_NS);
}

int expose_json_snapshot(struct buf *out, const struct snapshot *snapshot, const struct expose_query *query)
{
	static const struct target_writer writer = {
		.begin_scope = begin_scope,
		.begin_target = begin_target,
		.value = add_value,
		.ratio = add_ratio,
		.end_target = end_target,
		.end_scope = end_scope,
	};
	_cleanup_(walk_freep) struct walk *walk = NULL;
	struct json_snapshot json = { .out = out };
	int r = walk_new(&walk, snapshot, query);

	if (r < 0) {
		buf_release(out);
		return r;
	}
	add_head(out, snapshot, query);
	add_counts(out, walk);
	walk_targets(walk, &writer, &json);
	buf_char(out, '}');
	out->failed |= json.failed;
	buf_release(&json.text);
	free(json.columns);
	return finish(out);
}

/* --- cgroups */

/* Those that can't be in the list. */
static void add_unlisted(struct buf *out, const struct snapshot *snapshot)
{
	add_key(out, "unlisted");
	buf_char(out, '{');
	add_number_member(out, "cgroups", snapshot->self.cgroups_unlisted, SCALE_ONE);
	add_text_member(out, "example", snapshot->unlisted);
	if (!snapshot->unlisted) {
		add_key(out, "example");
		buf_str(out, "null");
	}
	buf_char(out, '}');
}

int expose_json_cgroups(struct buf *out, const struct snapshot *snapshot)
{
	buf_str(out, "{\"cgroups\":[");
	for (size_t i = 0; i < snapshot->nr_cgroups; i++) {
		const struct snapshot_cgroup *cgroup = &snapshot->cgroups[i];

		add_separator(out);
		buf_char(out, '{');
		add_identity(out, cgroup->identity);
		add_text_member(out, "status", cgroup_status_name(cgroup->status));
		add_key(out, "reason");
		if (cgroup->why)
			add_string(out, cgroup->why);
		else
			buf_str(out, "null");
		buf_char(out, '}');
	}
	buf_char(out, ']');
	add_unlisted(out, snapshot);
	buf_char(out, '}');
	return finish(out);
}
