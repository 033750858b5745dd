/* SPDX-License-Identifier: MIT */

#include "report.h"

#include "util/buf.h"
#include "util/log.h"

#include <errno.h>
#include <string.h>
#include <systemd/sd-daemon.h>

void report_release(struct report *report)
{
	report_forget_states(report);
	report_forget_status(report);
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		free(report->said[scope]);
	*report = (struct report){};
}

static bool is_counting(enum event_state state)
{
	return state == EVENT_OK || state == EVENT_MULTIPLEXED;
}

/* Logs columns whose state has changed between counting and not, those with one reason in one line. */
static void log_states(struct report *report, const struct monitor *monitor, enum scope scope)
{
	const struct plan *plan = count_plan(monitor->count);
	enum event_state *said = report->said[scope];
	size_t nr = plan->scope[scope].nr_columns;

	for (size_t i = 0; i < nr; i++) {
		_cleanup_(buf_release) struct buf names = {};
		_cleanup_(freep) char *text = NULL;
		const char *why, *other_why;
		enum event_state state = count_column_state(monitor->count, scope, i, &why);

		if (is_counting(state) == is_counting(said[i])) {
			said[i] = state;
			continue;
		}
		for (size_t k = i; k < nr; k++) {
			const struct column *column = &plan->scope[scope].columns[k];

			if (count_column_state(monitor->count, scope, k, &other_why) != state ||
			    is_counting(said[k]) == is_counting(state) || strcmp(why ?: "", other_why ?: "") != 0)
				continue;
			buf_printf(&names, "%s%s", names.len ? ", " : "", column->event->text);
			said[k] = state;
		}
		text = buf_steal(&names);
		log_line(is_counting(state) ? LOG_NOTICE : LOG_WARNING, "per %s, %s: %s%s%s",
			 scope == SCOPE_CPU ? "CPU" : "cgroup", event_state_name(state), text ? text : "?",
			 why ? ": " : "", why ? why : "");
	}
}

/* What has been said of a scope's columns, as far as the new plan has them too; NULL where there is no memory. */
static enum event_state *carry_said(const struct report *report, const struct plan *plan, enum scope scope)
{
	const struct scope_plan *to = &plan->scope[scope];
	const struct scope_plan *from = report->plan ? &report->plan->scope[scope] : NULL;
	enum event_state *said = calloc(to->nr_columns + 1, sizeof(*said));

	for (size_t i = 0; said && from && i < to->nr_columns; i++) {
		size_t k = column_find_equal(&to->columns[i], from);

		if (k != NO_COLUMN)
			said[i] = report->said[scope][k];
	}
	return said;
}

/* The plan changes also without a reload: where an event has recovered. -ENOMEM. */
static int follow_plan(struct report *report, struct plan *plan)
{
	enum event_state *said[_SCOPE_MAX] = {};
	bool failed = false;

	if (report->plan == plan)
		return 0;
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		said[scope] = carry_said(report, plan, (enum scope)scope);
		failed |= !said[scope];
	}
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		free(failed ? said[scope] : report->said[scope]);
		if (!failed)
			report->said[scope] = said[scope];
	}
	if (failed)
		return -ENOMEM;
	plan_unref(report->plan);
	report->plan = plan_ref(plan);
	return 0;
}

void report_forget_states(struct report *report)
{
	report->plan = plan_unref(report->plan);
}

void report_forget_status(struct report *report)
{
	free(report->status);
	report->status = NULL;
}

void report_states(struct report *report, const struct monitor *monitor)
{
	struct reason status;
	bool counting;

	for (int scope = 0; follow_plan(report, count_plan(monitor->count)) == 0 && scope < _SCOPE_MAX; scope++)
		log_states(report, monitor, (enum scope)scope);

	counting = monitor_describe(monitor, &status);
	if (report->status && strcmp(report->status, status.text) == 0)
		return;
	(void)sd_notifyf(0, "STATUS=Counting %s", status.text);
	if (!counting)
		log_warning("counting %s", status.text);
	else if (report->idle)
		log_notice("counting %s", status.text);
	report->idle = !counting;
	free(report->status);
	report->status = strdup(status.text);
}
