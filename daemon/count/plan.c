/* SPDX-License-Identifier: MIT */

#include "count/plan.h"

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

static void scope_plan_release(struct scope_plan *plan)
{
	for (size_t i = 0; i < plan->nr_columns; i++)
		free(plan->columns[i].why);
	free(plan->columns);
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
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		scope_plan_release(&plan->scope[scope]);
		group_list_release(&plan->groups[scope]);
	}
	free(plan);
	return NULL;
}

/* What an event is tried with. */
struct probe {
	enum scope scope;
	const struct cpulist *cpus;
	int cgroup_fd;
	const char *no_cgroups;
	const struct privilege *privilege;
	const struct scope_plan *counting; /* what is counted now, or NULL */
};

static int cpus_of_event(struct cpulist *ret, const struct event *event, const struct cpulist *online)
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

static int column_set_state(struct column *column, enum event_state state, const char *why)
{
	char *copy = strdup(why);

	if (!copy)
		return -ENOMEM;
	free(column->why);
	column->why = copy;
	column->state = state;
	return 0;
}

/* What is being counted can be: trying it again could only meet itself, where the PMU takes one user. */
static bool is_counting(const struct column *column, const struct probe *probe)
{
	for (size_t i = 0; probe->counting && i < probe->counting->nr_columns; i++)
		if (probe->counting->columns[i].set != NO_SET && column_equal(&probe->counting->columns[i], column))
			return true;
	return false;
}

/* Opens the event by itself, once, to learn whether this machine counts it in this scope. */
static int try_event(struct column *column, const struct probe *probe)
{
	const struct event *event = column->event;
	_cleanup_(cpulist_release) struct cpulist cpus = {};
	_cleanup_(closep) int fd = -1;
	struct reason why;
	enum event_state state;
	int cpu;

	if (event->absent)
		return column_set_state(column, event->absent == -EACCES ? EVENT_DENIED : EVENT_UNSUPPORTED,
					event->why_absent ? event->why_absent : strerror(-event->absent));
	if (probe->scope == SCOPE_CGROUP && event->uncore)
		return column_set_state(column, EVENT_UNSUPPORTED,
					"it belongs to a device and not to tasks: it can be counted per CPU only");
	if (probe->scope == SCOPE_CGROUP && probe->cgroup_fd < 0)
		return column_set_state(column, EVENT_UNSUPPORTED, probe->no_cgroups);

	if (cpus_of_event(&cpus, event, probe->cpus) < 0)
		return -ENOMEM;
	if (cpus.nr == 0)
		return column_set_state(column, EVENT_UNSUPPORTED, "none of its PMU's CPUs is online");

	cpu = cpus.cpu[0];
	if (is_counting(column, probe))
		return 0;
	fd = perf_open(event, cpu, probe->cgroup_fd, -1);
	if (fd >= 0)
		return 0;
	state = perf_open_explain(fd, event, probe->scope, cpu, probe->privilege, &why);
	return column_set_state(column, state, why.text);
}

/* The kernel takes events into one group only where they are of one PMU; those of the software context
 * join any. A generic event's PMU is the core PMU, or the one in the upper half of its config. */
static uint64_t pmu_key(const struct event *event)
{
	const struct perf_event_attr *attr = &event->attr;

	if (attr->type == PERF_TYPE_HARDWARE || attr->type == PERF_TYPE_HW_CACHE)
		return attr->config >> 32 ? attr->config >> 32 : PERF_TYPE_RAW;
	return attr->type;
}

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

		if (!member->software && pmu_key(member) != pmu_key(column->event))
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
	return 0;
}

static int assign_set(struct scope_plan *plan, size_t at, const struct cpulist *online)
{
	struct column *column = &plan->columns[at];
	_cleanup_(cpulist_release) struct cpulist cpus = {};
	struct set *sets;

	if (cpus_of_event(&cpus, column->event, online) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < plan->nr_sets; i++)
		if (set_takes(plan, &plan->sets[i], column, &cpus))
			return set_add(plan, &plan->sets[i], at);

	sets = reallocarray(plan->sets, plan->nr_sets + 1, sizeof(*sets));
	if (!sets)
		return -ENOMEM;
	plan->sets = sets;
	sets[plan->nr_sets] = (struct set){
		.group = column->group,
		.cpus = cpus,
		.exact = true,
		.uncore = column->event->uncore,
	};
	cpus = (struct cpulist){};
	return set_add(plan, &sets[plan->nr_sets++], at);
}

static void explain_group(int error, const struct set *set, const struct event *event, size_t before,
			  const struct probe *probe, struct reason *why)
{
	if (error == -EINVAL || error == -ENOSPC) {
		reason_set(why, 0,
			   "'%s' can be counted alone, but the kernel does not take it together with the %zu before it "
			   "in group '%s' (%s): the PMU has too few counters; make the group smaller or set "
			   "alone = yes",
			   event->text, before, set->group->name, strerror(-error));
		return;
	}
	(void)perf_open_explain(error, event, probe->scope, set->cpus.cpu[0], probe->privilege, why);
	reason_prefix(why, 0, "'%s' in group '%s'", event->text, set->group->name);
}

static bool is_counting_set(const struct scope_plan *plan, const struct set *set, const struct probe *probe)
{
	for (size_t i = 0; probe->counting && i < probe->counting->nr_sets; i++)
		if (set_equal(plan, set, probe->counting, &probe->counting->sets[i]))
			return true;
	return false;
}

/* Opens a set once as the kernel group it will be: events that can each be counted do not always fit
 * together. What does not fit loses the whole set, and every member says so. 1 where it is lost. */
static int try_set(struct scope_plan *plan, const struct set *set, const struct probe *probe)
{
	_cleanup_(freep) int *fds = calloc(set->nr, sizeof(*fds));
	size_t opened = 0;
	int error = 0;
	struct reason why;

	if (!fds)
		return -ENOMEM;
	if (set->nr < 2 || is_counting_set(plan, set, probe))
		return 0;
	for (; opened < set->nr && !error; opened++) {
		const struct event *event = plan->columns[set->columns[opened]].event;

		fds[opened] = perf_open(event, set->cpus.cpu[0], probe->cgroup_fd, opened ? fds[0] : -1);
		if (fds[opened] < 0) {
			error = fds[opened];
			explain_group(error, set, event, opened, probe, &why);
		}
	}
	while (opened > 0)
		safe_close(fds[--opened]);

	for (size_t i = 0; error && i < set->nr; i++)
		if (column_set_state(&plan->columns[set->columns[i]], EVENT_FAILED, why.text) < 0)
			return -ENOMEM;
	return error ? 1 : 0;
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

static int add_columns(struct scope_plan *plan, const struct group_list *groups, enum scope scope)
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
				.set = NO_SET,
			};
	return 0;
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

/* No two columns of a scope may have the same series, nor one those of the groups' times. */
static int check_name(const struct scope_plan *plan, size_t at, char *const *series, struct reason *why)
{
	const struct column *column = &plan->columns[at];

	if (strcmp(series[at], "group_enabled_seconds") == 0 || strcmp(series[at], "group_running_seconds") == 0)
		return reason_set(why, -EEXIST,
				  "'%s' in group '%s': '%s' is the name of the groups' times; use another label",
				  column->event->text, column->group->name, series[at]);
	for (size_t i = 0; i < at; i++)
		if (strcmp(series[i], series[at]) == 0 && !share_series(plan->columns[i].event, column->event))
			return fail_same_series(&plan->columns[i], column, series[at], why);
	return 0;
}

static int check_names(const struct scope_plan *plan, struct reason *why)
{
	_cleanup_(freep) char **series = calloc(plan->nr_columns + 1, sizeof(*series));
	size_t nr = 0;
	int r = series ? 0 : -ENOMEM;

	for (; r == 0 && nr < plan->nr_columns; nr++) {
		series[nr] = event_series_name(plan->columns[nr].event);
		r = series[nr] ? check_name(plan, nr, series, why) : -ENOMEM;
	}
	while (nr > 0)
		free(series[--nr]);
	return r;
}

static int scope_plan_make(struct scope_plan *plan, const struct group_list *groups, const struct probe *probe,
			   struct reason *why)
{
	int r = add_columns(plan, groups, probe->scope);

	if (r < 0)
		return r;
	r = check_names(plan, why);
	if (r < 0)
		return r;

	for (size_t i = 0; i < plan->nr_columns; i++) {
		r = try_event(&plan->columns[i], probe);
		if (r == 0 && plan->columns[i].state == EVENT_OK)
			r = assign_set(plan, i, probe->cpus);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < plan->nr_sets;) {
		r = try_set(plan, &plan->sets[i], probe);
		if (r < 0)
			return r;
		if (r > 0)
			drop_set(plan, i);
		else
			i++;
	}
	return 0;
}

int plan_new(struct plan **ret, struct group_list groups[static _SCOPE_MAX], const struct cpulist *cpus,
	     int cgroup_fd, const char *no_cgroups, const struct privilege *privilege, const struct plan *counting,
	     struct reason *why)
{
	_cleanup_(plan_unrefp) struct plan *plan = calloc(1, sizeof(*plan));

	if (!plan) {
		for (int scope = 0; scope < _SCOPE_MAX; scope++)
			group_list_release(&groups[scope]);
		return reason_set(why, -ENOMEM, "out of memory");
	}
	plan->refs = 1;
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		plan->groups[scope] = groups[scope];
		groups[scope] = (struct group_list){};
	}

	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		struct probe probe = {
			.scope = (enum scope)scope,
			.cpus = cpus,
			.cgroup_fd = scope == SCOPE_CGROUP ? cgroup_fd : -1,
			.no_cgroups = no_cgroups,
			.privilege = privilege,
			.counting = counting ? &counting->scope[scope] : NULL,
		};
		int r = scope_plan_make(&plan->scope[scope], &plan->groups[scope], &probe, why);

		if (r == -ENOMEM)
			reason_set(why, r, "out of memory");
		if (r < 0)
			return r;
	}

	*ret = steal_ptr(plan);
	return 0;
}

bool column_equal(const struct column *a, const struct column *b)
{
	return a->scope == b->scope && a->event->config3 == b->event->config3 &&
	       strcmp(a->event->metric, b->event->metric) == 0 &&
	       strcmp(a->event->pmu, b->event->pmu) == 0 &&
	       memcmp(&a->event->attr, &b->event->attr, sizeof(a->event->attr)) == 0;
}

bool set_equal(const struct scope_plan *a_plan, const struct set *a, const struct scope_plan *b_plan,
	       const struct set *b)
{
	if (a->nr != b->nr || !cpulist_equal(&a->cpus, &b->cpus))
		return false;
	for (size_t i = 0; i < a->nr; i++)
		if (!column_equal(&a_plan->columns[a->columns[i]], &b_plan->columns[b->columns[i]]))
			return false;
	return true;
}

size_t plan_fds_per_cgroup(const struct plan *plan)
{
	const struct scope_plan *scope = &plan->scope[SCOPE_CGROUP];
	size_t nr = 0;

	for (size_t i = 0; i < scope->nr_sets; i++)
		nr += scope->sets[i].nr * scope->sets[i].cpus.nr;
	return nr;
}
