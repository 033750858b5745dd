/* SPDX-License-Identifier: MIT */

/*
 * /api/v1/events: what was configured, how it was understood, and what has become of it.
 *
 *   {"events": [{"scope": "cpu", "group": "core", "event": "cycles_user", "text": "cycles:u", "pmu": "cpu",
 *                "encoding": {"type": 0, "config": "0x0", …, "exclude_kernel": true}, "unit": null,
 *                "scale": 1, "set": {"leader": "cycles_user", "members": ["cycles_user", …]},
 *                "cpus": "0-3", "state": "ok", "reason": null}, …]}
 *
 * encoding has the flags that are set and, where the event has them, precise, config3, bp_type, probe (a kprobe's
 * function, a uprobe's file) and filter. set and cpus are null for an event that is not counted; one that this
 * machine lacks has "absent", the error's name.
 */

#include "expose/expose.h"

#include "expose/document.h"

#include <errno.h>

/* Only what is set: most events have none of these. */
static bool add_flags(json_t *encoding, const struct perf_event_attr *attr)
{
	const struct {
		const char *name;
		bool set;
	} flags[] = {
		{ "exclude_user", attr->exclude_user },	  { "exclude_kernel", attr->exclude_kernel },
		{ "exclude_hv", attr->exclude_hv },	  { "exclude_idle", attr->exclude_idle },
		{ "exclude_host", attr->exclude_host },	  { "exclude_guest", attr->exclude_guest },
		{ "pinned", attr->pinned },		  { "exclusive", attr->exclusive },
	};

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (flags[i].set && json_object_set_new(encoding, flags[i].name, json_true()) < 0)
			return false;
	return attr->precise_ip == 0 ||
	       json_object_set_new(encoding, "precise", json_integer(attr->precise_ip)) == 0;
}

/* What only some kinds of events have. */
static bool add_of_kind(json_t *encoding, const struct event *event)
{
	const char *texts[][2] = { { "probe", event->probe }, { "filter", event->filter } };

	if (event->config3 && json_object_set_new(encoding, "config3", document_hex(event->config3)) < 0)
		return false;
	if (event->attr.type == PERF_TYPE_BREAKPOINT &&
	    json_object_set_new(encoding, "bp_type", json_integer(event->attr.bp_type)) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (texts[i][1] && json_object_set_new(encoding, texts[i][0], document_text(texts[i][1])) < 0)
			return false;
	return true;
}

/* As it is opened: without what the kernel refused, which the reason tells, and pinned where it leads. */
static json_t *encoding_of(const struct snapshot *snapshot, const struct column *column)
{
	const struct scope_plan *plan = &snapshot->plan->scope[column->scope];
	struct perf_event_attr attr = column->set == NO_SET ?
					      column->attr :
					      set_attr(plan, &plan->sets[column->set], column->member);
	json_t *encoding = json_pack("{s:I, s:o, s:o, s:o}", "type", (json_int_t)attr.type, "config",
				     document_hex(attr.config), "config1", document_hex(attr.config1), "config2",
				     document_hex(attr.config2));

	if (encoding && add_flags(encoding, &attr) && add_of_kind(encoding, column->event))
		return encoding;
	json_decref(encoding);
	return NULL;
}

/* The set's events in the order in which the kernel has them: the leader first. */
static json_t *members_of(const struct snapshot_table *table, size_t set)
{
	_cleanup_(json_decref_pointer) json_t *members = json_array();

	for (size_t member = 0, found = 1; found; member++) {
		found = 0;
		for (size_t i = 0; i < table->nr_columns; i++) {
			const struct column *column = table->columns[i].column;

			if (column->set != set || column->member != member)
				continue;
			found = 1;
			if (json_array_append_new(members, document_text(column->event->metric)) < 0)
				return NULL;
		}
	}
	return json_incref(members);
}

static json_t *set_of(const struct snapshot_table *table, const struct column *column)
{
	json_t *members;

	if (column->set == NO_SET)
		return json_null();
	members = members_of(table, column->set);
	return json_pack("{s:O*, s:o}", "leader", json_array_get(members, 0), "members", members);
}

static json_t *cpus_of(const struct snapshot *snapshot, const struct column *column)
{
	_cleanup_(freep) char *list = NULL;

	if (column->set == NO_SET || !snapshot->plan)
		return json_null();
	list = cpulist_format(&snapshot->plan->scope[column->scope].sets[column->set].cpus);
	return list ? json_string(list) : NULL;
}

static json_t *event_of(const struct snapshot *snapshot, const struct snapshot_table *table, size_t at)
{
	const struct snapshot_column *column = &table->columns[at];
	const struct event *event = column->column->event;
	const char *unit = event_unit_name(event->unit);
	json_t *json = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o}", "scope",
				 scope_name(column->column->scope), "group",
				 document_text(column->column->group->name), "event", document_text(event->metric),
				 "text", document_text(event->text), "pmu", document_text(event->pmu), "encoding",
				 encoding_of(snapshot, column->column), "unit", document_text(*unit ? unit : NULL),
				 "scale",
				 document_real(event->scale), "set", set_of(table, column->column), "cpus",
				 cpus_of(snapshot, column->column), "state", event_state_name(column->state),
				 "reason", document_text(column->why));

	if (!json || !event->absent)
		return json;
	if (json_object_set_new(json, "absent", document_text(strerrorname_np(-event->absent))) == 0)
		return json;
	json_decref(json);
	return NULL;
}

int expose_json_events(struct buf *out, const struct snapshot *snapshot)
{
	_cleanup_(json_decref_pointer) json_t *events = json_array();

	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		const struct snapshot_table *table = &snapshot->table[scope];

		for (size_t i = 0; i < table->nr_columns; i++)
			if (json_array_append_new(events, event_of(snapshot, table, i)) < 0)
				return document_write(out, NULL);
	}
	return document_write(out, json_pack("{s:O}", "events", events));
}
