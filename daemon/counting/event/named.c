/* SPDX-License-Identifier: MIT */

#include "counting/event/named.h"

#include "base/util/names.h"
#include "base/util/text.h"
#include "counting/event/catalog/tracefs.h"
#include "counting/event/dynamic.h"
#include "counting/event/generic.h"
#include "counting/event/pfm-event.h"
#include "counting/event/tables.h"

#include <errno.h>
#include <string.h>

/* Returned by a reader of one group of names that does not know the name; the next one is tried then. */
#define NOT_MINE 1

/* modifier: the text behind the name's ':', or NULL. */
static int set_name_and_modifier(struct event_parser *parser, const char *name, const char *modifier)
{
	int r = event_parser_set_name(parser, "%s", name);

	return r == 0 && modifier ? event_parser_set_modifier(parser, modifier) : r;
}

static int read_generic(struct event_parser *parser, const char *name, const char *modifier)
{
	const struct event_table_entry *entry = event_software_find(name);
	char canonical[EVENT_CACHE_NAME_MAX];
	struct event like;
	int r;

	if (entry) {
		like = (struct event){
			.attr = { .type = PERF_TYPE_SOFTWARE, .config = entry->config },
			.scale = entry->nanoseconds ? 1e-9 : 1,
			.unit = entry->nanoseconds ? EVENT_UNIT_SECONDS : EVENT_UNIT_NONE,
		};
		r = set_name_and_modifier(parser, entry->name, modifier);
		return r < 0 ? r : event_parser_add(parser, &like, NULL, "software");
	}
	if (!generic_find_hardware(name, &like, canonical))
		return NOT_MINE;
	r = set_name_and_modifier(parser, canonical, modifier);
	return r < 0 ? r : generic_add_on_core(parser, &like, "cpu");
}

/* No known tracepoint has a name of such letters alone. */
static bool is_modifier(const char *text)
{
	struct modifier modifier;

	return modifier_parse(&modifier, text, NULL) == 0;
}

/* Counts, among core PMUs or the others, those that have an event of that name. */
static size_t count_alias(const struct pmu_catalogue *pmus, const char *name, bool core)
{
	size_t n = 0;

	for (size_t i = 0; i < pmus->nr; i++)
		n += pmu_is_core(&pmus->pmus[i]) == core && pmu_find_alias(&pmus->pmus[i], name);
	return n;
}

static int add_alias(struct event_parser *parser, const struct pmu *pmu, const char *name)
{
	_cleanup_(term_list_release) struct term_list terms = {};
	int r = term_list_parse(&terms, name, parser->why);

	return r < 0 ? r : event_add_terms(parser, pmu, &terms);
}

/* A name from a PMU's events/ without the PMU: "mem-loads" for "cpu/mem-loads/". Core PMUs win over others. */
static int read_alias(struct event_parser *parser, const char *name, const char *modifier)
{
	bool core = count_alias(parser->pmus, name, true) > 0;
	int r;

	if (!core && !count_alias(parser->pmus, name, false))
		return NOT_MINE;
	if (modifier && !is_modifier(modifier) && !core)
		return NOT_MINE;
	r = set_name_and_modifier(parser, name, modifier);

	for (size_t i = 0; r == 0 && i < parser->pmus->nr; i++) {
		const struct pmu *pmu = &parser->pmus->pmus[i];

		if (pmu_is_core(pmu) == core && pmu_find_alias(pmu, name))
			r = add_alias(parser, pmu, name);
	}
	return r;
}

static int read_raw(struct event_parser *parser, const char *name, const char *modifier)
{
	struct event like = { .attr = { .type = PERF_TYPE_RAW }, .scale = 1 };
	uint64_t config;
	int r = generic_parse_raw(name, &config);

	if (r == -EINVAL || (modifier && !is_modifier(modifier)))
		return NOT_MINE;
	if (r < 0)
		return event_parser_refuse(parser, "a raw event has 64 bits, 16 hexadecimal digits");
	like.attr.config = config;
	r = set_name_and_modifier(parser, name, modifier);
	return r < 0 ? r : generic_add_on_core(parser, &like, "raw");
}

static bool is_tracepoint_name(const char *subsystem, const char *name)
{
	return term_is_name(subsystem) && term_is_name(name) && subsystem[0] != '.' && name[0] != '.';
}

/* subsystem:name[/filter='…'/][:modifiers]. An unknown NAME:MODIFIERS looks the same; it counts as a tracepoint if the
 * kernel has one of that name, or if the part behind the ':' is no modifiers. */
static int read_tracepoint(struct event_parser *parser, const char *subsystem, char *name)
{
	struct event like = { .attr = { .type = PERF_TYPE_TRACEPOINT }, .scale = 1 };
	struct reason why = {};
	uint64_t id;
	char *modifier;
	int found, r;

	r = event_parser_cut_tail(parser, name, &modifier);
	if (r < 0)
		return r;
	if (strpbrk(subsystem, "*?[") || strpbrk(name, "*?["))
		return event_parser_refuse(parser, "wildcards are not supported, name each tracepoint");
	if (!is_tracepoint_name(subsystem, name))
		return event_parser_refuse(parser, "a tracepoint is SUBSYSTEM:NAME, of letters, digits and '_'");

	found = parser->env->tracefs || !parser->env->tracefs_problem ?
			tracefs_id(parser->env->tracefs, subsystem, name, &id, &why) :
			reason_set(&why, -ENODEV, "%s", parser->env->tracefs_problem);
	if (found == -ENOMEM)
		return found;
	if (found < 0 && !modifier && !parser->filter && is_modifier(name))
		return NOT_MINE;

	r = event_parser_set_name(parser, "%s:%s", subsystem, name);
	if (r == 0 && modifier)
		r = event_parser_set_modifier(parser, modifier);
	if (r < 0)
		return r;
	if (found < 0) {
		(void)event_hint_pfm(parser, found, &why);
		return event_parser_add_absent(parser, &like, "tracepoint", found, &why);
	}
	like.attr.config = id;
	return event_parser_add(parser, &like, NULL, "tracepoint");
}

/* 1 if this machine has the tracepoint, whatever follows its name; 0; -ENOMEM. */
static int has_tracepoint(const struct event_parser *parser, const char *subsystem, char *name)
{
	char *end = name + strcspn(name, "/:"), cut = *end;
	uint64_t id;
	int r = -ENOENT;

	*end = '\0';
	if (is_tracepoint_name(subsystem, name))
		r = tracefs_id(parser->env->tracefs, subsystem, name, &id, NULL);
	*end = cut;
	return r == -ENOMEM ? r : r == 0;
}

/* A name of libpfm's can look like a tracepoint, and an existing tracepoint wins; or like a name with wrong modifiers:
 * "L1D:REPLACEMENT". otherwise is the result of the readers before. */
static int read_pfm(struct event_parser *parser, const char *name, char *rest, int otherwise, bool *known)
{
	int r;

	*known = true;
	if (otherwise == -EINVAL && (!rest || *rest == ':' || is_modifier(rest)))
		return otherwise;
	r = otherwise == NOT_MINE && rest ? has_tracepoint(parser, name, rest) : 0;
	if (r == 0)
		r = event_parse_pfm(parser);
	*known = r <= 0 && r != -ENOENT;
	return *known ? r : otherwise;
}

static void offer_table(struct nearest *nearest, const struct event_table_entry *table, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		nearest_offer(nearest, table[i].name);
		if (table[i].alias)
			nearest_offer(nearest, table[i].alias);
	}
}

static int refuse_unknown(struct event_parser *parser, const char *name)
{
	char cache[EVENT_CACHE_NAME_MAX];
	struct nearest nearest;

	nearest_init(&nearest, name);
	offer_table(&nearest, event_hardware_table, event_hardware_table_size);
	offer_table(&nearest, event_software_table, event_software_table_size);
	for (size_t i = 0; event_cache_nth(i, cache, sizeof(cache)); i++)
		nearest_offer(&nearest, cache);
	for (size_t i = 0; i < parser->pmus->nr; i++)
		for (size_t j = 0; j < parser->pmus->pmus[i].nr_aliases; j++)
			nearest_offer(&nearest, parser->pmus->pmus[i].aliases[j].name);

	if (nearest.name[0])
		return reason_set(parser->why, -EINVAL, "unknown event '%.100s'; did you mean '%s'?", name,
				  nearest.name);
	reason_set(parser->why, -EINVAL, "unknown event '%.100s'; --list-events shows what there is", name);
	return event_hint_pfm(parser, -EINVAL, parser->why);
}

int event_parse_named(struct event_parser *parser, char *text)
{
	static int (*const readers[])(struct event_parser *, const char *, const char *) = {
		read_generic,
		read_alias,
		read_raw,
	};
	char *rest = text, *name = strsep(&rest, ":");
	bool generic = false, known = false;
	int r = NOT_MINE;

	if (!*name)
		return event_parser_refuse(parser, rest ? "the event's name is missing before the ':'" :
							  "the event's name is missing");

	for (size_t i = 0; r == NOT_MINE && i < ARRAY_SIZE(readers); i++) {
		r = readers[i](parser, name, rest);
		generic = readers[i] == read_generic;
	}
	/* L1D is a name of the kernel's, L1D:REPLACEMENT is libpfm's: -EINVAL may come from its "modifiers". */
	if (r == NOT_MINE || r == -EINVAL)
		r = read_pfm(parser, name, rest, r, &known);
	known = known || (r == -EINVAL && !generic);
	if (r == NOT_MINE && rest && *rest)
		r = read_tracepoint(parser, name, rest);
	if (r == NOT_MINE)
		r = refuse_unknown(parser, name);
	return r == -EINVAL && !known ? event_parse_vendors(parser) : r;
}
