/* SPDX-License-Identifier: MIT */

#include "event/draft.h"
#include "event/quote.h"
#include "util/names.h"
#include "util/text.h"

#include <errno.h>
#include <string.h>

/* What terms come to mean, while they are read. */
struct meaning {
	struct draft *draft;
	const struct pmu *pmu;
	const struct term_list *given; /* by the user */
	struct event event;
	/* As in perf, whole words and fields of them add up, in whatever order they stand:
	 * "umask=1,config=0x3c" is 0x13c. Among fields, and among words, the later one counts, and what is given
	 * before what the named event has. */
	uint64_t words[PMU_NR_CONFIGS], fields[PMU_NR_CONFIGS];
	const struct pmu_alias *alias; /* the PMU's own event that is named, whose unit and scale it has */
};

static bool is_format(const struct pmu *pmu, const char *name)
{
	return pmu_config_word(name) >= 0 || pmu_find_format(pmu, name);
}

/* The alias that a term names: NAME or event=NAME. */
static const struct pmu_alias *named_alias(const struct pmu *pmu, const struct term *term)
{
	uint64_t number;

	if (!term->value)
		return is_format(pmu, term->name) ? NULL : pmu_find_alias(pmu, term->name);
	if (strcmp(term->name, "event") || parse_u64(term->value, &number) != -EINVAL)
		return NULL;
	return pmu_find_alias(pmu, term->value);
}

static int apply(struct meaning *meaning, const struct term *term)
{
	bool word = pmu_config_word(term->name) >= 0;
	struct reason why;
	int r = pmu_apply_term(meaning->pmu, term, word ? meaning->words : meaning->fields, &why);

	return r < 0 ? draft_refuse(meaning->draft, "%s", why.text) : 0;
}

static int refuse_unset(struct meaning *meaning, const struct pmu_alias *alias, const struct term *term)
{
	return draft_refuse(meaning->draft,
			    "event '%.60s' of PMU '%.60s' needs a value for %.60s: %.60s=NUMBER",
			    alias->name, meaning->pmu->name, term->name, term->name);
}

static int apply_alias(struct meaning *meaning, const struct pmu_alias *alias)
{
	_cleanup_(term_list_release) struct term_list terms = {};
	int r = term_list_parse(&terms, alias->terms, meaning->draft->why);

	for (size_t i = 0; r == 0 && i < terms.nr; i++) {
		const struct term *term = &terms.terms[i];

		if (term->value && strcmp(term->value, "?") == 0)
			term = term_list_find(meaning->given, term->name);
		if (!term)
			return refuse_unset(meaning, alias, &terms.terms[i]);
		r = apply(meaning, term);
	}
	return r;
}

/* An event by name may be one that only other machines' PMUs of that name have; a term is how this PMU's events are
 * written. */
static int miss_unknown_term(struct meaning *meaning, const struct term *term)
{
	_cleanup_(buf_release) struct buf text = {};
	_cleanup_(freep) char *whole = NULL;

	if (term->value && pmu_find_alias(meaning->pmu, term->name))
		return draft_refuse(meaning->draft,
				    "'%.60s' is an event of PMU '%.60s' and takes no value", term->name,
				    meaning->pmu->name);
	buf_printf(&text, "PMU '%.60s' has no term or event '%.60s'", meaning->pmu->name, term->name);
	pmu_describe(meaning->pmu, &text);
	whole = buf_steal(&text);
	if (!whole)
		return -ENOMEM;
	return term->value ? draft_refuse(meaning->draft, "%s", whole) :
			     reason_set(&meaning->draft->missing, -ENOENT, "%s", whole);
}

/* The event of the PMU that is named, with its terms. */
static int apply_named(struct meaning *meaning)
{
	for (size_t i = 0; i < meaning->given->nr; i++) {
		const struct pmu_alias *alias = named_alias(meaning->pmu, &meaning->given->terms[i]);

		if (alias && meaning->alias && alias != meaning->alias)
			return draft_refuse(meaning->draft, "it names two events, '%.60s' and '%.60s'",
					    meaning->alias->name, alias->name);
		if (alias)
			meaning->alias = alias;
	}
	return meaning->alias ? apply_alias(meaning, meaning->alias) : 0;
}

/* What is given goes before what the named event has. */
static int apply_given(struct meaning *meaning)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < meaning->given->nr; i++) {
		const struct term *term = &meaning->given->terms[i];
		uint64_t raw;

		if (strcmp(term->name, "name") == 0 || named_alias(meaning->pmu, term))
			continue;
		if (is_format(meaning->pmu, term->name))
			r = apply(meaning, term);
		else if (!term->value && parse_raw(term->name, &raw) == 0)
			meaning->words[0] = raw;
		else
			r = miss_unknown_term(meaning, term);
	}
	return r;
}

/* "cpu_core/cycles/": the generic event on this core PMU, where its sysfs does not name it. */
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
	    pmu_find_alias(meaning->pmu, only->name) || !generic_hardware(only->name, ret, canonical))
		return false;
	if (pmu_count_core(meaning->draft->pmus) > 1)
		ret->attr.config |= (uint64_t)meaning->pmu->type << PERF_PMU_TYPE_SHIFT;
	return true;
}

int draft_add_terms(struct draft *draft, const struct pmu *pmu, const struct term_list *terms)
{
	struct meaning meaning = {
		.draft = draft,
		.pmu = pmu,
		.given = terms,
		.event = { .attr = { .type = pmu->type }, .scale = 1 },
	};
	int r;

	if (is_generic(&meaning, &meaning.event))
		return draft_add(draft, &meaning.event, pmu, NULL);

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
	return draft_add(draft, &meaning.event, pmu, NULL);
}

/* perf lets the "uncore_" be left out as well. */
enum match {
	MATCH_NAME,
	MATCH_INSTANCES,
	MATCH_UNCORE,
	_MATCH_MAX,
};

static bool matches(const struct pmu *pmu, const char *name, enum match how)
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

/* Of several instances, those that can have the event do. */
static int add_matching(struct draft *draft, const char *name, enum match how,
			const struct term_list *terms)
{
	int refused = 0;

	for (size_t i = 0; i < draft->pmus->nr; i++) {
		int r = 0;

		if (matches(&draft->pmus->pmus[i], name, how))
			r = draft_add_terms(draft, &draft->pmus->pmus[i], terms);
		if (r == -ENOMEM)
			return r;
		if (r < 0 && refused != -EINVAL)
			refused = r;
	}
	return draft->list.nr ? 0 : refused;
}

static int miss_pmu(struct draft *draft, const char *name)
{
	struct event generic;
	char canonical[EVENT_CACHE_NAME_MAX];
	struct name_list list = {};

	if (event_software_find(name) || generic_hardware(name, &generic, canonical))
		return draft_refuse(
			draft, "'%.60s' is an event, not a PMU: it takes ':' and modifiers, no '/'", name);

	for (size_t i = 0; i < draft->pmus->nr; i++)
		name_list_add(&list, draft->pmus->pmus[i].name);
	return reason_set(&draft->missing, -ENOENT, "this machine has no PMU '%.80s'; it has: %s", name,
			 name_list_text(&list));
}

/* name=, and what the metric is called without it: "msr/tsc". */
static int set_name(struct draft *draft, const char *pmu, const char *text, const struct term_list *terms)
{
	const struct term *given = term_list_find(terms, "name");

	for (size_t i = 0; i < terms->nr; i++)
		if (strcmp(terms->terms[i].name, "name") == 0 && !terms->terms[i].value)
			return draft_refuse(draft, "term 'name' needs a value: name=METRIC");
	if (given && !draft->label) {
		draft->label = strdup(given->value);
		if (!draft->label)
			return -ENOMEM;
	}
	return draft_set_name(draft, "%s/%s", pmu, text);
}

int draft_dynamic(struct draft *draft, char *text)
{
	_cleanup_(term_list_release) struct term_list terms = {};
	char *rest = text, *pmu = strsep(&rest, "/"), *inside = quote_sep(&rest, "/");
	struct reason why;
	int r;

	if (!*pmu)
		return draft_refuse(draft, "no PMU stands before the '/'");
	if (!pmu_is_name(pmu))
		return draft_refuse(draft, "'%.60s' is no PMU's name", pmu);
	if (!rest)
		return draft_refuse(draft, "the '/' after the terms is missing; write '%.60s/%.60s/'", pmu,
				    inside);

	r = term_list_parse(&terms, inside, &why);
	if (r < 0)
		return r == -ENOMEM ? r : draft_refuse(draft, "%s", why.text);
	r = set_name(draft, pmu, inside, &terms);
	if (r == 0 && *rest)
		r = draft_set_modifier(draft, *rest == ':' ? rest + 1 : rest);

	for (enum match how = 0; r == 0 && !draft->list.nr && how < _MATCH_MAX; how++)
		r = add_matching(draft, pmu, how, &terms);
	if (r == 0 && !draft->list.nr)
		r = miss_pmu(draft, pmu);
	return r == -ENOENT ? draft_add_missing(draft, pmu, -ENOENT, &draft->missing) : r;
}
