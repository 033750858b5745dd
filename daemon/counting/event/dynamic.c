/* SPDX-License-Identifier: MIT */

#include "counting/event/dynamic.h"

#include "base/util/names.h"
#include "base/util/text.h"
#include "counting/event/generic.h"
#include "counting/event/quote.h"
#include "counting/event/tables.h"

#include <errno.h>
#include <string.h>

/* The meaning of the terms, as far as they have been read. */
struct meaning {
	struct event_parser *parser;
	const struct pmu *pmu;
	const struct term_list *given; /* by the user */
	struct event event;
	/* As in perf, whole words and fields of them are or-ed together, in any order: "umask=1,config=0x3c" is 0x13c.
	 * Among fields, and among words, the last one wins, and a given one wins over the named event's. */
	uint64_t words[PMU_NR_CONFIGS], fields[PMU_NR_CONFIGS];
	const struct pmu_alias *alias; /* the PMU's event that is named, whose unit and scale apply; or NULL */
};

static bool is_format(const struct pmu *pmu, const char *name)
{
	return pmu_config_word(name) >= 0 || pmu_find_format(pmu, name);
}

/* The alias that a term names, as NAME or event=NAME; or NULL. */
static const struct pmu_alias *named_alias(const struct pmu *pmu, const struct term *term)
{
	uint64_t number;

	if (!term->value)
		return is_format(pmu, term->name) ? NULL : pmu_find_alias(pmu, term->name);
	if (strcmp(term->name, "event") || parse_u64(term->value, &number) != -EINVAL)
		return NULL;
	return pmu_find_alias(pmu, term->value);
}

static int apply_term(struct meaning *meaning, const struct term *term)
{
	bool word = pmu_config_word(term->name) >= 0;
	struct reason why;
	int r = pmu_apply_term(meaning->pmu, term, word ? meaning->words : meaning->fields, &why);

	return r < 0 ? event_parser_refuse(meaning->parser, "%s", why.text) : 0;
}

static int refuse_unset(struct meaning *meaning, const struct pmu_alias *alias, const struct term *term)
{
	return event_parser_refuse(meaning->parser,
				   "event '%.60s' of PMU '%.60s' needs a value for %.60s: %.60s=NUMBER", alias->name,
				   meaning->pmu->name, term->name, term->name);
}

static int apply_alias(struct meaning *meaning, const struct pmu_alias *alias)
{
	_cleanup_(term_list_release) struct term_list terms = {};
	int r = term_list_parse(&terms, alias->terms, meaning->parser->why);

	for (size_t i = 0; r == 0 && i < terms.nr; i++) {
		const struct term *term = &terms.terms[i];

		if (term->value && strcmp(term->value, "?") == 0)
			term = term_list_find(meaning->given, term->name);
		if (!term)
			return refuse_unset(meaning, alias, &terms.terms[i]);
		r = apply_term(meaning, term);
	}
	return r;
}

/* An unknown event's name may be one that another machine's PMU of that name has, and makes the event absent. An
 * unknown term with a value is refused: it is a part of how this PMU's events are written. */
static int miss_unknown_term(struct meaning *meaning, const struct term *term)
{
	_cleanup_(buf_release) struct buf text = {};
	_cleanup_(freep) char *whole = NULL;

	if (term->value && pmu_find_alias(meaning->pmu, term->name))
		return event_parser_refuse(meaning->parser, "'%.60s' is an event of PMU '%.60s' and takes no value",
					   term->name, meaning->pmu->name);
	buf_printf(&text, "PMU '%.60s' has no term or event '%.60s'", meaning->pmu->name, term->name);
	pmu_describe(meaning->pmu, &text);
	whole = buf_steal(&text);
	if (!whole)
		return -ENOMEM;
	return term->value ? event_parser_refuse(meaning->parser, "%s", whole) :
			     reason_set(&meaning->parser->missing, -ENOENT, "%s", whole);
}

/* Finds the event of the PMU that the terms name, if any, and applies its terms. */
static int apply_named(struct meaning *meaning)
{
	for (size_t i = 0; i < meaning->given->nr; i++) {
		const struct pmu_alias *alias = named_alias(meaning->pmu, &meaning->given->terms[i]);

		if (alias && meaning->alias && alias != meaning->alias)
			return event_parser_refuse(meaning->parser, "it names two events, '%.60s' and '%.60s'",
						   meaning->alias->name, alias->name);
		if (alias)
			meaning->alias = alias;
	}
	return meaning->alias ? apply_alias(meaning, meaning->alias) : 0;
}

/* Called after apply_named(), so that the given terms win. */
static int apply_given(struct meaning *meaning)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < meaning->given->nr; i++) {
		const struct term *term = &meaning->given->terms[i];
		uint64_t raw;

		if (strcmp(term->name, "name") == 0 || named_alias(meaning->pmu, term))
			continue;
		if (is_format(meaning->pmu, term->name))
			r = apply_term(meaning, term);
		else if (!term->value && generic_parse_raw(term->name, &raw) == 0)
			meaning->words[0] = raw;
		else
			r = miss_unknown_term(meaning, term);
	}
	return r;
}

/* "cpu_core/cycles/": the generic event on this core PMU, if its sysfs does not have the name. */
static bool is_generic(const struct meaning *meaning, struct event *ret)
{
	char canonical[EVENT_CACHE_NAME_MAX];
	const struct term *only = NULL;

	for (size_t i = 0; i < meaning->given->nr; i++) {
		const struct term *term = &meaning->given->terms[i];

		if (strcmp(term->name, "name") == 0)
			continue;
		if (only)
			return false;
		only = term;
	}
	if (!only || only->value || !pmu_is_core(meaning->pmu) || is_format(meaning->pmu, only->name) ||
	    pmu_find_alias(meaning->pmu, only->name) || !generic_find_hardware(only->name, ret, canonical))
		return false;
	if (pmu_count_core(meaning->parser->pmus) > 1)
		ret->attr.config |= (uint64_t)meaning->pmu->type << PERF_PMU_TYPE_SHIFT;
	return true;
}

int event_add_terms(struct event_parser *parser, const struct pmu *pmu, const struct term_list *terms)
{
	struct meaning meaning = {
		.parser = parser,
		.pmu = pmu,
		.given = terms,
		.event = { .attr = { .type = pmu->type }, .scale = 1 },
	};
	int r;

	if (is_generic(&meaning, &meaning.event))
		return event_parser_add(parser, &meaning.event, pmu, NULL);

	r = apply_named(&meaning);
	if (r == 0)
		r = apply_given(&meaning);
	if (r < 0)
		return r;

	meaning.event.attr.config = meaning.words[0] | meaning.fields[0];
	meaning.event.attr.config1 = meaning.words[1] | meaning.fields[1];
	meaning.event.attr.config2 = meaning.words[2] | meaning.fields[2];
	meaning.event.config3 = meaning.words[3] | meaning.fields[3];
	if (meaning.alias) {
		meaning.event.scale = meaning.alias->scale;
		meaning.event.unit = event_unit_parse(meaning.alias->unit, &meaning.event.scale);
	}
	return event_parser_add(parser, &meaning.event, pmu, NULL);
}

/* How a PMU's name is matched, in the order of trying. As in perf, "uncore_" can be left out. */
enum match {
	MATCH_NAME,
	MATCH_INSTANCES,
	MATCH_UNCORE,
	_MATCH_MAX,
};

static bool pmu_matches(const struct pmu *pmu, const char *name, enum match how)
{
	static const char uncore[] = "uncore_";

	switch (how) {
	case MATCH_NAME:
		return strcmp(pmu->name, name) == 0;
	case MATCH_INSTANCES:
		return pmu_is_instance_of(pmu->name, name);
	default:
		return strncmp(pmu->name, uncore, sizeof(uncore) - 1) == 0 &&
		       (strcmp(pmu->name + sizeof(uncore) - 1, name) == 0 ||
			pmu_is_instance_of(pmu->name + sizeof(uncore) - 1, name));
	}
}

/* Adds the event on those of several instances that have it; fails only if none has. */
static int add_matching(struct event_parser *parser, const char *name, enum match how, const struct term_list *terms)
{
	int refused = 0;

	for (size_t i = 0; i < parser->pmus->nr; i++) {
		int r = 0;

		if (pmu_matches(&parser->pmus->pmus[i], name, how))
			r = event_add_terms(parser, &parser->pmus->pmus[i], terms);
		if (r == -ENOMEM)
			return r;
		if (r < 0 && refused != -EINVAL)
			refused = r;
	}
	return parser->list.nr ? 0 : refused;
}

static int miss_pmu(struct event_parser *parser, const char *name)
{
	struct event generic;
	char canonical[EVENT_CACHE_NAME_MAX];
	struct name_list list = {};

	if (event_software_find(name) || generic_find_hardware(name, &generic, canonical))
		return event_parser_refuse(parser, "'%.60s' is an event, not a PMU: it takes ':' and modifiers, no '/'",
					   name);

	for (size_t i = 0; i < parser->pmus->nr; i++)
		name_list_add(&list, parser->pmus->pmus[i].name);
	return reason_set(&parser->missing, -ENOENT, "this machine has no PMU '%.80s'; it has: %s", name,
			  name_list_text(&list));
}

/* The metric's name by name=METRIC; else it is made from the text: "msr/tsc". */
static int set_dynamic_name(struct event_parser *parser, const char *pmu, const char *text,
			    const struct term_list *terms)
{
	const struct term *given = term_list_find(terms, "name");

	for (size_t i = 0; i < terms->nr; i++)
		if (strcmp(terms->terms[i].name, "name") == 0 && !terms->terms[i].value)
			return event_parser_refuse(parser, "term 'name' needs a value: name=METRIC");
	if (given && !parser->label) {
		parser->label = strdup(given->value);
		if (!parser->label)
			return -ENOMEM;
	}
	return event_parser_set_name(parser, "%s/%s", pmu, text);
}

int event_parse_dynamic(struct event_parser *parser, char *text)
{
	_cleanup_(term_list_release) struct term_list terms = {};
	char *rest = text, *pmu = strsep(&rest, "/"), *inside = quote_sep(&rest, "/");
	struct reason why;
	int r;

	if (!*pmu)
		return event_parser_refuse(parser, "the PMU's name is missing before the '/'");
	if (!pmu_is_name(pmu))
		return event_parser_refuse(parser, "'%.60s' is not a PMU's name", pmu);
	if (!rest)
		return event_parser_refuse(parser, "the '/' after the terms is missing; write '%.60s/%.60s/'", pmu,
					   inside);

	r = term_list_parse(&terms, inside, &why);
	if (r < 0)
		return r == -ENOMEM ? r : event_parser_refuse(parser, "%s", why.text);
	r = set_dynamic_name(parser, pmu, inside, &terms);
	if (r == 0 && *rest)
		r = event_parser_set_modifier(parser, *rest == ':' ? rest + 1 : rest);

	for (enum match how = 0; r == 0 && !parser->list.nr && how < _MATCH_MAX; how++)
		r = add_matching(parser, pmu, how, &terms);
	if (r == 0 && !parser->list.nr)
		r = miss_pmu(parser, pmu);
	return r == -ENOENT ? event_parser_add_missing(parser, pmu, -ENOENT, &parser->missing) : r;
}
