/* SPDX-License-Identifier: MIT */

#include "counting/event/event.h"

#include <string.h>

void event_release(struct event *event)
{
	free(event->text);
	free(event->metric);
	free(event->pmu);
	free(event->why_absent);
	free(event->filter);
	free(event->probe);
	cpulist_release(&event->cpus);
	*event = (struct event){};
}

void event_list_release(struct event_list *list)
{
	for (size_t i = 0; i < list->nr; i++)
		event_release(&list->events[i]);
	free(list->events);
	*list = (struct event_list){};
}

void event_series_name(struct buf *out, const struct event *event)
{
	const char *unit = event_unit_name(event->unit);
	size_t metric_length = strlen(event->metric), length = strlen(unit);
	bool has_unit = metric_length >= length && strcmp(event->metric + metric_length - length, unit) == 0 &&
			(metric_length == length || event->metric[metric_length - length - 1] == '_');

	buf_str(out, event->metric);
	if (!*unit || has_unit)
		return;
	buf_char(out, '_');
	buf_str(out, unit);
}

void event_title(struct buf *out, const struct event *event)
{
	buf_str(out, event->text);
	if (event->by_pmu)
		buf_printf(out, " (%s)", event->pmu);
}

void event_attr(union event_attr *ret, const struct event *event)
{
	*ret = (union event_attr){ .attr = event->attr };
	ret->attr.size = sizeof(ret->attr);
	if (event->probe)
		ret->attr.config1 = (uintptr_t)event->probe;
	if (event->config3) {
		ret->config3 = event->config3;
		ret->attr.size = sizeof(*ret);
	}
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool event_equal(const struct event *a, const struct event *b)
{
	return strcmp(a->metric, b->metric) == 0 && strcmp(a->pmu, b->pmu) == 0 &&
	       memcmp(&a->attr, &b->attr, sizeof(a->attr)) == 0 && a->config3 == b->config3 &&
	       same_text(a->filter, b->filter) && same_text(a->probe, b->probe) && a->probe_dev == b->probe_dev &&
	       a->probe_ino == b->probe_ino;
}

bool event_is_slow_to_close(const struct event *event)
{
	return event->probe || event->attr.type == PERF_TYPE_TRACEPOINT;
}
