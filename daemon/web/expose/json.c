/* SPDX-License-Identifier: MIT */

/*
 * The documents of the API that can be large, the values of a snapshot and the list of cgroups, written straight into
 * the buffer.
 *
 *   {"timestamp": 1700000000.123, "monotonic_seconds": 4711.25, "age_seconds": 0.05, "interval_seconds": 1,
 *    "matched": {"cpus": 2, "cgroups": 40}, "shown": {"cpus": 2, "cgroups": 10},
 *    "cpus": [{"cpu": 0, "busy_seconds": 17.5, "events": {…}, "derived": {"ipc": 1.2}}, …],
 *    "cgroups": [{"cgroup": "/a", "id": 7, "unit": …, "cpu": …, "gone": true, "events": {…}, …}, …]}
 *
 *   {"cgroups": [{"cgroup": "/a", "id": 7, "unit": …, "status": "over_max", "reason": "…"}, …],
 *    "unlisted": {"cgroups": 1, "example": "/b/…: its path is longer than …"}}
 *
 * The key of an event is the name of its metric, or "name/pmu" where several PMUs count it. Totals and rates (per
 * second) are in the event's unit, which is named where it is not a plain count: "rate" is over the last interval,
 * "rate_1m" and "rate_5m" are its averages, "rate_peak" is the highest of one interval within the last minute. An
 * unknown rate or share is null; an event that was not measured is absent. An uncore event has the "package" of the
 * CPU, and the "die" where the package has several. doc/openapi.json describes all members.
 */

#include "web/expose/expose.h"

#include "base/util/escape.h"
#include "web/expose/walk.h"

#include <errno.h>
#include <math.h>

/* --- small pieces */

/* Called before each item of an object or array: a comma, unless it is the first. */
static void add_separator(struct buf *out)
{
	char last = out->len ? out->data[out->len - 1] : '{';

	if (last != '{' && last != '[')
		buf_char(out, ',');
}

/* The name must need no escaping. */
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
	escape_json_string(out, text);
}

static void add_number_member(struct buf *out, const char *name, uint64_t count, struct scale scale)
{
	add_key(out, name);
	number_add(out, count, &scale);
}

static void add_identity(struct buf *out, const struct cgroup_identity *identity, const struct container_names *names)
{
	add_text_member(out, "cgroup", identity->label);
	add_number_member(out, "id", identity->id, SCALE_ONE);
	add_text_member(out, "unit", identity->unit);
	add_text_member(out, "slice", identity->slice);
	add_text_member(out, "container_id", identity->container_id);
	add_text_member(out, "pod_uid", identity->pod_uid);
	for (int i = 0; i < _CONTAINER_NAME_MAX; i++)
		add_text_member(out, container_name_keys[i], container_names_text(names, (enum container_name)i));
	add_text_member(out, "machine", identity->machine);
}

/* --- the snapshot */

/* The text around the numbers and the state of each column, written once for all rows of a table:
 * `"cycles":{"total":` and `","unit":"seconds"`. */
struct column_text {
	size_t head, tail, end; /* offsets: where the two begin, and where the second ends */
};

struct column_texts {
	struct buf text;
	struct column_text *items; /* of the selected columns */
};

static void column_texts_release(struct column_texts *texts)
{
	buf_release(&texts->text);
	free(texts->items);
}

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
	if (event->unit != EVENT_UNIT_NONE) {
		buf_str(text, "\",\"unit\":\"");
		buf_str(text, event_unit_name(event->unit));
	}
	buf_char(text, '"');
	ret->end = text->len;
}

static int column_texts_make(struct column_texts *texts, const struct walk_table *table)
{
	texts->items = calloc(table->nr_columns + 1, sizeof(*texts->items));
	if (!texts->items)
		return -ENOMEM;
	for (size_t i = 0; i < table->nr_columns; i++)
		add_column_text(&texts->text, &texts->items[i], &table->table->columns[table->columns[i]]);
	return texts->text.failed ? -ENOMEM : 0;
}

static void add_place(struct buf *out, struct cpu_place place)
{
	add_number_member(out, "package", (uint64_t)place.package, SCALE_ONE);
	if (place.die != CPU_NOWHERE)
		add_number_member(out, "die", (uint64_t)place.die, SCALE_ONE);
}

/* member: `,"rate":`. The rate is shown in the event's unit. */
static void add_rate(struct buf *out, const char *member, double rate, const struct scale *scale)
{
	buf_str(out, member);
	measure_add(out, rate * scale->real);
}

/* The value of the i-th selected column in a row. */
static void add_value(struct buf *out, const struct walk_table *table, const struct column_texts *texts, size_t row,
		      size_t i)
{
	const struct snapshot_cell *cell = snapshot_cell(table->table, row, table->columns[i]);
	const struct snapshot_times *times = snapshot_times(table->table, row, table->columns[i]);
	const struct column_text *text = &texts->items[i];
	const struct scale *scale = &table->scales[i];
	struct cpu_place place = table->table->rows[row].place;

	add_separator(out);
	buf_add(out, texts->text.data + text->head, text->tail - text->head);
	if (number_is_finite(cell->total, scale))
		number_add(out, cell->total, scale);
	else
		buf_str(out, "null");
	add_rate(out, ",\"rate\":", cell->rate, scale);
	add_rate(out, ",\"rate_1m\":", (double)cell->average[RATE_1M], scale);
	add_rate(out, ",\"rate_5m\":", (double)cell->average[RATE_5M], scale);
	add_rate(out, ",\"rate_peak\":", snapshot_peak(cell), scale);
	buf_str(out, ",\"running\":");
	measure_add(out, times ? times->share : NAN);
	buf_str(out, ",\"state\":\"");
	buf_str(out, event_state_name(snapshot_state(table->table, row, table->columns[i])));
	buf_add(out, texts->text.data + text->tail, text->end - text->tail);
	if (place.package != CPU_NOWHERE && walk_event(table, i)->uncore)
		add_place(out, place);
	buf_char(out, '}');
}

/* The members of a target that name it: a cgroup, a CPU, or both. */
static void add_target_name(struct buf *out, const struct snapshot_row *row)
{
	if (row->identity)
		add_identity(out, row->identity, row->names);
	if (row->cpu != ROW_ALL_CPUS)
		add_number_member(out, "cpu", (uint64_t)row->cpu, SCALE_ONE);
	if (row->busy)
		add_number_member(out, "busy_seconds", row->busy, SCALE_NS);
	if (row->gone) {
		add_key(out, "gone");
		buf_str(out, "true");
	}
}

static void add_target(struct buf *out, const struct walk_table *table, const struct column_texts *texts, size_t row)
{
	add_separator(out);
	buf_char(out, '{');
	add_target_name(out, &table->table->rows[row]);
	add_key(out, "events");
	buf_char(out, '{');
	for (size_t i = 0; i < table->nr_columns; i++)
		if (snapshot_cell(table->table, row, table->columns[i])->measured)
			add_value(out, table, texts, row, i);
	buf_str(out, "},\"derived\":{");
	for (size_t i = 0; i < table->derived.nr; i++) {
		double ratio = walk_ratio(table, row, i);

		if (!isfinite(ratio))
			continue;
		add_separator(out);
		escape_json_string(out, table->derived.items[i].name);
		buf_char(out, ':');
		measure_add(out, ratio);
	}
	buf_add(out, "}}", 2);
}

static int add_targets(struct buf *out, const struct walk_table *table)
{
	_cleanup_(column_texts_release) struct column_texts texts = {};

	if (column_texts_make(&texts, table) < 0)
		return -ENOMEM;
	add_key(out, scope_keys[table->scope]);
	buf_char(out, '[');
	for (size_t i = 0; i < table->nr_rows; i++)
		add_target(out, table, &texts, table->rows[i]);
	buf_char(out, ']');
	return 0;
}

static void add_row_counts(struct buf *out, const struct walk *walk)
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
	add_number_member(out, "monotonic_seconds", snapshot->taken, SCALE_NS);
	if (query->now)
		add_number_member(out, "age_seconds", query->now > snapshot->taken ? query->now - snapshot->taken : 0,
				  SCALE_NS);
	add_number_member(out, "interval_seconds", snapshot->self.interval, SCALE_NS);
}

int expose_json_snapshot(struct buf *out, const struct snapshot *snapshot, const struct expose_query *query)
{
	_cleanup_(walk_freep) struct walk *walk = NULL;
	int r = walk_new(&walk, snapshot, query);

	if (r == 0) {
		add_head(out, snapshot, query);
		add_row_counts(out, walk);
	}
	for (int scope = 0; scope < _SCOPE_MAX && r == 0; scope++)
		r = add_targets(out, &walk->table[scope]);
	buf_str(out, "}\n");
	return buf_finish(out, r);
}

/* --- cgroups */

/* The cgroups that cannot be in the list. */
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
		add_identity(out, cgroup->identity, cgroup->names);
		add_text_member(out, "status", cgroup_status_name(cgroup->status));
		add_key(out, "reason");
		if (cgroup->why)
			escape_json_string(out, cgroup->why);
		else
			buf_str(out, "null");
		buf_char(out, '}');
	}
	buf_char(out, ']');
	add_unlisted(out, snapshot);
	buf_str(out, "}\n");
	return buf_finish(out, 0);
}
