/* SPDX-License-Identifier: MIT */

#include "event/draft.h"

#include "event/quote.h"
#include "util/text.h"

#include <errno.h>
#include <string.h>

int draft_refuse(struct draft *draft, const char *format, ...)
{
	struct reason what;
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(what.text, sizeof(what.text), format, ap);
	va_end(ap);
	return reason_set(draft->why, -EINVAL, "event '%.80s%s': %s", draft->text,
			  strlen(draft->text) > 80 ? "…" : "", what.text);
}

int draft_set_modifier(struct draft *draft, const char *text)
{
	struct reason what;

	if (modifier_parse(&draft->modifier, text, &what) < 0)
		return draft_refuse(draft, "%s", what.text);
	return 0;
}

int draft_set_name(struct draft *draft, const char *format, ...)
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
	free(draft->name);
	draft->name = name;
	return 0;
}

static int set_filter(struct draft *draft, const struct term_list *terms)
{
	for (size_t i = 0; i < terms->nr; i++) {
		const char *value = terms->terms[i].value;

		if (strcmp(terms->terms[i].name, "filter"))
			return draft_refuse(draft, "the only term here is filter='…', not '%.60s'",
					    terms->terms[i].name);
		if (!value || !value[strspn(value, " \t")])
			return draft_refuse(draft, "the filter is empty");
		if (draft->filter)
			return draft_refuse(draft, "there are two filters; join them by '&&'");
		draft->filter = strdup(value);
		if (!draft->filter)
			return -ENOMEM;
	}
	return 0;
}

int draft_cut_tail(struct draft *draft, char *name, char **modifier)
{
	_cleanup_(term_list_release) struct term_list terms = {};
	char *rest = quote_find(name, "/:"), separator = *rest, *inside;
	struct reason why;
	int r;

	*modifier = NULL;
	if (!separator)
		return 0;
	*rest++ = '\0';
	if (separator == ':') {
		*modifier = rest;
		return 0;
	}

	inside = quote_sep(&rest, "/");
	if (!rest)
		return draft_refuse(draft, "the '/' after the terms is missing");
	r = term_list_parse(&terms, inside, &why);
	if (r < 0)
		return r == -ENOMEM ? r : draft_refuse(draft, "%s", why.text);
	if (*rest)
		*modifier = *rest == ':' ? rest + 1 : rest;
	return set_filter(draft, &terms);
}

int draft_cut_offset(struct draft *draft, char *symbol, uint64_t *ret)
{
	char *plus = quote_find(symbol, "+");

	*ret = 0;
	if (!*plus)
		return 0;
	*plus++ = '\0';
	return parse_u64(plus, ret) < 0 ? draft_refuse(draft, "the offset after '+' is no number: '%.60s'", plus) : 0;
}

/* perf_event_open(2): their PMUs are driven by the kernel's own code and share its software context. */
static bool in_software_context(uint32_t type, const char *pmu)
{
	return type == PERF_TYPE_SOFTWARE || type == PERF_TYPE_TRACEPOINT ||
	       type == PERF_TYPE_BREAKPOINT || strcmp(pmu, "uprobe") == 0 || strcmp(pmu, "kprobe") == 0 ||
	       strcmp(pmu, "msr") == 0;
}

/* Where the PMU's events count. An empty list of CPUs must not become "on every CPU". */
static int place(struct event *event, const struct pmu *pmu)
{
	if (!pmu->has_cpumask && !pmu->has_cpus)
		return 0;

	event->uncore = pmu->has_cpumask;
	if (!pmu->cpus.nr) {
		event->absent = -ENODEV;
		if (asprintf(&event->why_absent, "PMU '%s' has no CPU to be counted on (its %s is empty)",
			     pmu->name, pmu->has_cpumask ? "cpumask" : "list of CPUs") < 0) {
			event->why_absent = NULL;
			return -ENOMEM;
		}
	}
	return cpulist_copy(&event->cpus, &pmu->cpus);
}

static int append(struct draft *draft, struct event *event)
{
	struct event *events = reallocarray(draft->list.events, draft->list.nr + 1, sizeof(*events));

	if (!events)
		return -ENOMEM;
	draft->list.events = events;
	events[draft->list.nr++] = *event;
	*event = (struct event){};
	return 0;
}

static int fill(const struct draft *draft, struct event *event, const char *pmu)
{
	event->text = strdup(draft->text);
	event->pmu = strdup(pmu);
	event->filter = draft->filter ? strdup(draft->filter) : NULL;
	event->probe = draft->probe ? strdup(draft->probe) : NULL;
	if (!event->text || !event->pmu || !event->filter != !draft->filter || !event->probe != !draft->probe)
		return -ENOMEM;
	event->attr.size = sizeof(event->attr);
	modifier_apply(&draft->modifier, &event->attr);
	event->software = in_software_context(event->attr.type, pmu);
	event->host_only = draft->modifier.host && !draft->modifier.guest;
	event->steady = event->steady && !modifier_narrows(&draft->modifier);
	return 0;
}

int draft_add(struct draft *draft, const struct event *like, const struct pmu *pmu, const char *fallback)
{
	_cleanup_(event_release) struct event event = *like;
	int r = fill(draft, &event, pmu ? pmu->name : fallback);

	event.no_pmu = !pmu && !event.software;
	if (r == 0 && pmu)
		r = place(&event, pmu);
	return r < 0 ? r : append(draft, &event);
}

int draft_add_missing(struct draft *draft, const char *pmu, int absent, const struct reason *why)
{
	const struct event like = { .attr = { .type = NO_PMU_TYPE }, .scale = 1 };

	return draft_add_absent(draft, &like, pmu, absent, why);
}

int draft_add_absent(struct draft *draft, const struct event *like, const char *pmu, int absent,
		     const struct reason *why)
{
	_cleanup_(event_release) struct event event = *like;
	int r = fill(draft, &event, pmu);

	if (r < 0)
		return r;
	event.absent = absent;
	event.why_absent = strdup(why->text);
	return event.why_absent ? append(draft, &event) : -ENOMEM;
}
