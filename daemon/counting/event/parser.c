/* SPDX-License-Identifier: MIT */

#include "counting/event/parser.h"

#include "base/util/text.h"
#include "counting/event/quote.h"

#include <errno.h>
#include <string.h>

int event_parser_refuse(struct event_parser *parser, const char *format, ...)
{
	struct reason what;
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(what.text, sizeof(what.text), format, ap);
	va_end(ap);
	return reason_set(parser->why, -EINVAL, "event '%.80s%s': %s", parser->text,
			  strlen(parser->text) > 80 ? "…" : "", what.text);
}

int event_parser_set_modifier(struct event_parser *parser, const char *text)
{
	struct reason what;

	if (modifier_parse(&parser->modifier, text, &what) < 0)
		return event_parser_refuse(parser, "%s", what.text);
	return 0;
}

int event_parser_set_name(struct event_parser *parser, const char *format, ...)
{
	char *name, *to;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(&name, format, ap);
	va_end(ap);
	if (n < 0)
		return -ENOMEM;
	to = name;
	for (const char *from = name; *from; from++)
		if (*from != '\'')
			*to++ = *from;
	*to = '\0';
	free(parser->name);
	parser->name = name;
	return 0;
}

static int set_filter(struct event_parser *parser, const struct term_list *terms)
{
	for (size_t i = 0; i < terms->nr; i++) {
		const char *value = terms->terms[i].value;

		if (strcmp(terms->terms[i].name, "filter"))
			return event_parser_refuse(parser, "the only term here is filter='…', not '%.60s'",
						   terms->terms[i].name);
		if (!value || !value[strspn(value, " \t")])
			return event_parser_refuse(parser, "the filter is empty");
		if (parser->filter)
			return event_parser_refuse(parser, "there are two filters; join them by '&&'");
		parser->filter = strdup(value);
		if (!parser->filter)
			return -ENOMEM;
	}
	return 0;
}

int event_parser_cut_tail(struct event_parser *parser, char *name, char **ret_modifier)
{
	_cleanup_(term_list_release) struct term_list terms = {};
	char *rest = quote_find(name, "/:"), separator = *rest, *inside;
	struct reason why;
	int r;

	if (separator)
		*rest++ = '\0';
	if (separator != '/') {
		*ret_modifier = separator ? rest : NULL;
		return 0;
	}

	inside = quote_sep(&rest, "/");
	if (!rest)
		return event_parser_refuse(parser, "the '/' after the terms is missing");
	r = term_list_parse(&terms, inside, &why);
	if (r < 0)
		return r == -ENOMEM ? r : event_parser_refuse(parser, "%s", why.text);
	r = set_filter(parser, &terms);
	if (r < 0)
		return r;
	*ret_modifier = !*rest ? NULL : *rest == ':' ? rest + 1 : rest;
	return 0;
}

int event_parser_cut_offset(struct event_parser *parser, char *symbol, uint64_t *ret)
{
	char *plus = quote_find(symbol, "+");
	uint64_t offset = 0;

	if (*plus) {
		*plus++ = '\0';
		if (parse_u64(plus, &offset) < 0)
			return event_parser_refuse(parser, "the offset after '+' is not a number: '%.60s'", plus);
	}
	*ret = offset;
	return 0;
}

/* The kernel runs these PMUs in its software context (struct pmu, task_ctx_nr). */
static bool in_software_context(uint32_t type, const char *pmu)
{
	return type == PERF_TYPE_SOFTWARE || type == PERF_TYPE_TRACEPOINT || type == PERF_TYPE_BREAKPOINT ||
	       strcmp(pmu, "uprobe") == 0 || strcmp(pmu, "kprobe") == 0 || strcmp(pmu, "msr") == 0;
}

/* The CPUs that the PMU counts on. An empty list must not become "on every CPU": the event is absent then. */
static int set_cpus(struct event *event, const struct pmu *pmu)
{
	if (!pmu->has_cpumask && !pmu->has_cpus)
		return 0;

	event->uncore = pmu->has_cpumask;
	if (!pmu->cpus.nr) {
		event->absent = -ENODEV;
		if (asprintf(&event->why_absent, "PMU '%s' has no CPU to be counted on (its %s is empty)", pmu->name,
			     pmu->has_cpumask ? "cpumask" : "list of CPUs") < 0) {
			event->why_absent = NULL;
			return -ENOMEM;
		}
	}
	return cpulist_copy(&event->cpus, &pmu->cpus);
}

static int append_event(struct event_parser *parser, struct event *event)
{
	struct event *events = reallocarray(parser->list.events, parser->list.nr + 1, sizeof(*events));

	if (!events)
		return -ENOMEM;
	parser->list.events = events;
	events[parser->list.nr++] = steal_struct(*event);
	return 0;
}

static int fill_event(const struct event_parser *parser, struct event *event, const char *pmu)
{
	event->text = strdup(parser->text);
	event->pmu = strdup(pmu);
	event->filter = parser->filter ? strdup(parser->filter) : NULL;
	event->probe = parser->probe ? strdup(parser->probe) : NULL;
	if (!event->text || !event->pmu || !event->filter != !parser->filter || !event->probe != !parser->probe)
		return -ENOMEM;
	event->attr.size = sizeof(event->attr);
	modifier_apply(&parser->modifier, &event->attr);
	event->software = in_software_context(event->attr.type, pmu);
	event->host_only = parser->modifier.host && !parser->modifier.guest;
	event->steady = event->steady && !modifier_narrows(&parser->modifier);
	return 0;
}

int event_parser_add(struct event_parser *parser, const struct event *like, const struct pmu *pmu, const char *fallback)
{
	_cleanup_(event_release) struct event event = *like;
	int r = fill_event(parser, &event, pmu ? pmu->name : fallback);

	event.no_pmu = !pmu && !event.software;
	if (r == 0 && pmu)
		r = set_cpus(&event, pmu);
	return r < 0 ? r : append_event(parser, &event);
}

int event_parser_add_missing(struct event_parser *parser, const char *pmu, int absent, const struct reason *why)
{
	const struct event like = { .attr = { .type = NO_PMU_TYPE }, .scale = 1 };

	return event_parser_add_absent(parser, &like, pmu, absent, why);
}

int event_parser_add_absent(struct event_parser *parser, const struct event *like, const char *pmu, int absent,
			    const struct reason *why)
{
	_cleanup_(event_release) struct event event = *like;
	int r = fill_event(parser, &event, pmu);

	if (r < 0)
		return r;
	event.absent = absent;
	event.why_absent = strdup(why->text);
	return event.why_absent ? append_event(parser, &event) : -ENOMEM;
}
