/* SPDX-License-Identifier: MIT */

#include "counting/plan/build.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* --- columns */

static int compare_names(const void *a, const void *b, void *columns)
{
	const struct column *x = (const struct column *)columns + *(const size_t *)a;
	const struct column *y = (const struct column *)columns + *(const size_t *)b;

	return strcmp(x->event->metric, y->event->metric);
}

/* A plan is looked for in another event by event, some times over in a reload. */
static int sort_columns(struct scope_plan *plan)
{
	plan->by_name = calloc(plan->nr_columns + 1, sizeof(*plan->by_name));
	if (!plan->by_name)
		return -ENOMEM;
	for (size_t i = 0; i < plan->nr_columns; i++)
		plan->by_name[i] = i;
	qsort_r(plan->by_name, plan->nr_columns, sizeof(*plan->by_name), compare_names, plan->columns);
	return 0;
}

int plan_add_columns(struct scope_plan *plan, const struct group_list *groups, enum scope scope)
{
	size_t nr = 0;

	for (size_t i = 0; i < groups->nr; i++)
		nr += groups->groups[i].events.nr;
	plan->columns = calloc(nr ? nr : 1, sizeof(*plan->columns));
	if (!plan->columns)
		return -ENOMEM;
	for (size_t i = 0; i < groups->nr; i++)
		for (size_t k = 0; k < groups->groups[i].events.nr; k++)
			plan->columns[plan->nr_columns++] = (struct column){
				.scope = scope,
				.group = &groups->groups[i],
				.event = &groups->groups[i].events.events[k],
				.attr = groups->groups[i].events.events[k].attr,
				.set = NO_SET,
				.retained_fd = -1,
			};
	for (size_t i = 0; i < plan->nr_columns; i++)
		plan->nr_hidden += plan->columns[i].group->hidden;
	return sort_columns(plan);
}

int column_set_state(struct column *column, enum event_state state, const char *why)
{
	char *copy = strdup(why);

	if (!copy)
		return -ENOMEM;
	free(column->why);
	column->why = copy;
	column->state = state;
	return 0;
}

int column_add_why(struct column *column, const char *why)
{
	char *both;

	if (asprintf(&both, "%s%s%s", column->why ? column->why : "", column->why ? "; " : "", why) < 0)
		return -ENOMEM;
	free(column->why);
	column->why = both;
	return 0;
}

int cpulist_of_event(struct cpulist *ret, const struct event *event, const struct cpulist *online)
{
	struct cpulist list;
	size_t nr = 0;

	if (cpulist_copy(&list, online) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < list.nr; i++)
		if (event->cpus.nr == 0 || cpulist_has(&event->cpus, list.cpu[i]))
			list.cpu[nr++] = list.cpu[i];
	list.nr = nr;
	*ret = list;
	return 0;
}

/* --- sets */

/* The kernel takes events into one group only where they are of one PMU; those of the software context
 * join any. */
static bool set_takes(const struct scope_plan *plan, const struct set *set, const struct column *column,
		      const struct engine_ops *engine, const struct cpulist *cpus)
{
	if (set->engine != engine || set->group != column->group || set->group->alone ||
	    !cpulist_equal(&set->cpus, cpus) || set->uncore != column->event->uncore)
		return false;
	if (column->event->software)
		return true;
	for (size_t i = 0; i < set->nr; i++) {
		const struct event *member = plan->columns[set->columns[i]].event;

		if (!member->software && strcmp(member->pmu, column->event->pmu) != 0)
			return false;
	}
	return true;
}

static int set_append(struct scope_plan *plan, struct set *set, size_t at)
{
	size_t *columns = reallocarray(set->columns, set->nr + 1, sizeof(*columns));
	const struct event *event = plan->columns[at].event;

	if (!columns)
		return -ENOMEM;
	set->columns = columns;
	plan->columns[at].set = (size_t)(set - plan->sets);
	plan->columns[at].member = set->nr;
	set->columns[set->nr++] = at;

	/* A hardware event leads, since it is what can be short: a software leader would be moved into the
	 * hardware context by the kernel when the first hardware event joins. */
	if (!event->software && plan->columns[set->columns[0]].event->software) {
		set->columns[set->nr - 1] = set->columns[0];
		set->columns[0] = at;
		plan->columns[set->columns[set->nr - 1]].member = set->nr - 1;
		plan->columns[at].member = 0;
	}
	set->exact = set->exact && event->software;
	/* One member that asks for it makes the whole group so: the kernel knows no pinned members. */
	set->pinned = set->pinned || plan->columns[at].attr.pinned;
	set->exclusive = set->exclusive || plan->columns[at].attr.exclusive;
	return 0;
}

/* Makes a set of the column's kind, without a column in it, the plan's last. Takes over cpus. */
static int plan_add_set(struct scope_plan *plan, const struct column *column, const struct engine_ops *engine,
			struct cpulist *cpus)
{
	struct set *sets = reallocarray(plan->sets, plan->nr_sets + 1, sizeof(*sets));

	if (!sets)
		return -ENOMEM;
	plan->sets = sets;
	sets[plan->nr_sets++] = (struct set){
		.group = column->group,
		.engine = engine,
		.cpus = *cpus,
		.exact = true,
		.uncore = column->event->uncore,
	};
	*cpus = (struct cpulist){};
	return 0;
}

int plan_assign_set(struct scope_plan *plan, size_t at, const struct engine_ops *engine, const struct cpulist *online)
{
	struct column *column = &plan->columns[at];
	_cleanup_(cpulist_release) struct cpulist cpus = {};

	if (cpulist_of_event(&cpus, column->event, online) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < plan->nr_sets; i++)
		if (set_takes(plan, &plan->sets[i], column, engine, &cpus))
			return set_append(plan, &plan->sets[i], at);
	if (plan_add_set(plan, column, engine, &cpus) < 0)
		return -ENOMEM;
	return set_append(plan, &plan->sets[plan->nr_sets - 1], at);
}

/* Moves the plan's last set to `at`: the sets of a group stand together. */
static void move_last_set(struct scope_plan *plan, size_t at)
{
	size_t last = plan->nr_sets - 1;
	struct set set = plan->sets[last];

	memmove(&plan->sets[at + 1], &plan->sets[at], (last - at) * sizeof(set));
	plan->sets[at] = set;
	for (size_t i = 0; i < plan->nr_columns; i++) {
		struct column *column = &plan->columns[i];

		if (column->set == last)
			column->set = at;
		else if (column->set != NO_SET && column->set >= at)
			column->set++;
	}
}

/* Moves what is behind the set's first `keep` members to a set of its own, which comes next. */
static int split_behind(struct scope_plan *plan, size_t at, size_t keep)
{
	size_t nr = plan->sets[at].nr, *columns = plan->sets[at].columns;
	_cleanup_(cpulist_release) struct cpulist cpus = {};
	bool exact = true;
	int r = 0;

	assert(keep > 0 && keep < nr);
	if (cpulist_copy(&cpus, &plan->sets[at].cpus) < 0 ||
	    plan_add_set(plan, &plan->columns[columns[keep]], plan->sets[at].engine, &cpus) < 0)
		return -ENOMEM;
	for (size_t i = keep; r == 0 && i < nr; i++)
		r = set_append(plan, &plan->sets[plan->nr_sets - 1], columns[i]);
	for (size_t i = 0; i < keep; i++)
		exact = exact && plan->columns[columns[i]].event->software;
	plan->sets[at].nr = keep;
	plan->sets[at].exact = exact;
	plan->sets[plan->nr_sets - 1].credited = plan->sets[at].credited;
	move_last_set(plan, at + 1);
	return r;
}

int plan_split_set(struct scope_plan *plan, size_t at, size_t keep)
{
	int r = split_behind(plan, at, keep);

	if (r == 0)
		plan->sets[at].part = plan->sets[at + 1].part = true;
	return r;
}

void plan_drop_set(struct scope_plan *plan, size_t at)
{
	free(plan->sets[at].columns);
	cpulist_release(&plan->sets[at].cpus);
	plan->nr_sets--;
	memmove(&plan->sets[at], &plan->sets[at + 1], (plan->nr_sets - at) * sizeof(*plan->sets));
	for (size_t i = 0; i < plan->nr_columns; i++) {
		size_t *set = &plan->columns[i].set;

		if (*set == at)
			*set = NO_SET;
		else if (*set != NO_SET && *set > at)
			(*set)--;
	}
}

/* --- sets in line with those of the CPUs */

/* The set's member that counts as the column does, or NO_COLUMN. */
static size_t find_alike_member(const struct scope_plan *plan, const struct set *set, const struct column *column)
{
	for (size_t i = 0; i < set->nr; i++) {
		const struct column *member = &plan->columns[set->columns[i]];

		if (event_equal(member->event, column->event) &&
		    memcmp(&member->attr, &column->attr, sizeof(member->attr)) == 0)
			return i;
	}
	return NO_COLUMN;
}

/* Moves the members that the other set has as well to the front, in the order of that set. */
static void gather_common(struct scope_plan *plan, struct set *set, const struct scope_plan *other_plan,
			  const struct set *other)
{
	size_t nr = 0;

	for (size_t i = 0; i < other->nr; i++) {
		size_t at = find_alike_member(plan, set, &other_plan->columns[other->columns[i]]), column;

		if (at == NO_COLUMN)
			continue;
		column = set->columns[at];
		memmove(&set->columns[nr + 1], &set->columns[nr], (at - nr) * sizeof(column));
		set->columns[nr++] = column;
	}
	for (size_t i = 0; i < set->nr; i++)
		plan->columns[set->columns[i]].member = i;
}

static size_t count_common(const struct scope_plan *plan, const struct set *set, const struct scope_plan *other_plan,
			   const struct set *other)
{
	size_t nr = 0;

	for (size_t i = 0; i < other->nr; i++)
		nr += find_alike_member(plan, set, &other_plan->columns[other->columns[i]]) != NO_COLUMN;
	return nr;
}

/* May events be taken out of the set? Those in the software context count at all times, in whichever group they are. */
static bool set_is_loose(const struct set *set)
{
	return set->exact && !set->pinned && !set->exclusive;
}

/* Brings one set in line with one of the CPUs. */
static int set_align(struct plan *plan, size_t at, size_t on_cpus)
{
	struct scope_plan *cgroups = &plan->scope[SCOPE_CGROUP], *cpus = &plan->scope[SCOPE_CPU];
	struct set *set = &cgroups->sets[at], *other = &cpus->sets[on_cpus];
	size_t nr = count_common(cgroups, set, cpus, other);
	bool same = nr == set->nr && nr == other->nr, loose = set_is_loose(set) && set_is_loose(other);
	int r = 0;

	if (nr == 0 || !(same || loose) || !cpulist_equal(&set->cpus, &other->cpus))
		return 0;
	gather_common(cgroups, set, cpus, other);
	gather_common(cpus, other, cgroups, set);
	if (nr < set->nr)
		r = split_behind(cgroups, at, nr);
	if (r == 0 && nr < other->nr)
		r = split_behind(cpus, on_cpus, nr);
	return r;
}

int plan_align_credited(struct plan *plan)
{
	int r = 0;

	/* What is split off comes next. */
	for (size_t i = 0; i < plan->scope[SCOPE_CGROUP].nr_sets; i++)
		for (size_t k = 0; r == 0 && k < plan->scope[SCOPE_CPU].nr_sets; k++)
			if (plan->scope[SCOPE_CGROUP].sets[i].credited)
				r = set_align(plan, i, k);
	return r;
}

/* --- counters */

/* Are the members alike, in the same order, and opened with the same attributes on the same CPUs? */
static bool set_counts_alike(const struct scope_plan *a_plan, const struct set *a, const struct scope_plan *b_plan,
			     const struct set *b)
{
	if (a->nr != b->nr || !cpulist_equal(&a->cpus, &b->cpus))
		return false;
	for (size_t i = 0; i < a->nr; i++) {
		struct perf_event_attr a_attr = set_attr(a_plan, a, i), b_attr = set_attr(b_plan, b, i);

		if (!event_equal(a_plan->columns[a->columns[i]].event, b_plan->columns[b->columns[i]].event) ||
		    memcmp(&a_attr, &b_attr, sizeof(a_attr)) != 0)
			return false;
	}
	return true;
}

size_t plan_find_alike(const struct plan *plan, const struct set *set)
{
	const struct scope_plan *cpus = &plan->scope[SCOPE_CPU];

	for (size_t i = 0; i < cpus->nr_sets; i++)
		if ((set->credited || cpus->sets[i].engine == set->engine) &&
		    set_counts_alike(&plan->scope[SCOPE_CGROUP], set, cpus, &cpus->sets[i]))
			return i;
	return NO_SET;
}

/* Has the columns of a set of cgroups stand on the counters of the CPUs' set that counts alike; false where there is
 * none. Only whole sets share their counters: the members of a kernel group run on the PMU at the same time, which
 * events of different groups do not. */
static bool set_share_counters(struct plan *plan, struct set *set)
{
	const struct scope_plan *cpus = &plan->scope[SCOPE_CPU];
	size_t alike = plan_find_alike(plan, set);

	for (size_t i = 0; alike != NO_SET && i < set->nr; i++) {
		size_t counter = cpus->columns[cpus->sets[alike].columns[i]].counter;

		plan->scope[SCOPE_CGROUP].columns[set->columns[i]].counter = counter;
		plan->counters[counter].columns[SCOPE_CGROUP] = set->columns[i];
	}
	return alike != NO_SET;
}

static void set_add_counters(struct plan *plan, enum scope scope, const struct set *set)
{
	for (size_t i = 0; i < set->nr; i++) {
		struct counter *counter = &plan->counters[plan->nr_counters];

		for (int other = 0; other < _SCOPE_MAX; other++)
			counter->columns[other] = NO_COLUMN;
		counter->columns[scope] = set->columns[i];
		plan->scope[scope].columns[set->columns[i]].counter = plan->nr_counters++;
	}
}

int plan_add_counters(struct plan *plan)
{
	size_t most = plan->scope[SCOPE_CPU].nr_columns + plan->scope[SCOPE_CGROUP].nr_columns;

	plan->counters = calloc(most + 1, sizeof(*plan->counters));
	if (!plan->counters)
		return -ENOMEM;
	for (size_t i = 0; i < plan->scope[SCOPE_CPU].nr_sets; i++)
		set_add_counters(plan, SCOPE_CPU, &plan->scope[SCOPE_CPU].sets[i]);
	for (size_t i = 0; i < plan->scope[SCOPE_CGROUP].nr_sets; i++) {
		struct set *set = &plan->scope[SCOPE_CGROUP].sets[i];

		if (!set_share_counters(plan, set))
			set_add_counters(plan, SCOPE_CGROUP, set);
	}
	return 0;
}
