/* SPDX-License-Identifier: MIT */

#include "web/expose/derived.h"

#include "base/util/buf.h"

#include <errno.h>
#include <math.h>

struct rule {
	const char *name;
	struct {
		uint32_t type;
		uint64_t config;
	} over, under;
	bool alone;	  /* no `under`: the rate of `over` itself */
	bool cgroup_only; /* without meaning for a whole CPU, whose task-clock is the time on the wall */
};

#define HARDWARE(event)                                                                                                \
	{                                                                                                              \
		PERF_TYPE_HARDWARE, PERF_COUNT_HW_##event                                                              \
	}
#define LOADS(cache, result)                                                                                           \
	{                                                                                                              \
		PERF_TYPE_HW_CACHE, PERF_COUNT_HW_CACHE_##cache | PERF_COUNT_HW_CACHE_OP_READ << 8 |                   \
					    PERF_COUNT_HW_CACHE_RESULT_##result << 16                                  \
	}

static const struct rule rules[] = {
	{ .name = "ipc", .over = HARDWARE(INSTRUCTIONS), .under = HARDWARE(CPU_CYCLES) },
	{ .name = "cpi", .over = HARDWARE(CPU_CYCLES), .under = HARDWARE(INSTRUCTIONS) },
	{ .name = "cache_miss_ratio", .over = HARDWARE(CACHE_MISSES), .under = HARDWARE(CACHE_REFERENCES) },
	{ .name = "branch_miss_ratio", .over = HARDWARE(BRANCH_MISSES), .under = HARDWARE(BRANCH_INSTRUCTIONS) },
	{ .name = "l1_dcache_load_miss_ratio", .over = LOADS(L1D, MISS), .under = LOADS(L1D, ACCESS) },
	{ .name = "llc_load_miss_ratio", .over = LOADS(LL, MISS), .under = LOADS(LL, ACCESS) },
	{ .name = "dtlb_load_miss_ratio", .over = LOADS(DTLB, MISS), .under = LOADS(DTLB, ACCESS) },
	{ .name = "itlb_load_miss_ratio", .over = LOADS(ITLB, MISS), .under = LOADS(ITLB, ACCESS) },
	{ .name = "cpus_utilized",
	  .over = { PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK },
	  .alone = true,
	  .cgroup_only = true },
};

void derived_list_release(struct derived_list *list)
{
	for (size_t i = 0; i < list->nr; i++)
		free(list->items[i].name);
	free(list->items);
	*list = (struct derived_list){};
}

/* On machines with several core PMUs, the upper half of a generic event's config holds the type of the PMU
 * (PERF_PMU_TYPE_SHIFT in linux/perf_event.h, Linux 5.13). */
static uint64_t generic_config(const struct perf_event_attr *attr)
{
	bool by_pmu = attr->type == PERF_TYPE_HARDWARE || attr->type == PERF_TYPE_HW_CACHE;

	return by_pmu ? attr->config & UINT32_MAX : attr->config;
}

static bool is_event(const struct event *event, uint32_t type, uint64_t config)
{
	return event->attr.type == type && generic_config(&event->attr) == config;
}

/* Do both events count the same work: the same modes, on the same PMU, during the same time? */
static bool count_same_work(const struct column *a, const struct column *b)
{
	const struct perf_event_attr *x = &a->event->attr, *y = &b->event->attr;

	return a->set == b->set && strcmp(a->event->pmu, b->event->pmu) == 0 && x->exclude_user == y->exclude_user &&
	       x->exclude_kernel == y->exclude_kernel && x->exclude_hv == y->exclude_hv &&
	       x->exclude_idle == y->exclude_idle && x->exclude_guest == y->exclude_guest &&
	       x->exclude_host == y->exclude_host;
}

/* The column of the rule's `under` that goes with this `over`; NO_COLUMN for a rule without one. False: there is no
 * such column. */
static bool find_under(const struct snapshot_table *table, const struct rule *rule, const struct column *over,
		       size_t *ret)
{
	*ret = NO_COLUMN;
	if (rule->alone)
		return true;
	for (size_t i = 0; i < table->nr_columns; i++) {
		const struct column *under = table->columns[i].column;

		if (is_event(under->event, rule->under.type, rule->under.config) && count_same_work(over, under)) {
			*ret = i;
			return true;
		}
	}
	return false;
}

/* With the suffixes that metrics get for their modifiers: "ipc_user". */
static char *derived_name(const struct rule *rule, const struct event *event)
{
	const struct perf_event_attr *attr = &event->attr;
	struct buf name = {};

	buf_str(&name, rule->name);
	if (attr->exclude_user || attr->exclude_kernel || attr->exclude_hv) {
		buf_str(&name, attr->exclude_user ? "" : "_user");
		buf_str(&name, attr->exclude_kernel ? "" : "_kernel");
		buf_str(&name, attr->exclude_hv ? "" : "_hv");
	}
	if (attr->exclude_host)
		buf_str(&name, "_guest");
	/* The modifiers of user mode alone imply exclude_guest (counting/event/modifier.c). */
	else if (attr->exclude_guest && !attr->exclude_kernel)
		buf_str(&name, "_host");
	if (event->by_pmu)
		buf_printf(&name, "/%s", event->pmu);
	return buf_steal(&name);
}

static bool has_name(const struct derived_list *list, const char *name)
{
	for (size_t i = 0; i < list->nr; i++)
		if (strcmp(list->items[i].name, name) == 0)
			return true;
	return false;
}

static int derived_add(struct derived_list *list, const struct rule *rule, const struct event *event, size_t over,
		       size_t under)
{
	_cleanup_(freep) char *name = derived_name(rule, event);
	struct derived *items;

	if (!name)
		return -ENOMEM;
	if (has_name(list, name))
		return 0;
	items = reallocarray(list->items, list->nr + 1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	list->items = items;
	list->items[list->nr++] = (struct derived){ .name = steal_ptr(name), .over = over, .under = under };
	return 0;
}

int derived_find(struct derived_list *ret, const struct snapshot_table *table, enum scope scope)
{
	_cleanup_(derived_list_release) struct derived_list list = {};

	for (size_t r = 0; r < ARRAY_SIZE(rules); r++) {
		const struct rule *rule = &rules[r];

		if (rule->cgroup_only && scope != SCOPE_CGROUP)
			continue;
		for (size_t i = 0; i < table->nr_columns; i++) {
			const struct column *over = table->columns[i].column;
			size_t under;

			if (over->set == NO_SET || !is_event(over->event, rule->over.type, rule->over.config) ||
			    !find_under(table, rule, over, &under))
				continue;
			if (derived_add(&list, rule, over->event, i, under) < 0)
				return -ENOMEM;
		}
	}
	*ret = steal_struct(list);
	return 0;
}

double derived_value(const struct derived *derived, const struct snapshot_table *table,
		     const struct snapshot_cell *cells)
{
	const struct snapshot_cell *over = &cells[derived->over];
	const struct snapshot_cell *under = derived->under == NO_COLUMN ? NULL : &cells[derived->under];

	if (!over->measured || (under && !under->measured))
		return NAN;
	if (!under)
		return over->rate * table->columns[derived->over].column->event->scale;
	return under->rate > 0 ? over->rate / under->rate : NAN;
}
