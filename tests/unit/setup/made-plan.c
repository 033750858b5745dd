/* SPDX-License-Identifier: MIT */

#include "setup/made-plan.h"

#include "base/util/buf.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void add_event(struct event_list *list, const struct made *made)
{
	struct event *events = reallocarray(list->events, list->nr + 1, sizeof(*events));
	struct event *event;

	assert_non_null(events);
	list->events = events;
	event = &events[list->nr++];
	*event = (struct event){
		.text = strdup(made->name),
		.metric = strdup(made->name),
		.pmu = strdup(made->type == HW ? "cpu" :
			      made->type == SW ? "software" :
						 "uncore"),
		.attr = { .type = made->type, .pinned = made->pinned, .exclusive = made->exclusive },
		.scale = 1,
		.software = made->type == SW,
		.uncore = made->type == UNCORE,
	};
	event->attr.config = (unsigned char)made->name[0];
	if (made->cpus)
		assert_int_equal(cpulist_parse(&event->cpus, made->cpus), 0);
}

void made_plan_group(struct group_list *list, const struct made_group *made)
{
	struct group *groups = reallocarray(list->groups, list->nr + 1, sizeof(*groups));

	assert_non_null(groups);
	list->groups = groups;
	groups[list->nr] = (struct group){ .name = strdup(made->name), .alone = made->alone, .hidden = made->hidden };
	for (const struct made *event = made->events; event->name; event++)
		add_event(&groups[list->nr].events, event);
	list->nr++;
}

void made_plan_build(struct plan *plan, enum scope scope, const struct made_group *groups)
{
	_cleanup_(cpulist_release) struct cpulist online = {};
	size_t column = 0;

	assert_int_equal(cpulist_parse(&online, "0-1,5"), 0);
	for (const struct made_group *group = groups; group->name; group++)
		made_plan_group(&plan->groups[scope], group);
	assert_int_equal(plan_add_columns(&plan->scope[scope], &plan->groups[scope], scope), 0);
	for (const struct made_group *group = groups; group->name; group++)
		for (const struct made *event = group->events; event->name; event++)
			assert_int_equal(
				plan_assign_set(&plan->scope[scope], column++, event->engine ?: ENGINE_A, &online), 0);
}

void assert_plan_sets(const struct scope_plan *plan, const char *sets)
{
	_cleanup_(buf_release) struct buf text = {};

	for (size_t i = 0; i < plan->nr_sets; i++)
		for (size_t k = 0; k < plan->sets[i].nr; k++) {
			const struct column *column = &plan->columns[plan->sets[i].columns[k]];

			buf_printf(&text, "%s%s", k ? " " : i ? "|" : "", column->event->text);
			assert_int_equal(column->set, i);
			assert_int_equal(column->member, k);
		}
	assert_string_equal(text.len ? text.data : "", sets);
}
