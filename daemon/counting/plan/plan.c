/* SPDX-License-Identifier: MIT */

#include "counting/plan/plan.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

const char *scope_name(enum scope scope)
{
	static const char *const names[_SCOPE_MAX] = {
		[SCOPE_CPU] = "cpu",
		[SCOPE_CGROUP] = "cgroup",
	};

	return names[scope];
}

const char *event_state_name(enum event_state state)
{
	static const char *const names[_EVENT_STATE_MAX] = {
		[EVENT_OK] = "ok",
		[EVENT_MULTIPLEXED] = "multiplexed",
		[EVENT_NEVER_SCHEDULED] = "never_scheduled",
		[EVENT_STALLED] = "stalled",
		[EVENT_UNSUPPORTED] = "unsupported",
		[EVENT_DENIED] = "denied",
		[EVENT_FAILED] = "failed",
		[EVENT_NEVER_FIRES] = "never_fires",
	};

	return names[state];
}

void group_list_release(struct group_list *list)
{
	for (size_t i = 0; i < list->nr; i++) {
		free(list->groups[i].name);
		event_list_release(&list->groups[i].events);
	}
	free(list->groups);
	*list = (struct group_list){};
}

void plan_end_tries(struct plan *plan, struct async_close *closer)
{
	while (plan->tried.nr > 0)
		async_close_submit(closer, plan->tried.fds[--plan->tried.nr]);
	tried_release(&plan->tried);
}

void plan_let_go(struct plan *plan, struct async_close *closer)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < plan->scope[scope].nr_columns; i++)
			async_close_submit(closer, steal_fd(&plan->scope[scope].columns[i].retained_fd));
}

size_t plan_nr_retained(const struct plan *plan)
{
	size_t nr = 0;

	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < plan->scope[scope].nr_columns; i++)
			nr += plan->scope[scope].columns[i].retained_fd >= 0;
	return nr;
}

static void scope_plan_release(struct scope_plan *plan)
{
	for (size_t i = 0; i < plan->nr_columns; i++) {
		free(plan->columns[i].why);
		free(plan->columns[i].passed_over);
		safe_close(plan->columns[i].retained_fd);
	}
	free(plan->columns);
	free(plan->by_name);
	for (size_t i = 0; i < plan->nr_sets; i++) {
		free(plan->sets[i].columns);
		cpulist_release(&plan->sets[i].cpus);
	}
	free(plan->sets);
}

int tried_add(struct tried *tried, int fd)
{
	int *fds = reallocarray(tried->fds, tried->nr + 1, sizeof(*fds));

	if (!fds)
		return -ENOMEM;
	tried->fds = fds;
	fds[tried->nr++] = fd;
	return 0;
}

void tried_release(struct tried *tried)
{
	while (tried->nr > 0)
		safe_close(tried->fds[--tried->nr]);
	free(tried->fds);
	*tried = (struct tried){};
}

struct plan *plan_new(void)
{
	struct plan *plan = calloc(1, sizeof(*plan));

	if (plan)
		plan->refs = 1;
	return plan;
}

struct plan *plan_ref(struct plan *plan)
{
	assert(plan->refs > 0);
	plan->refs++;
	return plan;
}

struct plan *plan_unref(struct plan *plan)
{
	if (!plan || --plan->refs)
		return NULL;
	tried_release(&plan->tried);
	free(plan->counters);
	pmu_counters_list_release(&plan->pmus);
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		scope_plan_release(&plan->scope[scope]);
		group_list_release(&plan->groups[scope]);
	}
	free(plan);
	return NULL;
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

/* Do both count the same? One of them may be hidden. */
static bool column_alike(const struct column *a, const struct column *b)
{
	return a->scope == b->scope && event_equal(a->event, b->event);
}

bool column_equal(const struct column *a, const struct column *b)
{
	return column_alike(a, b) && a->group->hidden == b->group->hidden;
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

/* The first place of columns with the column's name. */
static size_t begin_named(const struct column *column, const struct scope_plan *plan)
{
	return plan->by_name ? find_name(plan, column->event->metric) : 0;
}

/* The next column of that name that matches, from the place on, which is then behind it: several of a name are of
 * different PMUs, in different modes, or hidden and shown. */
static size_t next_named(const struct column *column, const struct scope_plan *plan,
			 bool (*matches)(const struct column *a, const struct column *b), size_t *place)
{
	while (*place < plan->nr_columns) {
		size_t at = plan->by_name ? plan->by_name[*place] : *place;

		(*place)++;
		if (matches(column, &plan->columns[at]))
			return at;
		if (plan->by_name && strcmp(plan->columns[at].event->metric, column->event->metric) != 0)
			break;
	}
	return NO_COLUMN;
}

static size_t find_named(const struct column *column, const struct scope_plan *plan,
			 bool (*matches)(const struct column *a, const struct column *b))
{
	size_t place = begin_named(column, plan);

	return next_named(column, plan, matches, &place);
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
	return set_is_open(plan, plan_set_of(plan, column));
}

static bool column_continues(const struct column *a, const struct column *b)
{
	bool changes = a->set == NO_SET || b->set == NO_SET || a->event->attr.type == PERF_TYPE_TRACEPOINT;

	return changes && a->scope == b->scope && a->group->hidden == b->group->hidden &&
	       strcmp(a->event->text, b->event->text) == 0 && strcmp(a->event->metric, b->event->metric) == 0 &&
	       strcmp(a->event->pmu, b->event->pmu) == 0;
}

size_t column_find_predecessor(const struct column *column, const struct scope_plan *plan)
{
	size_t equal = column_find_equal(column, plan);

	return equal == NO_COLUMN ? find_named(column, plan, column_continues) : equal;
}

static bool members_match(const struct scope_plan *a_plan, const struct set *a, const struct scope_plan *b_plan,
			  const struct set *b, bool (*matches)(const struct column *a, const struct column *b))
{
	if (a->nr != b->nr)
		return false;
	for (size_t i = 0; i < a->nr; i++)
		if (!matches(&a_plan->columns[a->columns[i]], &b_plan->columns[b->columns[i]]))
			return false;
	return true;
}

/* The set of b's with the same members. A leader that is hidden and shown is in several sets. */
static size_t find_set(const struct scope_plan *a_plan, const struct set *a, const struct scope_plan *b_plan,
		       bool (*matches)(const struct column *a, const struct column *b))
{
	const struct column *leader = &a_plan->columns[a->columns[0]];
	size_t place = begin_named(leader, b_plan), column;

	while ((column = next_named(leader, b_plan, matches, &place)) != NO_COLUMN) {
		size_t at = plan_set_of(b_plan, column);

		if (at != NO_SET && members_match(a_plan, a, b_plan, &b_plan->sets[at], matches))
			return at;
	}
	return NO_SET;
}

size_t set_find_equal(const struct scope_plan *a_plan, const struct set *a, const struct scope_plan *b_plan)
{
	return find_set(a_plan, a, b_plan, column_equal);
}

size_t set_find_alike(const struct scope_plan *a_plan, const struct set *a, const struct scope_plan *b_plan)
{
	return find_set(a_plan, a, b_plan, column_alike);
}

size_t set_with_times(const struct scope_plan *plan, size_t at)
{
	const struct set *set = &plan->sets[at];
	size_t first = at;

	/* The sets of a group stand together. */
	for (size_t i = at; i-- > 0 && plan->sets[i].group == set->group && !set->group->alone;)
		if (set->exact && plan->sets[i].exact)
			first = i;
	return first;
}

size_t set_find_twin(const struct plan *plan, enum scope scope, size_t set)
{
	enum scope other = scope == SCOPE_CPU ? SCOPE_CGROUP : SCOPE_CPU;
	const struct scope_plan *own = &plan->scope[scope];
	size_t counter = own->columns[own->sets[set].columns[0]].counter;

	return plan_set_of(&plan->scope[other], plan->counters[counter].columns[other]);
}

size_t plan_nr_counted(const struct plan *plan)
{
	size_t nr = 0;

	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < plan_nr_shown(&plan->scope[scope]); i++)
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
