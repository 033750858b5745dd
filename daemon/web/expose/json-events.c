/* SPDX-License-Identifier: MIT */

/*
 * /api/v1/events: the configured events, how each is encoded for the kernel, and its state.
 *
 *   {"events": [{"scope": "cpu", "group": "core", "event": "cycles_user", "text": "cycles:u", "pmu": "cpu",
 *                "encoding": {"type": 0, "config": "0x0", …, "exclude_kernel": true}, "unit": null,
 *                "scale": 1, "set": {"leader": "cycles_user", "number": 0}, "cpus": "0-3", "engine": "perf",
 *                "state": "ok", "reason": null}, …],
 *    "sets": [{"scope": "cpu", "group": "core", "leader": "cycles_user", "members": ["cycles_user", …],
 *              "cpus": "0-3"}, …]}
 *
 * "encoding" has the flags that are set and, where the event has them, precise, config3, bp_type, probe (the function
 * of a kprobe, the file of a uprobe) and filter. "set", "cpus" and "engine" are null for an event that is not
 * counted. An event that this machine lacks has "absent", the name of the error. The number of a set is its index in
 * "sets".
 */

#include "web/expose/expose.h"

#include "counting/engine/engine.h"
#include "web/expose/document.h"

#include <errno.h>

/* Only flags that are set: most events have none. */
static bool add_flags(json_t *encoding, const struct perf_event_attr *attr)
{
	const struct {
		const char *name;
		bool set;
	} flags[] = {
		{ "exclude_user", attr->exclude_user },
		{ "exclude_kernel", attr->exclude_kernel },
		{ "exclude_hv", attr->exclude_hv },
		{ "exclude_idle", attr->exclude_idle },
		{ "exclude_host", attr->exclude_host },
		{ "exclude_guest", attr->exclude_guest },
		{ "pinned", attr->pinned },
		{ "exclusive", attr->exclusive },
	};

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (flags[i].set && json_object_set_new(encoding, flags[i].name, json_true()) < 0)
			return false;
	return attr->precise_ip == 0 || json_object_set_new(encoding, "precise", json_integer(attr->precise_ip)) == 0;
}

/* Members that only some kinds of events have. */
static bool add_members_of_kind(json_t *encoding, const struct event *event)
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

/* The attributes as they are opened: without flags that the kernel has refused, which the reason tells, and pinned for
 * a leader. */
static json_t *encoding_json(const struct snapshot *snapshot, const struct column *column)
{
	const struct scope_plan *plan = &snapshot->plan->scope[column->scope];
	struct perf_event_attr attr = column->set == NO_SET ? column->attr :
							      set_attr(plan, &plan->sets[column->set], column->member);
	json_t *encoding = json_pack("{s:I, s:o, s:o, s:o}", "type", (json_int_t)attr.type, "config",
				     document_hex(attr.config), "config1", document_hex(attr.config1), "config2",
				     document_hex(attr.config2));

	if (encoding && add_flags(encoding, &attr) && add_members_of_kind(encoding, column->event))
		return encoding;
	json_decref(encoding);
	return NULL;
}

/* The events of the set in the kernel's order: the leader first. */
static json_t *members_json(const struct scope_plan *plan, const struct set *set)
{
	_cleanup_(json_decref_pointer) json_t *members = json_array();

	for (size_t i = 0; i < set->nr; i++)
		if (json_array_append_new(members, document_text(plan->columns[set->columns[i]].event->metric)) < 0)
			return NULL;
	return json_incref(members);
}

static json_t *set_json(const struct scope_plan *plan, const struct set *set, enum scope scope)
{
	json_t *members = members_json(plan, set);

	return json_pack("{s:s, s:o, s:O*, s:o, s:o}", "scope", scope_name(scope), "group",
			 document_text(set->group->name), "leader", json_array_get(members, 0), "members", members,
			 "cpus", document_cpus(&set->cpus));
}

/* The sets of all scopes. NULL: out of memory. */
static json_t *sets_json(const struct plan *plan)
{
	_cleanup_(json_decref_pointer) json_t *sets = json_array();

	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < plan->scope[scope].nr_sets; i++)
			if (json_array_append_new(sets, set_json(&plan->scope[scope], &plan->scope[scope].sets[i],
								 (enum scope)scope)) < 0)
				return NULL;
	return json_incref(sets);
}

/* The event's reference to its set: the index in "sets" and the leader. */
static json_t *reference_json(const json_t *set, size_t number)
{
	return set ? json_pack("{s:O, s:I}", "leader", json_object_get(set, "leader"), "number", (json_int_t)number) :
		     json_null();
}

/* first: the index of the scope's first set in `sets`. */
static json_t *event_json(const struct snapshot *snapshot, const struct snapshot_column *column, const json_t *sets,
			  size_t first)
{
	const struct scope_plan *plan = &snapshot->plan->scope[column->column->scope];
	const struct event *event = column->column->event;
	size_t number = column->column->set == NO_SET ? SIZE_MAX : first + column->column->set;
	const json_t *set = json_array_get(sets, number);
	const char *unit = event_unit_name(event->unit);
	const char *engine = set ? engine_name_of(&plan->sets[column->column->set]) : NULL;
	json_t *json = json_pack(
		"{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o}", "scope",
		scope_name(column->column->scope), "group", document_text(column->column->group->name), "event",
		document_text(event->metric), "text", document_text(event->text), "pmu", document_text(event->pmu),
		"encoding", encoding_json(snapshot, column->column), "unit", document_text(*unit ? unit : NULL),
		"scale", document_real(event->scale), "set", reference_json(set, number), "cpus",
		set ? json_incref(json_object_get(set, "cpus")) : json_null(), "engine", document_text(engine), "state",
		event_state_name(column->state), "reason", document_text(column->why));

	if (!json || !event->absent)
		return json;
	if (json_object_set_new(json, "absent", document_text(strerrorname_np(-event->absent))) == 0)
		return json;
	json_decref(json);
	return NULL;
}

/* Members of a set are listed once, in "sets", and not for each event: with a thousand events in one group that
 * would be a million names. */
int expose_json_events(struct buf *out, const struct snapshot *snapshot)
{
	_cleanup_(json_decref_pointer) json_t *events = json_array(), *sets = sets_json(snapshot->plan);
	size_t first = 0;

	for (int scope = 0; scope < _SCOPE_MAX && sets; scope++) {
		const struct snapshot_table *table = &snapshot->table[scope];

		for (size_t i = 0; i < table->nr_columns; i++)
			if (json_array_append_new(events, event_json(snapshot, &table->columns[i], sets, first)) < 0)
				return document_write(out, NULL);
		first += snapshot->plan->scope[scope].nr_sets;
	}
	return document_write(out, sets ? json_pack("{s:O, s:O}", "events", events, "sets", sets) : NULL);
}
