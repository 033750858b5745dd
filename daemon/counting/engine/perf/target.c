/* SPDX-License-Identifier: MIT */

#include "counting/engine/perf/target.h"

#include <string.h>

/* --- the groups of one set */

struct perf_groups *perf_groups_new(const struct scope_plan *plan, const struct set *set, const struct cpulist *cpus,
				    struct totals_row *const *rows)
{
	size_t nr_events = set_nr_events(plan, set), most = cpus->nr * nr_events;
	size_t size = sizeof(struct perf_groups) + cpus->nr * sizeof(struct perf_group);
	struct perf_groups *groups = calloc(1, size + most * (2 * sizeof(uint64_t) + sizeof(int)));
	uint64_t *values, *ids;
	int *fds;

	if (!groups)
		return NULL;
	values = (uint64_t *)((char *)groups + size);
	ids = values + most;
	fds = (int *)(ids + most);
	groups->nr_events = nr_events;
	for (size_t i = 0; i < cpus->nr; i++) {
		if (!cpulist_has(&set->cpus, cpus->cpu[i]))
			continue;
		groups->groups[groups->nr] = (struct perf_group){
			.row = rows[i],
			.cpu = cpus->cpu[i],
			.clocked = nr_events > set->nr,
			.fds = fds + groups->nr * nr_events,
			.ids = ids + groups->nr * nr_events,
			.base.values = values + groups->nr * nr_events,
		};
		groups->nr++;
	}
	for (size_t i = 0; i < most; i++)
		fds[i] = -1;
	return groups;
}

void perf_groups_free(struct perf_groups *groups, struct engine_stats *stats)
{
	if (!groups)
		return;
	for (size_t i = 0; i < groups->nr; i++)
		perf_group_close(&groups->groups[i], groups->nr_events, stats);
	free(groups);
}

size_t perf_groups_nr_open(const struct perf_groups *groups)
{
	size_t nr = 0;

	for (size_t i = 0; groups && i < groups->nr; i++)
		nr += perf_group_is_open(&groups->groups[i]);
	return nr;
}

bool perf_groups_are_whole(const struct perf_groups *groups)
{
	for (size_t i = 0; groups && !groups->shared && i < groups->nr; i++)
		if (!perf_group_is_open(&groups->groups[i]) && !groups->groups[i].offline)
			return false;
	return groups;
}

void perf_groups_decide(struct perf_groups *groups, const struct scope_plan *plan, size_t set)
{
	unsigned observations = 0;

	for (size_t i = 0; i < groups->nr; i++) {
		struct totals_row *row = groups->groups[i].row;

		observations |= 1U << groups->groups[i].observation;
		if (i + 1 < groups->nr && groups->groups[i + 1].row == row)
			continue;
		totals_decide(row, plan, set, observations);
		observations = 0;
	}
}

static void set_update(struct perf_groups *groups, const struct reading_context *context)
{
	for (size_t i = 0; i < groups->nr; i++)
		groups->groups[i].observation = perf_group_update(&groups->groups[i], context);
	perf_groups_decide(groups, context->own.plan, context->own.set);
}

/* --- what the CPUs count for the root cgroup */

bool perf_may_feed_root(const struct perf_engine *engine, size_t set)
{
	const struct engine_ops *ops = engine->engine.env.plan->scope[SCOPE_CGROUP].sets[set].engine;

	return ops && (ops == engine->engine.ops || ops->credits);
}

size_t perf_find_twin(const struct perf_engine *engine, enum scope scope, size_t set)
{
	size_t twin = set_find_twin(engine->engine.env.plan, scope, set);
	size_t on_cpus = scope == SCOPE_CPU ? set : twin, of_root = scope == SCOPE_CPU ? twin : set;

	return twin != NO_SET && engine_owns(&engine->engine, SCOPE_CPU, on_cpus) &&
			       perf_may_feed_root(engine, of_root) ?
		       twin :
		       NO_SET;
}

bool perf_set_is_shared(const struct perf_engine *engine, enum scope scope, uint64_t id, size_t set)
{
	return scope == SCOPE_CGROUP && id == CGROUP_ROOT_ID && perf_find_twin(engine, scope, set) != NO_SET;
}

/* Groups are in the order of their CPUs. */
static struct perf_group *find_group(struct perf_groups *groups, int cpu)
{
	size_t low = 0, high = groups->nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (groups->groups[middle].cpu == cpu)
			return &groups->groups[middle];
		if (groups->groups[middle].cpu < cpu)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

struct perf_group *perf_target_find_fed(const struct perf_engine *engine, const struct perf_target *cpu, size_t set,
					struct account *ret)
{
	size_t at = cpu->scope == SCOPE_CPU ? perf_find_twin(engine, SCOPE_CPU, set) : NO_SET;
	struct perf_target *root = at == NO_SET ? NULL : perf_target_find(engine, SCOPE_CGROUP, CGROUP_ROOT_ID);
	struct perf_groups *fed = root ? root->sets[at] : NULL;
	struct perf_group *group = fed && fed->shared ? find_group(fed, (int)cpu->id) : NULL;

	if (group)
		*ret = (struct account){
			.row = group->row,
			.plan = &engine->engine.env.plan->scope[SCOPE_CGROUP],
			.set = at,
			.health = &engine->engine.env.health[SCOPE_CGROUP][at],
			.idles = true, /* the root has the idle tasks */
		};
	return group;
}

/* --- targets */

struct perf_target *perf_target_new(struct perf_engine *engine, const struct engine_target *spec,
				    struct totals_row *const *rows, size_t nr_rows)
{
	size_t nr_sets = engine->engine.env.plan->scope[spec->scope].nr_sets;
	size_t size = sizeof(struct perf_target) + nr_sets * sizeof(struct perf_groups *);
	struct perf_target *target = calloc(1, size + nr_rows * sizeof(*rows));

	if (!target)
		return NULL;
	target->scope = spec->scope;
	target->id = spec->id;
	target->idles = spec->idles;
	target->parent = spec->ancestors.ids[0];
	target->depth = spec->depth;
	target->rows = (struct totals_row **)((char *)target + size);
	target->nr_rows = nr_rows;
	memcpy(target->rows, rows, nr_rows * sizeof(*rows));
	HASH_ADD(hh, engine->by_id[spec->scope], id, sizeof(target->id), target);
	if (!target->hh.tbl) {
		free(target);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&engine->targets, target, in_engine);
	return target;
}

struct perf_target *perf_target_find(const struct perf_engine *engine, enum scope scope, uint64_t id)
{
	struct perf_target *target = NULL;

	if (engine)
		HASH_FIND(hh, engine->by_id[scope], &id, sizeof(id), target);
	return target;
}

struct perf_target *perf_target_find_parent(const struct perf_engine *engine, const struct perf_target *target)
{
	return target->scope == SCOPE_CGROUP && target->parent != CGROUP_ROOT_ID ?
		       perf_target_find(engine, SCOPE_CGROUP, target->parent) :
		       NULL;
}

static void perf_target_free(struct perf_engine *engine, struct perf_target *target)
{
	for (size_t i = 0; i < engine->engine.env.plan->scope[target->scope].nr_sets; i++)
		perf_groups_free(target->sets[i], &engine->engine.stats);
	free(target);
}

size_t perf_target_nr_fds(const struct perf_target *target, const struct scope_plan *plan)
{
	size_t nr = 0;

	for (size_t i = 0; target && i < plan->nr_sets; i++)
		nr += perf_groups_nr_open(target->sets[i]) * set_nr_events(plan, &plan->sets[i]);
	return nr;
}

/* --- reading */

/* What the target's counts are a part of; NULL: nothing that is compared. */
static struct perf_level *find_sum(const struct perf_engine *engine, const struct perf_target *target, size_t set)
{
	size_t twin;

	if (target->scope == SCOPE_CGROUP)
		return target->depth == 1 ? &engine->highest[set] : NULL;
	twin = perf_find_twin(engine, SCOPE_CPU, set);
	return twin == NO_SET ? NULL : &engine->cpus[twin];
}

static void end_level(const struct perf_engine *engine, const struct perf_target *target, size_t set)
{
	struct perf_target *parent = perf_target_find_parent(engine, target);

	perf_target_unmeasure_doubted(engine, target, set);
	if (parent && parent->sets[set])
		perf_level_end(&parent->sets[set]->level, &target->sets[set]->level);
}

void perf_target_update_set(struct perf_engine *engine, struct perf_target *target, size_t set, uint64_t at, bool last)
{
	struct perf_groups *groups = target->sets[set];
	struct account also = {};
	struct perf_group *fed = perf_target_find_fed(engine, target, set, &also);
	const struct reading_context context = {
		.own = {
			.plan = &engine->engine.env.plan->scope[target->scope],
			.set = set,
			.health = &engine->engine.env.health[target->scope][set],
			.idles = target->idles,
		},
		.also = also,
		.at = at,
		.last = last,
		.deferred = groups && groups->deferred,
		.stats = &engine->engine.stats,
		.freqs = &engine->freqs,
		.doubtful = &engine->doubtful,
		.level = groups && target->scope == SCOPE_CGROUP ? &groups->level : NULL,
		.all = find_sum(engine, target, set),
		.lost = &engine->lost_since,
		.buffer = engine->buffer,
	};

	if (!groups || groups->shared)
		return;
	set_update(groups, &context);
	/* Other readings are followed by a comparison. */
	if (last)
		end_level(engine, target, set);
	if (fed)
		fed->observation = groups->groups[0].observation;
}

void perf_target_update(struct perf_engine *engine, struct perf_target *target, uint64_t at, bool last)
{
	for (size_t i = 0; i < engine->engine.env.plan->scope[target->scope].nr_sets; i++)
		perf_target_update_set(engine, target, i, at, last);
}

void perf_target_unmeasure(const struct perf_engine *engine, const struct perf_target *target, size_t set)
{
	for (size_t i = 0; i < target->nr_rows; i++)
		totals_unmeasure_set(target->rows[i], &engine->engine.env.plan->scope[target->scope], set);
}

void perf_target_unmeasure_doubted(const struct perf_engine *engine, const struct perf_target *target, size_t set)
{
	const struct perf_groups *groups = target->sets[set];
	bool alone = target->depth < 2 && groups->level.below.enabled <= 0;

	if (!groups->groups[0].clocked || groups->level.agrees || alone || !perf_level_is_estimated(&groups->level))
		return;
	perf_target_unmeasure(engine, target, set);
}

void perf_target_decide_closed(const struct perf_engine *engine, const struct perf_target *target)
{
	const struct scope_plan *plan = &engine->engine.env.plan->scope[target->scope];

	for (size_t i = 0; i < plan->nr_sets; i++)
		if (engine_owns(&engine->engine, target->scope, i) && !target->sets[i])
			for (size_t k = 0; k < target->nr_rows; k++)
				totals_unmeasure_set(target->rows[k], plan, i);
}

/* --- ending */

void perf_target_remove(struct perf_engine *engine, struct perf_target *target)
{
	HASH_DELETE(hh, engine->by_id[target->scope], target);
	TAILQ_REMOVE(&engine->targets, target, in_engine);
	perf_target_free(engine, target);
}

/* Leaves the files of a set that are slow to close to the closer: members before their leader. */
static void hand_set_to_closer(struct perf_engine *engine, struct perf_target *target, size_t set)
{
	const struct scope_plan *plan = &engine->engine.env.plan->scope[target->scope];
	struct perf_groups *groups = target->sets[set];

	if (!groups || !set_is_slow_to_close(plan, &plan->sets[set]))
		return;
	for (size_t i = 0; i < groups->nr; i++)
		perf_group_close_by(&groups->groups[i], groups->nr_events, engine->engine.env.closer,
				    &engine->engine.stats);
}

void perf_target_end(struct perf_engine *engine, struct perf_target *target, uint64_t now, bool wait)
{
	perf_target_update(engine, target, now, true);
	for (size_t i = 0; !wait && i < engine->engine.env.plan->scope[target->scope].nr_sets; i++)
		hand_set_to_closer(engine, target, i);
	perf_target_remove(engine, target);
}

void perf_target_end_set(struct perf_engine *engine, struct perf_target *target, size_t set, uint64_t now)
{
	if (!target->sets[set])
		return;
	perf_target_update_set(engine, target, set, now, true);
	hand_set_to_closer(engine, target, set);
	perf_groups_free(target->sets[set], &engine->engine.stats);
	target->sets[set] = NULL;
}
