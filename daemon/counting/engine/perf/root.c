/* SPDX-License-Identifier: MIT */

#include "counting/engine/perf/root.h"

#include <errno.h>

/* The reason why a CPU's set can't be opened is the root's too. */
static void tell_failure(struct perf_engine *engine, size_t set, const struct perf_groups *groups)
{
	const struct set_health *cpus =
		&engine->engine.env.health[SCOPE_CPU][perf_find_twin(engine, SCOPE_CGROUP, set)];
	struct set_health *root = &engine->engine.env.health[SCOPE_CGROUP][set];

	for (size_t i = 0; cpus->lasting.text[0] && i < groups->nr; i++)
		if (groups->groups[i].observation == OBSERVED_LOST) {
			root->failures++;
			root->why = cpus->lasting;
		}
}

void root_decide(struct perf_engine *engine)
{
	const struct scope_plan *plan = &engine->engine.env.plan->scope[SCOPE_CGROUP];
	struct perf_target *root = perf_target_find(engine, SCOPE_CGROUP, CGROUP_ROOT_ID);

	for (size_t i = 0; root && i < plan->nr_sets; i++) {
		struct perf_groups *groups = root->sets[i];

		if (!groups || !groups->shared)
			continue;
		tell_failure(engine, i, groups);
		perf_groups_decide(groups, plan, i);
		/* A CPU that is not read by the next time is not counted. */
		for (size_t k = 0; k < groups->nr; k++)
			groups->groups[k].observation = OBSERVED_LOST;
	}
}

/* The CPUs' readings come to this moment, and add to the shared sets that there are so far. */
static void read_cpus(struct perf_engine *engine, uint64_t now)
{
	struct perf_target *target;

	TAILQ_FOREACH(target, &engine->targets, in_engine)
		if (target->scope == SCOPE_CPU)
			perf_target_update(engine, target, now, true);
}

void root_read_twin(struct perf_engine *engine, size_t set, uint64_t now)
{
	size_t twin = perf_find_twin(engine, SCOPE_CGROUP, set);
	struct perf_target *target;

	TAILQ_FOREACH(target, &engine->targets, in_engine)
		if (target->scope == SCOPE_CPU && twin != NO_SET)
			perf_target_update_set(engine, target, twin, now, true);
}

/* Is the column counted by events of the root's own in the preceding engine? */
static bool had_own_event(const struct perf_engine *engine, const struct perf_target *old, const struct column *column)
{
	const struct scope_plan *from = &engine->from->engine.env.plan->scope[SCOPE_CGROUP];
	size_t set = plan_set_of(from, column_find_equal(column, from));

	return set != NO_SET && old->sets[set] && !old->sets[set]->shared;
}

static bool had_own_events(const struct perf_engine *engine, const struct perf_target *old, const struct set *set)
{
	const struct scope_plan *plan = &engine->engine.env.plan->scope[SCOPE_CGROUP];

	for (size_t i = 0; old && i < set->nr; i++)
		if (had_own_event(engine, old, &plan->columns[set->columns[i]]))
			return true;
	return false;
}

static struct perf_groups *new_shared(const struct scope_plan *plan, const struct set *set, const struct cpulist *cpus,
				      struct totals_row *const *rows)
{
	struct perf_groups *groups = perf_groups_new(plan, set, cpus, rows);

	if (!groups)
		return NULL;
	groups->shared = true;
	/* A CPU that is never read is not counted. */
	for (size_t i = 0; i < groups->nr; i++)
		groups->groups[i].observation = OBSERVED_LOST;
	return groups;
}

/* Makes the shared sets whose events the root had events of its own for (own), or the others. -ENOMEM. */
static int share_sets(struct perf_engine *engine, struct perf_target *target, const struct perf_target *old,
		      const struct cpulist *cpus, struct totals_row *const *rows, bool own)
{
	const struct scope_plan *plan = &engine->engine.env.plan->scope[SCOPE_CGROUP];

	for (size_t i = 0; i < plan->nr_sets; i++) {
		if (!perf_set_is_shared(engine, target->scope, target->id, i) || target->sets[i] ||
		    own != had_own_events(engine, old, &plan->sets[i]))
			continue;
		target->sets[i] = new_shared(plan, &plan->sets[i], cpus, rows);
		if (!target->sets[i])
			return -ENOMEM;
	}
	return 0;
}

static bool has_all_shared(const struct perf_engine *engine, const struct perf_target *target)
{
	for (size_t i = 0; i < engine->engine.env.plan->scope[SCOPE_CGROUP].nr_sets; i++)
		if (perf_set_is_shared(engine, target->scope, target->id, i) && !target->sets[i])
			return false;
	return true;
}

/* Is one of the events in a shared set now? */
static bool is_replaced(const struct perf_engine *engine, const struct set *old_set)
{
	const struct scope_plan *plan = &engine->engine.env.plan->scope[SCOPE_CGROUP];
	const struct scope_plan *from = &engine->from->engine.env.plan->scope[SCOPE_CGROUP];

	for (size_t i = 0; i < old_set->nr; i++) {
		size_t set = plan_set_of(plan, column_find_equal(&from->columns[old_set->columns[i]], plan));

		if (set != NO_SET && perf_find_twin(engine, SCOPE_CGROUP, set) != NO_SET)
			return true;
	}
	return false;
}

/* Closes the root's own events that the CPUs' replace. They have been read. */
static void drop_own_events(struct perf_engine *engine, struct perf_target *old)
{
	const struct scope_plan *from = &engine->from->engine.env.plan->scope[SCOPE_CGROUP];

	for (size_t i = 0; i < from->nr_sets; i++) {
		if (!old->sets[i] || old->sets[i]->shared || !is_replaced(engine, &from->sets[i]))
			continue;
		perf_groups_free(old->sets[i], &engine->from->engine.stats);
		old->sets[i] = NULL;
	}
}

/* Was a column of the root's set counted by the preceding engine of this kind? */
static bool was_counted_here(const struct perf_engine *engine, const struct set *set)
{
	const struct scope_plan *plan = &engine->engine.env.plan->scope[SCOPE_CGROUP], *from;

	if (!engine->from)
		return false;
	from = &engine->from->engine.env.plan->scope[SCOPE_CGROUP];
	for (size_t i = 0; i < set->nr; i++) {
		size_t old = plan_set_of(from, column_find_predecessor(&plan->columns[set->columns[i]], from));

		if (old != NO_SET && perf_may_feed_root(engine->from, old))
			return true;
	}
	return false;
}

/* Other kinds of engines have counted sets of the root up to now, while the CPUs' events that feed them from now on are
 * open already: their counts so far are not the root's. */
static void begin_after_others(struct perf_engine *engine, const struct engine_target *spec, uint64_t now)
{
	const struct scope_plan *plan = &engine->engine.env.plan->scope[SCOPE_CGROUP];

	for (size_t i = 0; i < plan->nr_sets; i++)
		if (perf_set_is_shared(engine, SCOPE_CGROUP, CGROUP_ROOT_ID, i) &&
		    !was_counted_here(engine, &plan->sets[i]))
			root_read_twin(engine, i, now);
	spec->before_start(spec->userdata, &engine->engine, now);
}

int root_share_sets(struct perf_engine *engine, struct perf_target *target, struct perf_target *old,
		    const struct engine_target *spec, const struct cpulist *cpus, struct totals_row *const *rows,
		    uint64_t now)
{
	int r;

	if (target->scope != SCOPE_CGROUP || target->id != CGROUP_ROOT_ID)
		return 0;
	if (spec->before_start)
		begin_after_others(engine, spec, now);
	r = share_sets(engine, target, old, cpus, rows, false);
	if (r < 0 || has_all_shared(engine, target))
		return r;
	/* Where the CPUs' events take the place of the root's own, these are read for the last time at the moment from
	 * which on those add to the root. */
	read_cpus(engine, now);
	perf_target_update(engine->from, old, now, true);
	r = share_sets(engine, target, old, cpus, rows, true);
	drop_own_events(engine, old);
	return r;
}
