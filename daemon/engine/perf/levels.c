/* SPDX-License-Identifier: MIT */

#include "engine/perf/levels.h"

/* Estimates of the same load differ by so much at most. In an emulated machine with exact counts, where an estimate was
 * wrong by more than 5 %, one level at least and those below it differed by 4 % or more. */
#define TOLERANCE (1.0 / 25)
/* … where too little was observed to be settled. */
#define ROUGH_TOLERANCE (1.0 / 4)

/* A cgroup whose tasks have taken less of its time has none of its own. */
#define OWN_SHARE (1.0 / 50)

/* As many turns that not each of them matters; and as many counts. */
#define SETTLED_NS 200000000U
#define COUNTS_MIN 10000

/* The level of what is compared: a set of a cgroup that is open. */
static struct perf_level *target_level(const struct perf_target *target, size_t set)
{
	struct perf_groups *groups = target->scope == SCOPE_CGROUP ? target->sets[set] : NULL;

	return groups && groups->groups[0].clocked && !groups->shared ? &groups->level : NULL;
}

static struct perf_level *parent_level(const struct perf_engine *engine, const struct perf_target *target, size_t set)
{
	struct perf_target *parent = perf_target_find_parent(engine, target);

	return parent ? target_level(parent, set) : NULL;
}

/* Children that began before their parent begin anew with it. Parents come first. */
static void align(const struct perf_engine *engine, struct perf_target *target, size_t set)
{
	const struct perf_level *parent = parent_level(engine, target, set);
	struct perf_level *level = target_level(target, set);

	if (!level)
		return;
	if (parent && parent->begun_at && level->begun_at && level->begun_at < parent->begun_at)
		*level = (struct perf_level){ .begun_at = parent->begun_at };
	level->below = level->gone;
	level->below_enabled = level->gone_enabled;
	level->below_covered = level->gone_enabled;
	level->below_running = 0;
	level->contradicted = false;
}

static bool is_settled(const struct perf_level *level)
{
	return level->covered > 0 && (level->running >= SETTLED_NS || !perf_level_is_estimated(level));
}

/* With all below it: the levels between are no witnesses where nothing tells of them. Children that hardly ever ran
 * need not be compared. */
static bool is_compared(const struct perf_level *level)
{
	if (level->below_enabled < OWN_SHARE * (double)level->enabled)
		return true;
	return is_settled(level) && level->below_running >= SETTLED_NS &&
	       level->below_covered >= (1 - TOLERANCE) * level->below_enabled;
}

static bool is_contradicted(const struct perf_level *level)
{
	double counted = perf_level_estimate(level);
	bool has_own = level->below_enabled < (1 - OWN_SHARE) * (double)level->enabled;

	if (counted + level->below < COUNTS_MIN)
		return false;
	return level->below > counted * (1 + TOLERANCE) || (!has_own && counted > level->below * (1 + TOLERANCE));
}

/* Compares a cgroup with its children, and adds it to its parent's. Children come first. */
static void compare(const struct perf_engine *engine, struct perf_target *target, size_t set)
{
	struct perf_level *level = target_level(target, set), *parent = parent_level(engine, target, set);

	if (!level)
		return;
	level->compared = is_compared(level);
	level->contradicted |= level->compared && is_contradicted(level);
	if (!parent)
		return;
	parent->below += perf_level_estimate(level);
	parent->below_enabled += (double)level->enabled;
	parent->below_covered += is_settled(level) && level->compared ? (double)level->enabled : 0;
	parent->below_running += (double)level->running;
	parent->contradicted |= level->contradicted;
}

/* Parents come first. */
static void conclude(struct perf_engine *engine, struct perf_target *target, size_t set)
{
	const struct perf_level *parent = parent_level(engine, target, set);
	struct set_health *health = &engine->engine.env.health[SCOPE_CGROUP][set];
	struct perf_level *level = target_level(target, set);
	bool nested;

	if (!level)
		return;
	nested = parent || level->below_enabled > 0;
	level->contradicted |= parent && parent->contradicted;
	level->agrees = !nested ||
			(!level->contradicted && is_settled(level) && level->compared && (!parent || parent->compared));
	if (level->agrees || !perf_level_is_estimated(level))
		return;
	engine->engine.stats.lies[LIE_CHILD] += level->contradicted;
	health->doubted |= level->contradicted;
	health->unsettled |= !level->contradicted;
	perf_target_unmeasure_doubted(engine, target, set);
}

/* Compares the CPUs with the cgroups below the root. The root cgroup is counted as they are. */
static void compare_cpus(struct perf_engine *engine, size_t set)
{
	const struct perf_level *cpus = &engine->cpus[set], *cgroups = &engine->highest[set];
	double counted = perf_level_estimate(cpus), below = perf_level_estimate(cgroups);
	double tolerance = is_settled(cgroups) ? TOLERANCE : ROUGH_TOLERANCE;
	size_t twin = perf_find_twin(engine, SCOPE_CGROUP, set);
	struct perf_target *target;

	if (twin == NO_SET || !is_settled(cpus) || !perf_level_is_estimated(cpus) || counted + below < COUNTS_MIN ||
	    below <= counted * (1 + tolerance))
		return;
	TAILQ_FOREACH(target, &engine->targets, in_engine)
		if (target->depth == 0)
			perf_target_unmeasure(engine, target, target->scope == SCOPE_CPU ? twin : set);
	engine->engine.env.health[SCOPE_CPU][twin].doubted = true;
	engine->engine.env.health[SCOPE_CGROUP][set].doubted = true;
	engine->engine.stats.lies[LIE_CHILD]++;
}

static unsigned find_depth(const struct perf_engine *engine)
{
	const struct perf_target *target;
	unsigned depth = 0;

	TAILQ_FOREACH(target, &engine->targets, in_engine)
		depth = target->depth > depth ? target->depth : depth;
	return depth;
}

/* Trees are some levels deep: to look at all targets for each is no work beside reading them. */
static void compare_set(struct perf_engine *engine, size_t set, unsigned deepest)
{
	struct perf_target *target;

	for (unsigned depth = 1; depth <= deepest; depth++)
		TAILQ_FOREACH(target, &engine->targets, in_engine)
			if (target->depth == depth)
				align(engine, target, set);
	for (unsigned depth = deepest; depth > 0; depth--)
		TAILQ_FOREACH(target, &engine->targets, in_engine)
			if (target->depth == depth)
				compare(engine, target, set);
	for (unsigned depth = 1; depth <= deepest; depth++)
		TAILQ_FOREACH(target, &engine->targets, in_engine)
			if (target->depth == depth)
				conclude(engine, target, set);
	compare_cpus(engine, set);
}

void perf_levels_compare(struct perf_engine *engine)
{
	const struct scope_plan *plan = &engine->engine.env.plan->scope[SCOPE_CGROUP];
	unsigned deepest = find_depth(engine);

	for (size_t i = 0; i < plan->nr_sets; i++)
		if (engine_owns(&engine->engine, SCOPE_CGROUP, i) && set_has_run_clock(plan, &plan->sets[i]))
			compare_set(engine, i, deepest);
}
