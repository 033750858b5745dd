/* SPDX-License-Identifier: MIT */

#include "event/draft.h"
#include "util/names.h"
#include "event/tracefs.h"
#include "util/text.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

/* A reader of names that does not know one; the next is asked then. */
#define NOT_MINE 1

/* What follows the name's ':' (or NULL) is modifiers. */
static int set_name_and_modifier(struct draft *draft, const char *name, const char *modifier)
{
	int r = draft_set_name(draft, "%s", name);

	return r == 0 && modifier ? draft_set_modifier(draft, modifier) : r;
}

bool generic_hardware(const char *name, struct event *ret, char canonical[static EVENT_CACHE_NAME_MAX])
{
	const struct event_table_entry *entry = event_hardware_find(name);
	uint64_t config;

	if (entry) {
		(void)snprintf(canonical, EVENT_CACHE_NAME_MAX, "%s", entry->name);
		*ret = (struct event){ .attr = { .type = PERF_TYPE_HARDWARE, .config = entry->config },
				       .scale = 1,
				       .steady = entry->steady };
		return true;
	}
	if (event_cache_parse(name, &config, canonical, EVENT_CACHE_NAME_MAX)) {
		*ret = (struct event){ .attr = { .type = PERF_TYPE_HW_CACHE, .config = config },
				       .scale = 1 };
		return true;
	}
	return false;
}

/*
 * One event on each core PMU. Where there are several, the kernel takes a plain PERF_TYPE_HARDWARE for
 * whichever comes first, so that each is told which one it is for: in the upper half of config, or, for
 * a raw event, by the type itself.
 */
int draft_add_on_core(struct draft *draft, const struct event *like, const char *fallback)
{
	bool several = pmu_count_core(draft->pmus) > 1;
	int r = 0;

	for (size_t i = 0; r == 0 && i < draft->pmus->nr; i++) {
		const struct pmu *pmu = &draft->pmus->pmus[i];
		struct event event = *like;

		if (!pmu_is_core(pmu))
			continue;
		if (several && event.attr.type == PERF_TYPE_RAW)
			event.attr.type = pmu->type;
		else if (several)
			event.attr.config |= (uint64_t)pmu->type << PERF_PMU_TYPE_SHIFT;
		r = draft_add(draft, &event, pmu, NULL);
	}
	return r == 0 && !draft->list.nr ? draft_add(draft, like, NULL, fallback) : r;
}

static int read_generic(struct draft *draft, const char *name, const char *modifier)
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
		r = set_name_and_modifier(draft, entry->name, modifier);
		return r < 0 ? r : draft_add(draft, &like, NULL, "software");
	}
	if (!generic_hardware(name, &like, canonical))
		return NOT_MINE;
	r = set_name_and_modifier(draft, canonical, modifier);
	return r < 0 ? r : draft_add_on_core(draft, &like, "cpu");
}

/* Letters that are modifiers, and so no tracepoint's name as far as anyone has seen. */
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

static int add_alias(struct draft *draft, const struct pmu *pmu, const char *name)
{
	_cleanup_(term_list_release) struct term_list terms = {};
	int r = term_list_parse(&terms, name, draft->why);

	return r < 0 ? r : draft_add_terms(draft, pmu, &terms);
}

/* A name from a PMU's events/, alone: "mem-loads" for "cpu/mem-loads/". Core PMUs go before others. */
static int read_alias(struct draft *draft, const char *name, const char *modifier)
{
	bool core = count_alias(draft->pmus, name, true) > 0;
	int r;

	if (!core && !count_alias(draft->pmus, name, false))
		return NOT_MINE;
	if (modifier && !is_modifier(modifier) && !core)
		return NOT_MINE;
	r = set_name_and_modifier(draft, name, modifier);

	for (size_t i = 0; r == 0 && i < draft->pmus->nr; i++) {
		const struct pmu *pmu = &draft->pmus->pmus[i];

		if (pmu_is_core(pmu) == core && pmu_find_alias(pmu, name))
			r = add_alias(draft, pmu, name);
	}
	return r;
}

int parse_raw(const char *text, uint64_t *ret)
{
	const char *digits = text + 1;
	uint64_t value = 0;
	bool fits = true;

	if (tolower((unsigned char)text[0]) != 'r')
		return -EINVAL;
	if (digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X'))
		digits += 2;
	if (!*digits || digits[strspn(digits, "0123456789abcdefABCDEF")])
		return -EINVAL;
	for (; *digits; digits++) {
		int c = tolower((unsigned char)*digits);

		fits = fits && value <= UINT64_MAX >> 4;
		value = value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	if (!fits)
		return -ERANGE;
	*ret = value;
	return 0;
}

static int read_raw(struct draft *draft, const char *name, const char *modifier)
{
	struct event like = { .attr = { .type = PERF_TYPE_RAW }, .scale = 1 };
	uint64_t config;
	int r = parse_raw(name, &config);

	if (r == -EINVAL || (modifier && !is_modifier(modifier)))
		return NOT_MINE;
	if (r < 0)
		return draft_refuse(draft, "a raw event has 64 bits, 16 hexadecimal digits");
	like.attr.config = config;
	r = set_name_and_modifier(draft, name, modifier);
	return r < 0 ? r : draft_add_on_core(draft, &like, "raw");
}

static bool is_tracepoint_name(const char *subsystem, const char *name)
{
	return term_is_name(subsystem) && term_is_name(name) && subsystem[0] != '.' && name[0] != '.';
}

/* subsystem:name[/filter='…'/][:modifiers]; NAME:MODIFIERS with a name that nobody knows looks the same, which is told
 * apart by what the kernel has and by what it would be called. */
static int read_tracepoint(struct draft *draft, const char *subsystem, char *name)
{
	struct event like = { .attr = { .type = PERF_TYPE_TRACEPOINT }, .scale = 1 };
	struct reason why = {};
	uint64_t id;
	char *modifier;
	int found, r;

	r = draft_cut_tail(draft, name, &modifier);
	if (r < 0)
		return r;
	if (strpbrk(subsystem, "*?[") || strpbrk(name, "*?["))
		return draft_refuse(draft, "wildcards are not supported, name each tracepoint");
	if (!is_tracepoint_name(subsystem, name))
		return draft_refuse(draft, "a tracepoint is SUBSYSTEM:NAME, of letters, digits and '_'");

	found = draft->env->tracefs || !draft->env->tracefs_problem ?
			tracefs_id(draft->env->tracefs, subsystem, name, &id, &why) :
			reason_set(&why, -ENODEV, "%s", draft->env->tracefs_problem);
	if (found == -ENOMEM)
		return found;
	if (found < 0 && !modifier && !draft->filter && is_modifier(name))
		return NOT_MINE;

	r = draft_set_name(draft, "%s:%s", subsystem, name);
	if (r == 0 && modifier)
		r = draft_set_modifier(draft, modifier);
	if (r < 0)
		return r;
	if (found < 0) {
		(void)draft_hint_pfm(draft, found, &why);
		return draft_add_absent(draft, &like, "tracepoint", found, &why);
	}
	like.attr.config = id;
	return draft_add(draft, &like, NULL, "tracepoint");
}

/* Does this machine have the tracepoint? What stands behind its name does not matter here. */
static int has_tracepoint(const struct draft *draft, const char *subsystem, char *name)
{
	char *end = name + strcspn(name, "/:"), cut = *end;
	uint64_t id;
	int r = -ENOENT;

	*end = '\0';
	if (is_tracepoint_name(subsystem, name))
		r = tracefs_id(draft->env->tracefs, subsystem, name, &id, NULL);
	*end = cut;
	return r == -ENOMEM ? r : r == 0;
}

/* What libpfm knows can look like a tracepoint, of which one that the machine has goes first, or like a name with
 * wrong modifiers: "L1D:REPLACEMENT". otherwise is what the others said. */
static int read_pfm(struct draft *draft, const char *name, char *rest, int otherwise, bool *known)
{
	int r;

	*known = true;
	if (otherwise == -EINVAL && (!rest || *rest == ':' || is_modifier(rest)))
		return otherwise;
	r = otherwise == NOT_MINE && rest ? has_tracepoint(draft, name, rest) : 0;
	if (r == 0)
		r = draft_pfm(draft);
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

static int refuse_unknown(struct draft *draft, const char *name)
{
	char cache[EVENT_CACHE_NAME_MAX];
	struct nearest nearest;

	nearest_init(&nearest, name);
	offer_table(&nearest, event_hardware_table, event_hardware_table_size);
	offer_table(&nearest, event_software_table, event_software_table_size);
	for (size_t i = 0; event_cache_nth(i, cache, sizeof(cache)); i++)
		nearest_offer(&nearest, cache);
	for (size_t i = 0; i < draft->pmus->nr; i++)
		for (size_t j = 0; j < draft->pmus->pmus[i].nr_aliases; j++)
			nearest_offer(&nearest, draft->pmus->pmus[i].aliases[j].name);

	if (nearest.name[0])
		return reason_set(draft->why, -EINVAL, "unknown event '%.100s'; did you mean '%s'?", name,
				  nearest.name);
	reason_set(draft->why, -EINVAL, "unknown event '%.100s'; --list-events shows what there is", name);
	return draft_hint_pfm(draft, -EINVAL, draft->why);
}

int draft_named(struct draft *draft, char *text)
{
	static int (*const readers[])(struct draft *, const char *, const char *) = {
		read_generic,
		read_alias,
		read_raw,
	};
	char *rest = text, *name = strsep(&rest, ":");
	bool generic = false, known = false;
	int r = NOT_MINE;

	if (!*name)
		return draft_refuse(draft, rest ? "nothing stands before the ':'" : "no event is named");

	for (size_t i = 0; r == NOT_MINE && i < ARRAY_SIZE(readers); i++) {
		r = readers[i](draft, name, rest);
		generic = readers[i] == read_generic;
	}
	/* L1D is a name of the kernel's, and L1D:REPLACEMENT is not. */
	if (r == NOT_MINE || r == -EINVAL)
		r = read_pfm(draft, name, rest, r, &known);
	known = known || (r == -EINVAL && !generic);
	if (r == NOT_MINE && rest && *rest)
		r = read_tracepoint(draft, name, rest);
	if (r == NOT_MINE)
		r = refuse_unknown(draft, name);
	return r == -EINVAL && !known ? draft_vendors(draft) : r;
}
