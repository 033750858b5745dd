/* SPDX-License-Identifier: MIT */

#include "count/plan.h"

#include "count/probe.h"
#include "util/buf.h"

#include <errno.h>
#include <string.h>

void group_list_release(struct group_list *list)
{
	for (size_t i = 0; i < list->nr; i++) {
		free(list->groups[i].name);
		event_list_release(&list->groups[i].events);
	}
	free(list->groups);
	*list = (struct group_list){};
}

void plan_end_tries(struct plan *plan, struct closer *closer)
{
	while (plan->tried.nr > 0)
		closer_close(closer, plan->tried.fds[--plan->tried.nr]);
	held_release(&plan->tried);
}

void plan_let_go(struct plan *plan, struct closer *closer)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < plan->scope[scope].nr_columns; i++)
			closer_close(closer, steal_fd(&plan->scope[scope].columns[i].held));
}

size_t plan_nr_held(const struct plan *plan)
{
	size_t nr = 0;

	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < plan->scope[scope].nr_columns; i++)
			nr += plan->scope[scope].columns[i].held >= 0;
	return nr;
}

static void scope_plan_release(struct scope_plan *plan)
{
	for (size_t i = 0; i < plan->nr_columns; i++) {
		free(plan->columns[i].why);
		safe_close(plan->columns[i].held);
	}
	free(plan->columns);
	free(plan->by_name);
	for (size_t i = 0; i < plan->nr_sets; i++) {
		free(plan->sets[i].columns);
		cpulist_release(&plan->sets[i].cpus);
	}
	free(plan->sets);
}

struct plan *plan_ref(struct plan *plan)
{
	plan->refs++;
	return plan;
}

struct plan *plan_unref(struct plan *plan)
{
	if (!plan || --plan->refs)
		return NULL;
	held_release(&plan->tried);
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		scope_plan_release(&plan->scope[scope]);
		group_list_release(&plan->groups[scope]);
	}
	free(plan);
	return NULL;
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

struct perf_event_attr set_attr(const struct scope_plan *plan, const struct set *set, size_t member)
{
	struct perf_event_attr attr = plan->columns[set->columns[member]].attr;

	attr.pinned = member == 0 && set->pinned;
	attr.exclusive = member == 0 && set->exclusive;
	return attr;
}

bool plan_is_slow_to_close(const struct scope_plan *plan)
{
	for (size_t i = 0; i < plan->nr_sets; i++)
		if (set_is_slow_to_close(plan, &plan->sets[i]))
			return true;
	return false;
}

bool set_is_slow_to_close(const struct scope_plan *plan, const struct set *set)
{
	for (size_t i = 0; i < set->nr; i++)
		if (event_is_slow_to_close(plan->columns[set->columns[i]].event))
			return true;
	return false;
}

bool set_has_probe(const struct scope_plan *plan, const struct set *set)
{
	for (size_t i = 0; i < set->nr; i++)
		if (plan->columns[set->columns[i]].event->probe)
			return true;
	return false;
}

/* The kernel takes events into one group only where they are of one PMU; those of the software context
 * join any. */
static bool set_takes(const struct scope_plan *plan, const struct set *set, const struct column *column,
		      const struct cpulist *cpus)
{
	if (set->group != column->group || set->group->alone || !cpulist_equal(&set->cpus, cpus) ||
	    set->uncore != column->event->uncore)
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

static int set_add(struct scope_plan *plan, struct set *set, size_t at)
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
	/* What one asks for, the group has: the kernel knows no pinned members. */
	set->pinned = set->pinned || plan->columns[at].attr.pinned;
	set->exclusive = set->exclusive || plan->columns[at].attr.exclusive;
	return 0;
}

/* A set of the column's kind without a column in it yet: the plan's last. cpus are handed over. */
static int add_set(struct scope_plan *plan, const struct column *column, struct cpulist *cpus)
{
	struct set *sets = reallocarray(plan->sets, plan->nr_sets + 1, sizeof(*sets));

	if (!sets)
		return -ENOMEM;
	plan->sets = sets;
	sets[plan->nr_sets++] = (struct set){
		.group = column->group,
		.cpus = *cpus,
		.exact = true,
		.uncore = column->event->uncore,
	};
	*cpus = (struct cpulist){};
	return 0;
}

static int assign_set(struct scope_plan *plan, size_t at, const struct cpulist *online)
{
	struct column *column = &plan->columns[at];
	_cleanup_(cpulist_release) struct cpulist cpus = {};

	if (probe_cpus(&cpus, column->event, online) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < plan->nr_sets; i++)
		if (set_takes(plan, &plan->sets[i], column, &cpus))
			return set_add(plan, &plan->sets[i], at);
	if (add_set(plan, column, &cpus) < 0)
		return -ENOMEM;
	return set_add(plan, &plan->sets[plan->nr_sets - 1], at);
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
static int split_set(struct scope_plan *plan, size_t at, size_t keep)
{
	size_t nr = plan->sets[at].nr, *columns = plan->sets[at].columns;
	_cleanup_(cpulist_release) struct cpulist cpus = {};
	bool exact = true;
	int r = 0;

	if (cpulist_copy(&cpus, &plan->sets[at].cpus) < 0 || add_set(plan, &plan->columns[columns[keep]], &cpus) < 0)
		return -ENOMEM;
	for (size_t i = keep; r == 0 && i < nr; i++)
		r = set_add(plan, &plan->sets[plan->nr_sets - 1], columns[i]);
	for (size_t i = 0; i < keep; i++)
		exact = exact && plan->columns[columns[i]].event->software;
	plan->sets[at].nr = keep;
	plan->sets[at].exact = exact;
	plan->sets[at].part = plan->sets[plan->nr_sets - 1].part = true;
	move_last_set(plan, at + 1);
	return r;
}

static void drop_set(struct scope_plan *plan, size_t at)
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
				.held = -1,
			};
	return sort_columns(plan);
}

static int fail_same_series(const struct column *a, const struct column *b, const char *series, struct reason *why)
{
	return reason_set(why, -EEXIST,
			  "'%s' in group '%s' and '%s' in group '%s' are both counted per %s as '%s': leave one out, "
			  "or give it a label (label=event)",
			  a->event->text, a->group->name, b->event->text, b->group->name,
			  a->scope == SCOPE_CPU ? "CPU" : "cgroup", series);
}

/* Series of one name are of one event, or of one event on several PMUs. */
static bool share_series(const struct event *a, const struct event *b)
{
	return a->by_pmu && b->by_pmu && strcmp(a->metric, b->metric) == 0 && strcmp(a->pmu, b->pmu) != 0;
}

/* Would the two columns be exposed under one name? Totals have a unit in their name; states, JSON keys and filters
 * have not, so that events which differ by their unit alone would meet there. */
static bool share_name(const struct column *a, const char *a_series, const struct column *b, const char *b_series)
{
	bool same = strcmp(a_series, b_series) == 0 || strcmp(a->event->metric, b->event->metric) == 0;

	return same && !share_series(a->event, b->event);
}

/* No two columns of a scope may have the same series, nor one those of the groups' times. */
static int check_name(const struct scope_plan *plan, size_t at, char *const *series, struct reason *why)
{
	const struct column *column = &plan->columns[at];

	if (strcmp(series[at], "group_enabled_seconds") == 0 || strcmp(series[at], "group_running_seconds") == 0)
		return reason_set(why, -EEXIST,
				  "'%s' in group '%s': '%s' is the name of the groups' times; use another label",
				  column->event->text, column->group->name, series[at]);
	for (size_t i = 0; i < at; i++)
		if (share_name(&plan->columns[i], series[i], column, series[at]))
			return fail_same_series(&plan->columns[i], column,
						strcmp(series[i], series[at]) ? column->event->metric : series[at],
						why);
	return 0;
}

static int check_names(const struct scope_plan *plan, struct reason *why)
{
	_cleanup_(freep) char **series = calloc(plan->nr_columns + 1, sizeof(*series));
	size_t nr = 0;
	int r = series ? 0 : -ENOMEM;

	for (; r == 0 && nr < plan->nr_columns; nr++) {
		struct buf name = {};

		event_series_name(&name, plan->columns[nr].event);
		series[nr] = buf_steal(&name);
		r = series[nr] ? check_name(plan, nr, series, why) : -ENOMEM;
	}
	while (nr > 0)
		free(series[--nr]);
	return r;
}

/* What is added to the reason of what is counted in a part of its group. */
static int tell_part(struct column *column)
{
	_cleanup_(freep) char *why = NULL;

	if (asprintf(&why, "%s%sgroup '%s' does not fit the PMU at once and is counted in parts",
		     column->why ? column->why : "", column->why ? "; " : "", column->group->name) < 0) {
		why = NULL;
		return -ENOMEM;
	}
	return column_set_state(column, EVENT_OK, why);
}

/* Tries the sets, splits or drops those that do not fit. */
static int settle_sets(struct scope_plan *plan, const struct probe *probe)
{
	int r = 0;

	for (size_t i = 0; i < plan->nr_sets && r == 0;) {
		size_t fits;

		r = probe_set(plan, &plan->sets[i], probe, &fits);
		if (r < 0)
			return r;
		if (fits > 0 && fits < plan->sets[i].nr)
			r = split_set(plan, i, fits);
		if (fits > 0)
			i++;
		else
			drop_set(plan, i);
	}
	for (size_t i = 0; i < plan->nr_columns && r == 0; i++)
		if (plan->columns[i].set != NO_SET && plan->sets[plan->columns[i].set].part)
			r = tell_part(&plan->columns[i]);
	return r;
}

/* Opens the sets that are to be pinned, but for those that are counted, and open, already. */
static int hold_pinned(const struct scope_plan *plan, const struct probe *probe, struct held *held)
{
	int r = 0;

	for (size_t i = 0; i < plan->nr_sets && r == 0; i++)
		if (plan->sets[i].pinned &&
		    !(probe->counting &&
		      set_is_open(probe->counting, set_find_equal(plan, &plan->sets[i], probe->counting))))
			r = probe_hold(plan, &plan->sets[i], probe, held);
	return r;
}

/* Columns, each tried on its own, and the sets they would be in. */
static int draw_up(struct scope_plan *plan, const struct probe *probe)
{
	int r = 0;

	for (size_t i = 0; i < plan->nr_columns && r == 0; i++) {
		r = probe_column(plan, i, probe);
		if (r == 0 && plan->columns[i].state == EVENT_OK)
			r = assign_set(plan, i, probe->cpus);
	}
	return r;
}

static int make_scopes(struct plan *plan, const struct probe probes[static _SCOPE_MAX], struct reason *why)
{
	_cleanup_(held_release) struct held held = {};
	int r = 0;

	/* What is wrong with the config is found before anything is opened. */
	for (int scope = 0; scope < _SCOPE_MAX && r == 0; scope++) {
		r = plan_add_columns(&plan->scope[scope], &plan->groups[scope], (enum scope)scope);
		if (r == 0)
			r = check_names(&plan->scope[scope], why);
	}
	for (int scope = 0; scope < _SCOPE_MAX && r == 0; scope++)
		r = draw_up(&plan->scope[scope], &probes[scope]);
	for (int scope = 0; scope < _SCOPE_MAX && r == 0; scope++)
		r = hold_pinned(&plan->scope[scope], &probes[scope], &held);
	for (int scope = 0; scope < _SCOPE_MAX && r == 0; scope++)
		r = settle_sets(&plan->scope[scope], &probes[scope]);
	return r == -ENOMEM ? reason_set(why, r, "out of memory") : r;
}

int plan_new(struct plan **ret, struct group_list groups[static _SCOPE_MAX], const struct cpulist *cpus,
	     int cgroup_fd, const char *no_cgroups, const struct privilege *privilege, const struct plan *counting,
	     struct reason *why)
{
	_cleanup_(plan_unrefp) struct plan *plan = calloc(1, sizeof(*plan));
	struct probe probes[_SCOPE_MAX];
	int r;

	if (!plan) {
		for (int scope = 0; scope < _SCOPE_MAX; scope++)
			group_list_release(&groups[scope]);
		return reason_set(why, -ENOMEM, "out of memory");
	}
	plan->refs = 1;
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		plan->groups[scope] = groups[scope];
		groups[scope] = (struct group_list){};
		probes[scope] = (struct probe){
			.scope = (enum scope)scope,
			.cpus = cpus,
			.cgroup_fd = scope == SCOPE_CGROUP ? cgroup_fd : -1,
			.no_cgroups = no_cgroups,
			.privilege = privilege,
			.counting = counting ? &counting->scope[scope] : NULL,
			.tried = &plan->tried,
		};
	}
	r = make_scopes(plan, probes, why);
	if (r < 0)
		return r;

	*ret = steal_ptr(plan);
	return 0;
}

bool column_equal(const struct column *a, const struct column *b)
{
	return a->scope == b->scope && event_equal(a->event, b->event);
}

/* The first place in by_name with that name, or one that comes after it. */
static size_t find_name(const struct scope_plan *plan, const char *name)
{
	size_t low = 0, high = plan->nr_columns;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(plan->columns[plan->by_name[middle]].event->metric, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The first column of that name that matches: several of a name are of different PMUs, or in different modes. */
static size_t find_named(const struct column *column, const struct scope_plan *plan,
			 bool (*matches)(const struct column *a, const struct column *b))
{
	const char *name = column->event->metric;

	for (size_t i = plan->by_name ? find_name(plan, name) : 0; i < plan->nr_columns; i++) {
		size_t at = plan->by_name ? plan->by_name[i] : i;

		if (matches(column, &plan->columns[at]))
			return at;
		if (plan->by_name && strcmp(plan->columns[at].event->metric, name) != 0)
			break;
	}
	return NO_COLUMN;
}

size_t column_find_equal(const struct column *column, const struct scope_plan *plan)
{
	return find_named(column, plan, column_equal);
}

bool set_is_open(const struct scope_plan *plan, size_t set)
{
	return set != NO_SET && !plan->sets[set].closed;
}

bool column_is_open(const struct scope_plan *plan, size_t column)
{
	return column != NO_COLUMN && set_is_open(plan, plan->columns[column].set);
}

static bool continues(const struct column *a, const struct column *b)
{
	bool changes = a->set == NO_SET || b->set == NO_SET || a->event->attr.type == PERF_TYPE_TRACEPOINT;

	return changes && a->scope == b->scope && strcmp(a->event->text, b->event->text) == 0 &&
	       strcmp(a->event->metric, b->event->metric) == 0 && strcmp(a->event->pmu, b->event->pmu) == 0;
}

size_t column_find_predecessor(const struct column *column, const struct scope_plan *plan)
{
	size_t equal = column_find_equal(column, plan);

	return equal == NO_COLUMN ? find_named(column, plan, continues) : equal;
}

static bool set_equal(const struct scope_plan *a_plan, const struct set *a, const struct scope_plan *b_plan,
		      const struct set *b)
{
	if (a->nr != b->nr)
		return false;
	for (size_t i = 0; i < a->nr; i++)
		if (!column_equal(&a_plan->columns[a->columns[i]], &b_plan->columns[b->columns[i]]))
			return false;
	return true;
}

size_t set_find_equal(const struct scope_plan *a_plan, const struct set *a, const struct scope_plan *b_plan)
{
	size_t leader = column_find_equal(&a_plan->columns[a->columns[0]], b_plan);
	size_t set = leader == NO_COLUMN ? NO_SET : b_plan->columns[leader].set;

	return set != NO_SET && set_equal(a_plan, a, b_plan, &b_plan->sets[set]) ? set : NO_SET;
}

/* Members alike, in the same order, opened with the same attributes on the same CPUs: only the scope differs. */
static bool counts_the_same(const struct scope_plan *a_plan, const struct set *a, const struct scope_plan *b_plan,
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

size_t plan_find_cpu_set(const struct plan *plan, const struct set *cgroup_set)
{
	const struct scope_plan *cpus = &plan->scope[SCOPE_CPU], *cgroups = &plan->scope[SCOPE_CGROUP];

	for (size_t i = 0; i < cpus->nr_sets; i++)
		if (counts_the_same(cgroups, cgroup_set, cpus, &cpus->sets[i]))
			return i;
	return NO_SET;
}

static size_t nr_fds(const struct scope_plan *plan)
{
	size_t nr = 0;

	for (size_t i = 0; i < plan->nr_sets; i++)
		nr += plan->sets[i].nr * plan->sets[i].cpus.nr;
	return nr;
}

size_t plan_fds_per_cgroup(const struct plan *plan)
{
	return nr_fds(&plan->scope[SCOPE_CGROUP]);
}

size_t plan_fds_of_cpus(const struct plan *plan)
{
	return nr_fds(&plan->scope[SCOPE_CPU]);
}

size_t plan_nr_counted(const struct plan *plan)
{
	size_t nr = 0;

	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < plan->scope[scope].nr_columns; i++)
			nr += plan->scope[scope].columns[i].set != NO_SET;
	return nr;
}

bool plan_may_recover(const struct plan *plan)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < plan->scope[scope].nr_columns; i++)
			if (plan->scope[scope].columns[i].may_recover)
				return true;
	return false;
}

bool plan_recovers(const struct plan *plan, const struct cpulist *cpus, int cgroup_fd)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		const struct probe probe = {
			.scope = (enum scope)scope,
			.cpus = cpus,
			.cgroup_fd = scope == SCOPE_CGROUP ? cgroup_fd : -1,
		};

		for (size_t i = 0; i < plan->scope[scope].nr_columns; i++)
			if (plan->scope[scope].columns[i].may_recover &&
			    probe_recovers(&plan->scope[scope].columns[i], &probe))
				return true;
	}
	return false;
}
