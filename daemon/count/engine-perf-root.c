/* SPDX-License-Identifier: MIT */

#include "count/engine-perf.h"

#include "target/identity.h"

#include <errno.h>

static bool is_root(enum scope scope, uint64_t id)
{
	return scope == SCOPE_CGROUP && id == CGROUP_ROOT_ID;
}

void root_find_shared(struct perf_engine *engine)
{
	const struct plan *plan = engine->engine.plan;

	for (size_t i = 0; i < plan->scope[SCOPE_CPU].nr_sets; i++)
		engine->shared[SCOPE_CPU][i] = NO_SET;
	for (size_t i = 0; i < plan->scope[SCOPE_CGROUP].nr_sets; i++) {
		size_t k = plan_find_cpu_set(plan, &plan->scope[SCOPE_CGROUP].sets[i]);

		engine->shared[SCOPE_CGROUP][i] = k;
		if (k != NO_SET)
			engine->shared[SCOPE_CPU][k] = i;
	}
}

bool set_is_shared(const struct perf_engine *engine, enum scope scope, uint64_t id, size_t set)
{
	return is_root(scope, id) && engine->shared[SCOPE_CGROUP][set] != NO_SET;
}

/* Readers are in the order of their CPUs. */
static struct reader *find_reader(struct set_readers *readers, int cpu)
{
	size_t low = 0, high = readers->nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (readers->readers[middle].cpu == cpu)
			return &readers->readers[middle];
		if (readers->readers[middle].cpu < cpu)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

struct reader *root_find_fed(const struct perf_engine *engine, const struct station *cpu, size_t set, struct sink *ret)
{
	size_t at = cpu->scope == SCOPE_CPU ? engine->shared[SCOPE_CPU][set] : NO_SET;
	struct station *root = at == NO_SET ? NULL : perf_find_station(engine, SCOPE_CGROUP, CGROUP_ROOT_ID);
	struct set_readers *fed = root ? root->sets[at] : NULL;
	struct reader *reader = fed && fed->shared ? find_reader(fed, (int)cpu->id) : NULL;

	if (reader)
		*ret = (struct sink){
			.row = reader->row,
			.set = &engine->engine.plan->scope[SCOPE_CGROUP].sets[at],
			.set_at = at,
			.finding = &engine->engine.findings[SCOPE_CGROUP][at],
		};
	return reader;
}

void root_settle(struct perf_engine *engine)
{
	const struct scope_plan *plan = &engine->engine.plan->scope[SCOPE_CGROUP];
	struct station *root = perf_find_station(engine, SCOPE_CGROUP, CGROUP_ROOT_ID);

	for (size_t i = 0; root && i < plan->nr_sets; i++) {
		struct set_readers *readers = root->sets[i];

		if (!readers || !readers->shared)
			continue;
		set_readers_settle(readers, &plan->sets[i]);
		/* A CPU of which nothing is heard at the next reading is not counted. */
		for (size_t k = 0; k < readers->nr; k++)
			readers->readers[k].sight = SIGHT_LOST;
	}
}

/* The preceding engine's events of the set: read when its CPUs were, from where these go on feeding the row. */
static void drop_own_events(struct perf_engine *engine, struct station *old, size_t set)
{
	size_t heir = old ? engine->heirs[SCOPE_CGROUP][set] : NO_SET;

	if (heir == NO_SET)
		return;
	set_readers_free(old->sets[heir], &engine->from->engine.stats);
	old->sets[heir] = NULL;
}

int root_share_sets(struct perf_engine *engine, struct station *station, struct station *old,
		    const struct cpulist *cpus, struct row *const *rows)
{
	const struct scope_plan *plan = &engine->engine.plan->scope[station->scope];

	for (size_t i = 0; i < plan->nr_sets; i++) {
		if (!set_is_shared(engine, station->scope, station->id, i))
			continue;
		station->sets[i] = set_readers_new(&plan->sets[i], cpus, rows);
		if (!station->sets[i])
			return -ENOMEM;
		station->sets[i]->shared = true;
		drop_own_events(engine, old, i);
	}
	return 0;
}
