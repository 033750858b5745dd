/* SPDX-License-Identifier: MIT */

#include "counting/session/retain.h"

#include <string.h>

/* The column of an event that was written and named alike, and is open; or NULL. */
static const struct column *find_open(const struct engines *engines, enum scope scope, const struct event *event)
{
	const struct scope_plan *plan = &engines->plan->scope[scope];

	for (size_t i = 0; i < plan->nr_columns; i++) {
		const struct column *column = &plan->columns[i];

		if (column->set != NO_SET && column->event->attr.type == event->attr.type &&
		    strcmp(column->event->text, event->text) == 0 &&
		    strcmp(column->event->metric, event->metric) == 0 &&
		    (column->retained_fd >= 0 || engines_are_open(engines, scope, column->set)))
			return column;
	}
	return NULL;
}

static void retain_event(const struct engines *engines, enum scope scope, struct event *event)
{
	bool plain = event->attr.type == PERF_TYPE_TRACEPOINT || event->attr.type == PERF_TYPE_BREAKPOINT;
	const struct column *column = event->absent && plain ? find_open(engines, scope, event) : NULL;

	if (!column)
		return;
	event->attr = column->event->attr;
	event->absent = 0;
	event->retained = true;
}

void retain_events(const struct engines *engines, struct group_list groups[static _SCOPE_MAX])
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < groups[scope].nr; i++)
			for (size_t k = 0; k < groups[scope].groups[i].events.nr; k++)
				retain_event(engines, (enum scope)scope, &groups[scope].groups[i].events.events[k]);
}
