/* SPDX-License-Identifier: MIT */

#include "counting/event/walk.h"

#include "counting/event/catalog/tracefs.h"
#include "counting/event/pfm-event.h"
#include "counting/event/tables.h"

#include <errno.h>
#include <string.h>

struct walk {
	const struct event_env *env;
	int (*each)(void *userdata, const struct event_listing *listing);
	void *userdata;
};

static int list_event(const struct walk *walk, const char *kind, const char *pmu, const char *name,
		      enum event_unit unit)
{
	struct event_listing listing = { .kind = kind, .pmu = pmu, .name = name, .unit = event_unit_name(unit) };

	return walk->each(walk->userdata, &listing);
}

static int walk_software(const struct walk *walk)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < event_software_table_size; i++)
		r = list_event(walk, "Software event", "software", event_software_table[i].name,
			       event_software_table[i].nanoseconds ? EVENT_UNIT_SECONDS : EVENT_UNIT_NONE);
	return r;
}

static int walk_core(const struct walk *walk, const struct pmu *pmu)
{
	struct event_listing listing = { .kind = "Hardware event", .pmu = pmu->name, .unit = "", .is_generic = true };
	char name[EVENT_CACHE_NAME_MAX];
	int r = 0;

	for (size_t i = 0; r == 0 && i < event_hardware_table_size; i++) {
		listing.name = event_hardware_table[i].name;
		r = walk->each(walk->userdata, &listing);
	}
	listing.kind = "Hardware cache event";
	listing.name = name;
	for (size_t i = 0; r == 0 && event_cache_nth(i, name, sizeof(name)); i++)
		r = walk->each(walk->userdata, &listing);
	return r;
}

/* "hv_24x7/PM_PB_CYC,chip=?/": shows the terms that the user has to give. */
static int alias_name(char **ret, const struct pmu *pmu, const struct pmu_alias *alias)
{
	_cleanup_(term_list_release) struct term_list terms = {};
	_cleanup_(buf_release) struct buf name = {};
	int r = term_list_parse(&terms, alias->terms, NULL);

	if (r < 0)
		return r;
	buf_printf(&name, "%s/%s", pmu->name, alias->name);
	for (size_t i = 0; i < terms.nr; i++)
		if (terms.terms[i].value && strcmp(terms.terms[i].value, "?") == 0)
			buf_printf(&name, ",%s=?", terms.terms[i].name);
	buf_char(&name, '/');
	*ret = buf_steal(&name);
	return *ret ? 0 : -ENOMEM;
}

static int walk_aliases(const struct walk *walk, const struct pmu *pmu)
{
	for (size_t i = 0; i < pmu->nr_aliases; i++) {
		_cleanup_(freep) char *name = NULL;
		double scale = 1;
		int r = alias_name(&name, pmu, &pmu->aliases[i]);

		if (r < 0)
			return r;
		r = list_event(walk, "Kernel PMU event", pmu->name, name,
			       event_unit_parse(pmu->aliases[i].unit, &scale));
		if (r)
			return r;
	}
	return 0;
}

/* Forms rather than names: there are as many of these events as addresses and functions. */
static int walk_forms(const struct walk *walk, const struct pmu_catalogue *pmus)
{
	static const struct event_listing forms[] = {
		{ .kind = "Hardware breakpoint",
		  .pmu = "breakpoint",
		  .name = "mem:ADDRESS[/LENGTH][:rwx]",
		  .unit = "" },
		{ .kind = "Kernel probe", .pmu = "kprobe", .name = "kprobe:FUNCTION[+OFFSET]", .unit = "" },
		{ .kind = "Kernel probe", .pmu = "kprobe", .name = "kretprobe:FUNCTION", .unit = "" },
		{ .kind = "User probe", .pmu = "uprobe", .name = "uprobe:/FILE:FUNCTION[+OFFSET]", .unit = "" },
		{ .kind = "User probe", .pmu = "uprobe", .name = "uretprobe:/FILE:FUNCTION", .unit = "" },
	};
	int r = 0;

	for (size_t i = 0; pmus && r == 0 && i < ARRAY_SIZE(forms); i++)
		if (pmu_find(pmus, forms[i].pmu))
			r = walk->each(walk->userdata, &forms[i]);
	return r;
}

static int list_pfm(void *userdata, const char *name, const struct pfm_encoding *encoding)
{
	const struct walk *walk = userdata;
	const struct pmu *pmu;
	struct event event;
	int r = walk->env->pmus ? event_of_pfm(&event, &pmu, walk->env->pmus, encoding) : -ENOENT;

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	return list_event(walk, "libpfm event", encoding->pmu, name, event.unit);
}

static int list_tracepoint(void *userdata, const char *subsystem, const char *name)
{
	_cleanup_(freep) char *whole = NULL;

	if (asprintf(&whole, "%s:%s", subsystem, name) < 0) {
		whole = NULL;
		return -ENOMEM;
	}
	return list_event(userdata, "Tracepoint", "tracepoint", whole, EVENT_UNIT_NONE);
}

int event_walk(const struct event_env *env, int (*each)(void *userdata, const struct event_listing *listing),
	       void *userdata)
{
	struct walk walk = { .env = env, .each = each, .userdata = userdata };
	size_t nr = env->pmus ? env->pmus->nr : 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < nr; i++)
		if (pmu_is_core(&env->pmus->pmus[i]))
			r = walk_core(&walk, &env->pmus->pmus[i]);
	if (r == 0)
		r = walk_software(&walk);
	for (size_t i = 0; r == 0 && i < nr; i++)
		r = walk_aliases(&walk, &env->pmus->pmus[i]);
	if (r == 0)
		r = walk_forms(&walk, env->pmus);
	if (r == 0)
		r = pfm_walk(list_pfm, &walk);
	return r == 0 ? tracefs_walk(env->tracefs, list_tracepoint, &walk) : r;
}
