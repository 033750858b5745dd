/* SPDX-License-Identifier: MIT */

#include "counting/event/parse.h"

#include "base/util/text.h"
#include "counting/event/breakpoint.h"
#include "counting/event/dynamic.h"
#include "counting/event/named.h"
#include "counting/event/parser.h"
#include "counting/event/probes.h"
#include "counting/event/quote.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

/* Bytes of an event's text: far beyond any event. */
#define EVENT_TEXT_MAX 4096

static void event_parser_release(struct event_parser *parser)
{
	free(parser->label);
	free(parser->name);
	free(parser->filter);
	free(parser->probe);
	event_list_release(&parser->list);
}

/* The name in metrics: it is not empty and begins with a letter or '_'; text without either gets "event" in front. */
static char *make_metric(const struct event_parser *parser)
{
	_cleanup_(buf_release) struct buf b = {};
	_cleanup_(freep) char *text = NULL, *name = NULL;
	char *prefixed;

	buf_str(&b, parser->label ? parser->label : parser->name);
	if (!parser->label)
		modifier_add_suffix(&parser->modifier, &b);
	text = buf_steal(&b);
	name = text ? metric_name(text) : NULL;
	if (!name)
		return NULL;
	if (*name && !isdigit((unsigned char)*name))
		return steal_ptr(name);
	return asprintf(&prefixed, "event%s%s", *name ? "_" : "", name) < 0 ? NULL : prefixed;
}

/* Sets the members that the parser's events have in common, and moves them to the list. */
static int hand_over(struct event_parser *parser, struct event_list *list)
{
	struct event_list *from = &parser->list;
	struct event *events;

	for (size_t i = 0; i < from->nr; i++) {
		from->events[i].by_pmu = from->nr > 1;
		from->events[i].metric = make_metric(parser);
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

/* All other functions rely on this: the text is printable ASCII without white space, except within quotes, where blanks
 * and letters of other alphabets are allowed. */
static int check_characters(const char *text, struct reason *why)
{
	bool quoted = false;
	size_t n;

	if (strlen(text) > EVENT_TEXT_MAX)
		return reason_set(why, -EINVAL, "an event of %zu bytes; at most %d are allowed", strlen(text),
				  EVENT_TEXT_MAX);
	for (size_t i = 0; text[i]; i += n) {
		unsigned char c = (unsigned char)text[i];

		n = utf8_length(text + i);
		quoted ^= c == '\'';
		if (isgraph(c) || (quoted && (n > 1 || isblank(c))))
			continue;
		if (isspace(c))
			return reason_set(why, -EINVAL,
					  "event '%.*s…': white space inside; commas separate events, and single "
					  "quotes enclose text with white space",
					  i < 80 ? (int)i : 80, text);
		return reason_set(why, -EINVAL, "event '%.*s…': byte 0x%02x can't be in an event's name",
				  i < 80 ? (int)i : 80, text, c);
	}
	if (quoted)
		return reason_set(why, -EINVAL,
				  "event '%.80s': a single quote is not closed (in a config file, ' #' and ' ;' begin "
				  "a comment also in quotes)",
				  text);
	return 0;
}

/* LABEL=EVENT: the '=' of a label stands before any '/' or ':', behind which an event's own '=' can be. */
static int split_label(struct event_parser *parser, struct reason *why)
{
	size_t n = strcspn(parser->text, "=/:");

	if (parser->text[n] != '=')
		return 0;
	for (size_t i = 0; i < n; i++) {
		char c = parser->text[i];

		if (!isalpha((unsigned char)c) && c != '_' && (i == 0 || (!isdigit((unsigned char)c) && c != '-')))
			n = 0;
	}
	if (!n)
		return reason_set(why, -EINVAL,
				  "event '%.100s': a label before '=' is a letter or '_' and then letters, "
				  "digits, '_' and '-'",
				  parser->text);
	parser->label = strndup(parser->text, n);
	if (!parser->label)
		return -ENOMEM;
	parser->text += n + 1;
	return 0;
}

/* Kinds of events with a prefix. */
static const struct kind {
	const char *prefix;
	int (*read)(struct event_parser *parser, char *text);
	bool slashes; /* its slashes do not enclose terms */
} kinds[] = {
	{ .prefix = "mem:", .read = event_parse_breakpoint, .slashes = true },
	{ .prefix = "uprobe:", .read = event_parse_uprobe, .slashes = true },
	{ .prefix = "uretprobe:", .read = event_parse_uprobe, .slashes = true },
	{ .prefix = "kprobe:", .read = event_parse_kprobe },
	{ .prefix = "kretprobe:", .read = event_parse_kprobe },
};

static const struct kind *find_kind(const char *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strncmp(text, kinds[i].prefix, strlen(kinds[i].prefix)) == 0)
			return &kinds[i];
	return NULL;
}

static int read_event(struct event_parser *parser, char *text)
{
	const struct kind *kind = find_kind(text);

	if (kind)
		return kind->read(parser, text + strlen(kind->prefix));
	return text[strcspn(text, "/:")] == '/' ? event_parse_dynamic(parser, text) : event_parse_named(parser, text);
}

int event_parse(struct event_list *list, const struct event_env *env, const char *text, struct reason *why)
{
	static const struct pmu_catalogue no_pmus = {};
	_cleanup_(freep) char *copy = NULL;
	_cleanup_(event_parser_release) struct event_parser parser = {
		.env = env,
		.pmus = env->pmus ? env->pmus : &no_pmus,
		.text = text,
		.why = why,
	};
	int r;

	r = check_characters(text, why);
	if (r == 0)
		r = split_label(&parser, why);
	if (r < 0)
		return r;

	copy = strdup(parser.text);
	if (!copy)
		return -ENOMEM;
	r = read_event(&parser, copy);
	return r < 0 ? r : hand_over(&parser, list);
}

/* The comma behind the first event of a list, or the end. */
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
