/* SPDX-License-Identifier: MIT */

#include "event/event.h"

#include "event/draft.h"
#include "util/text.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

/* Far beyond any event, and short enough to be looked at as a whole. */
#define EVENT_TEXT_MAX 4096

void event_release(struct event *event)
{
	free(event->text);
	free(event->metric);
	free(event->pmu);
	free(event->why_absent);
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

char *event_series_name(const struct event *event)
{
	const char *unit = event_unit_name(event->unit);
	size_t metric_length = strlen(event->metric), length = strlen(unit);
	bool has_unit = metric_length >= length && strcmp(event->metric + metric_length - length, unit) == 0 &&
			(metric_length == length || event->metric[metric_length - length - 1] == '_');
	char *name;

	if (!*unit || has_unit)
		return strdup(event->metric);
	return asprintf(&name, "%s_%s", event->metric, unit) < 0 ? NULL : name;
}

void event_attr(union event_attr *ret, const struct event *event)
{
	*ret = (union event_attr){ .attr = event->attr };
	ret->attr.size = sizeof(ret->attr);
	if (event->config3) {
		ret->config3 = event->config3;
		ret->attr.size = sizeof(*ret);
	}
}

static void draft_release(struct draft *draft)
{
	free(draft->label);
	free(draft->name);
	event_list_release(&draft->list);
}

/* The name in metrics: it begins with a letter or '_' and is not empty, whatever it is made from. */
static char *make_metric(const struct draft *draft)
{
	_cleanup_(buf_release) struct buf b = {};
	_cleanup_(freep) char *text = NULL, *name = NULL;
	char *prefixed;

	buf_str(&b, draft->label ? draft->label : draft->name);
	if (!draft->label)
		modifier_add_suffix(&draft->modifier, &b);
	text = buf_steal(&b);
	name = text ? metric_name(text) : NULL;
	if (!name)
		return NULL;
	if (*name && !isdigit((unsigned char)*name))
		return steal_ptr(name);
	return asprintf(&prefixed, "event%s%s", *name ? "_" : "", name) < 0 ? NULL : prefixed;
}

/* Gives the draft's events what they have as a whole, and hands them over. */
static int finish(struct draft *draft, struct event_list *list)
{
	struct event_list *from = &draft->list;
	struct event *events;

	for (size_t i = 0; i < from->nr; i++) {
		from->events[i].by_pmu = from->nr > 1;
		from->events[i].metric = make_metric(draft);
		if (!from->events[i].metric)
			return -ENOMEM;
	}

	events = reallocarray(list->events, list->nr + from->nr, sizeof(*events));
	if (!events)
		return -ENOMEM;
	list->events = events;
	memcpy(events + list->nr, from->events, from->nr * sizeof(*events));
	list->nr += from->nr;
	from->nr = 0;
	return 0;
}

/* Everything below may take the text for printable ASCII without white space. */
static int check_characters(const char *text, struct reason *why)
{
	if (strlen(text) > EVENT_TEXT_MAX)
		return reason_set(why, -EINVAL, "an event of %zu characters; the most is %d", strlen(text),
				  EVENT_TEXT_MAX);
	for (size_t i = 0; text[i]; i++) {
		unsigned char c = (unsigned char)text[i];

		if (isspace(c))
			return reason_set(why, -EINVAL,
					  "event '%.*s…': white space inside; a comma separates events",
					  i < 80 ? (int)i : 80, text);
		if (!isgraph(c))
			return reason_set(why, -EINVAL, "event '%.*s…': byte 0x%02x is in no event's name",
					  i < 80 ? (int)i : 80, text, c);
	}
	return 0;
}

/* LABEL=EVENT, where the '=' comes before what an event's terms and modifiers follow. */
static int split_label(struct draft *draft, struct reason *why)
{
	size_t n = strcspn(draft->text, "=/:");

	if (draft->text[n] != '=')
		return 0;
	for (size_t i = 0; i < n; i++) {
		char c = draft->text[i];

		if (!isalpha((unsigned char)c) && c != '_' &&
		    (i == 0 || (!isdigit((unsigned char)c) && c != '-')))
			n = 0;
	}
	if (!n)
		return reason_set(
			why, -EINVAL,
			"event '%.100s': a label before '=' is a letter or '_' and then letters, "
			"digits, '_' and '-'",
			draft->text);
	draft->label = strndup(draft->text, n);
	if (!draft->label)
		return -ENOMEM;
	draft->text += n + 1;
	return 0;
}

int event_parse(struct event_list *list, const struct event_env *env, const char *text, struct reason *why)
{
	static const struct pmu_catalogue no_pmus = {};
	_cleanup_(freep) char *copy = NULL;
	_cleanup_(draft_release) struct draft draft = {
		.env = env,
		.pmus = env->pmus ? env->pmus : &no_pmus,
		.text = text,
		.why = why,
	};
	int r;

	r = check_characters(text, why);
	if (r == 0)
		r = split_label(&draft, why);
	if (r < 0)
		return r;

	copy = strdup(draft.text);
	if (!copy)
		return -ENOMEM;
	r = strchr(copy, '/') && strncmp(copy, "mem:", 4) ? draft_dynamic(&draft, copy) :
							    draft_named(&draft, copy);
	return r < 0 ? r : finish(&draft, list);
}

char *event_next_text(char **cursor)
{
	char *start = *cursor, *end;
	bool inside = false;

	if (!start)
		return NULL;
	for (end = start; *end && (inside || *end != ','); end++)
		if (*end == '/')
			inside = !inside;
	*cursor = *end ? end + 1 : NULL;

	while (isspace((unsigned char)*start))
		start++;
	while (end > start && isspace((unsigned char)end[-1]))
		end--;
	*end = '\0';
	return start;
}
