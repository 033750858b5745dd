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

/* What a CPU's set can't be opened for is why the root lacks it, too. */
static void tell_failure(struct perf_engine *engine, size_t set, const struct set_readers *readers)
{
	const struct finding *cpus = &engine->engine.findings[SCOPE_CPU][engine->shared[SCOPE_CGROUP][set]];
	struct finding *root = &engine->engine.findings[SCOPE_CGROUP][set];

	for (size_t i = 0; cpus->lasting.text[0] && i < readers->nr; i++)
		if (readers->readers[i].sight == SIGHT_LOST) {
			root->failures++;
			root->why = cpus->lasting;
		}
}

void root_settle(struct perf_engine *engine)
{
	const struct scope_plan *plan = &engine->engine.plan->scope[SCOPE_CGROUP];
	struct station *root = perf_find_station(engine, SCOPE_CGROUP, CGROUP_ROOT_ID);

	for (size_t i = 0; root && i < plan->nr_sets; i++) {
		struct set_readers *readers = root->sets[i];

		if (!readers || !readers->shared)
			continue;
		tell_failure(engine, i, readers);
		set_readers_settle(readers, &plan->sets[i]);
		/* A CPU of which nothing is heard at the next reading is not counted. */
		for (size_t k = 0; k < readers->nr; k++)
			readers->readers[k].sight = SIGHT_LOST;
	}
}

/* The CPUs' readings come to this moment, and add to the shared sets that there are so far. */
static void read_cpus(struct perf_engine *engine, uint64_t now)
{
	struct station *station;

	TAILQ_FOREACH(station, &engine->stations, in_engine)
		if (station->scope == SCOPE_CPU)
			perf_update_station(engine, station, now, true);
}

/* Is the column counted by events of the root's own in the preceding engine? */
static bool had_own_event(const struct perf_engine *engine, const struct station *old, const struct column *column)
{
	const struct scope_plan *from = &engine->from->engine.plan->scope[SCOPE_CGROUP];
	size_t at = column_find_equal(column, from);
	size_t set = at == NO_COLUMN ? NO_SET : from->columns[at].set;

	return set != NO_SET && old->sets[set] && !old->sets[set]->shared;
}

static bool had_own_events(const struct perf_engine *engine, const struct station *old, const struct set *set)
{
	const struct scope_plan *plan = &engine->engine.plan->scope[SCOPE_CGROUP];

	for (size_t i = 0; old && i < set->nr; i++)
		if (had_own_event(engine, old, &plan->columns[set->columns[i]]))
			return true;
	return false;
}

static struct set_readers *new_shared(const struct set *set, const struct cpulist *cpus, struct row *const *rows)
{
	struct set_readers *readers = set_readers_new(set, cpus, rows);

	if (!readers)
		return NULL;
	readers->shared = true;
	/* A CPU of which nothing is heard is not counted. */
	for (size_t i = 0; i < readers->nr; i++)
		readers->readers[i].sight = SIGHT_LOST;
	return readers;
}

/* Makes the shared sets whose events the root had events of its own for (own), or the others. -ENOMEM. */
static int share(struct perf_engine *engine, struct station *station, const struct station *old,
		 const struct cpulist *cpus, struct row *const *rows, bool own)
{
	const struct scope_plan *plan = &engine->engine.plan->scope[SCOPE_CGROUP];

	for (size_t i = 0; i < plan->nr_sets; i++) {
		if (!set_is_shared(engine, station->scope, station->id, i) || station->sets[i] ||
		    own != had_own_events(engine, old, &plan->sets[i]))
			continue;
		station->sets[i] = new_shared(&plan->sets[i], cpus, rows);
		if (!station->sets[i])
			return -ENOMEM;
	}
	return 0;
}

static bool has_all_shared(const struct perf_engine *engine, const struct station *station)
{
	for (size_t i = 0; i < engine->engine.plan->scope[SCOPE_CGROUP].nr_sets; i++)
		if (set_is_shared(engine, station->scope, station->id, i) && !station->sets[i])
			return false;
	return true;
}

/* Is one of the events in a shared set now? */
static bool is_replaced(const struct perf_engine *engine, const struct set *old_set)
{
	const struct scope_plan *plan = &engine->engine.plan->scope[SCOPE_CGROUP];
	const struct scope_plan *from = &engine->from->engine.plan->scope[SCOPE_CGROUP];

	for (size_t i = 0; i < old_set->nr; i++) {
		size_t at = column_find_equal(&from->columns[old_set->columns[i]], plan);
		size_t set = at == NO_COLUMN ? NO_SET : plan->columns[at].set;

		if (set != NO_SET && engine->shared[SCOPE_CGROUP][set] != NO_SET)
			return true;
	}
	return false;
}

/* Closes the root's own events that the CPUs' replace. They have been read. */
static void drop_own_events(struct perf_engine *engine, struct station *old)
{
	const struct scope_plan *from = &engine->from->engine.plan->scope[SCOPE_CGROUP];

	for (size_t i = 0; i < from->nr_sets; i++) {
		if (!old->sets[i] || old->sets[i]->shared || !is_replaced(engine, &from->sets[i]))
			continue;
		set_readers_free(old->sets[i], &engine->from->engine.stats);
		old->sets[i] = NULL;
	}
}

int root_share_sets(struct perf_engine *engine, struct station *station, struct station *old,
		    const struct cpulist *cpus, struct row *const *rows, uint64_t now)
{
	int r;

	if (!is_root(station->scope, station->id))
		return 0;
	r = share(engine, station, old, cpus, rows, false);
	if (r < 0 || has_all_shared(engine, station))
		return r;
	/* Where the CPUs' events take the place of the root's own, these are read for the last time at the moment from
	 * which on those add to the root. */
	read_cpus(engine, now);
	perf_update_station(engine->from, old, now, true);
	r = share(engine, station, old, cpus, rows, true);
	drop_own_events(engine, old);
	return r;
}
