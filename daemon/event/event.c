/* SPDX-License-Identifier: MIT */

#include "event/event.h"

#include "event/draft.h"
#include "event/quote.h"
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

static void draft_release(struct draft *draft)
{
	free(draft->label);
	free(draft->name);
	free(draft->filter);
	free(draft->probe);
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

/* Everything below may take the text for printable ASCII without white space, but for what is quoted: that may have
 * blanks, and letters of other alphabets. */
static int check_characters(const char *text, struct reason *why)
{
	bool quoted = false;
	size_t n;

	if (strlen(text) > EVENT_TEXT_MAX)
		return reason_set(why, -EINVAL, "an event of %zu characters; the most is %d", strlen(text),
				  EVENT_TEXT_MAX);
	for (size_t i = 0; text[i]; i += n) {
		unsigned char c = (unsigned char)text[i];

		n = utf8_length(text + i);
		quoted ^= c == '\'';
		if (isgraph(c) || (quoted && (n > 1 || isblank(c))))
			continue;
		if (isspace(c))
			return reason_set(why, -EINVAL,
					  "event '%.*s…': white space inside; a comma separates events, and what has "
					  "white space stands in single quotes",
					  i < 80 ? (int)i : 80, text);
		return reason_set(why, -EINVAL, "event '%.*s…': byte 0x%02x is in no event's name",
				  i < 80 ? (int)i : 80, text, c);
	}
	if (quoted)
		return reason_set(why, -EINVAL,
				  "event '%.80s': a single quote is not closed (in a config file, ' #' and ' ;' begin "
				  "a comment also in quotes)",
				  text);
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

/* Kinds of events that are told by their beginning. */
static const struct kind {
	const char *prefix;
	int (*read)(struct draft *draft, char *text);
	bool slashes; /* of its own, which do not stand around terms */
} kinds[] = {
	{ .prefix = "mem:", .read = draft_breakpoint, .slashes = true },
	{ .prefix = "uprobe:", .read = draft_uprobe, .slashes = true },
	{ .prefix = "uretprobe:", .read = draft_uprobe, .slashes = true },
	{ .prefix = "kprobe:", .read = draft_kprobe },
	{ .prefix = "kretprobe:", .read = draft_kprobe },
};

static const struct kind *find_kind(const char *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strncmp(text, kinds[i].prefix, strlen(kinds[i].prefix)) == 0)
			return &kinds[i];
	return NULL;
}

static int read_event(struct draft *draft, char *text)
{
	const struct kind *kind = find_kind(text);

	if (kind)
		return kind->read(draft, text + strlen(kind->prefix));
	return text[strcspn(text, "/:")] == '/' ? draft_dynamic(draft, text) : draft_named(draft, text);
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
	r = read_event(&draft, copy);
	return r < 0 ? r : finish(&draft, list);
}

/* Where the first event of a list ends. */
static char *end_of_event(char *text)
{
	size_t label = strcspn(text, "=/:,'");
	const struct kind *kind = find_kind(text[label] == '=' ? text + label + 1 : text);
	const char *stop = kind && kind->slashes ? "," : ",/";
	char *end = quote_find(text, stop);

	/* A slash opens terms, the next one closes them. */
	while (*end == '/') {
		end = quote_find(end + 1, "/");
		if (*end)
			end = quote_find(end + 1, stop);
	}
	return end;
}

char *event_next_text(char **cursor)
{
	char *start = *cursor, *end;

	if (!start)
		return NULL;
	while (isspace((unsigned char)*start))
		start++;
	end = end_of_event(start);
	*cursor = *end ? end + 1 : NULL;
	while (end > start && isspace((unsigned char)end[-1]))
		end--;
	*end = '\0';
	return start;
}
