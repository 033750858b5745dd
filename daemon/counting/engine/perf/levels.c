/* SPDX-License-Identifier: MIT */

#include "counting/engine/perf/levels.h"

/* Estimates of the same load differ by so much at most. In an emulated machine with exact counts, where an estimate was
 * wrong by more than 5 %, one level at least and those below it differed by 4 % or more. */
#define TOLERANCE (1.0 / 25)
/* … where too little was observed to be sure. */
#define ROUGH_TOLERANCE (1.0 / 4)

/* A cgroup whose tasks have taken less of its time has none of its own. */
#define OWN_SHARE (1.0 / 50)

/* As many turns that not each of them matters; and as many counts. */
#define SURE_NS 200000000U
#define COUNTS_MIN 10000

/* A comparison is halved after so much time. What waits to be scaled, a second or so, is little of it; and it is no
 * longer than what rates are taken over, a minute and more. */
#define HALVED_AFTER_NS 30000000000U
/* … if so much was observed: half of it is left, of all that remains of stretches before it. These are as good as
 * 3,750 turns of 4 ms. If turns differ by half, the sums of so many differ by 0.8 %, and two levels by 1.2 % from each
 * other, which TOLERANCE is three times of. After less, levels would contradict each other by chance now and then. */
#define HALVED_NS 10000000000.0
/* … and so much for each CPU, on which nothing is scaled before 50 ms were observed. */
#define HALVED_CPU_NS 2000000000.0
/* … and if so much was counted. */
#define HALVED_COUNTS (10.0 * COUNTS_MIN)

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

/* Has it enough to spare to remain sure and compared when all is halved? As children come and go, the share of those
 * that are not sure doubles in what is left. */
static bool is_to_be_halved(const struct perf_level *level, const struct set *set, uint64_t now)
{
	const struct perf_sums *below = &level->below;
	double of_cpus = HALVED_CPU_NS * (double)set->cpus.nr, enough = of_cpus > HALVED_NS ? of_cpus : HALVED_NS;

	if (now - level->halved_at < HALVED_AFTER_NS || level->own.running < enough ||
	    perf_sums_estimate(&level->own) < HALVED_COUNTS)
		return false;
	return below->enabled < OWN_SHARE * level->own.enabled ||
	       (below->running >= enough && below->covered >= (1 - TOLERANCE / 2) * below->enabled);
}

static const struct set *find_set(const struct perf_engine *engine, size_t set)
{
	return &engine->engine.env.plan->scope[SCOPE_CGROUP].sets[set];
}

/* Children that began before their parent begin anew with it. What is due is halved. Parents come first. */
static void prepare(const struct perf_engine *engine, struct perf_target *target, size_t set, uint64_t now)
{
	const struct perf_level *parent = parent_level(engine, target, set);
	struct perf_level *level = target_level(target, set);

	if (!level)
		return;
	if (parent && parent->begun_at && level->begun_at && level->begun_at < parent->begun_at)
		*level = (struct perf_level){ .begun_at = parent->begun_at, .halved_at = now };
	if (parent && parent->halved)
		perf_sums_halve(&level->part);
	level->halved = is_to_be_halved(level, find_set(engine, set), now);
	if (level->halved)
		perf_level_halve(level, now);
	level->below = level->gone;
	level->contradicted = false;
}

static bool is_sure(const struct perf_level *level)
{
	return level->own.covered > 0 && (level->own.running >= SURE_NS || !perf_level_is_estimated(level));
}

/* With all below it: the levels between are no witnesses where nothing tells of them. Children that hardly ever ran
 * need not be compared. */
static bool is_compared(const struct perf_level *level)
{
	if (level->below.enabled < OWN_SHARE * level->own.enabled)
		return true;
	return is_sure(level) && level->below.running >= SURE_NS &&
	       level->below.covered >= (1 - TOLERANCE) * level->below.enabled;
}

static bool is_contradicted(const struct perf_level *level)
{
	double counted = perf_sums_estimate(&level->own), below = level->below.counted;
	bool has_own = level->below.enabled < (1 - OWN_SHARE) * level->own.enabled;

	if (counted + below < COUNTS_MIN)
		return false;
	return below > counted * (1 + TOLERANCE) || (!has_own && counted > below * (1 + TOLERANCE));
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
	parent->below.counted += perf_sums_estimate(&level->part);
	parent->below.enabled += level->part.enabled;
	parent->below.covered += is_sure(level) && level->compared ? level->part.enabled : 0;
	parent->below.running += level->part.running;
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
	nested = parent || level->below.enabled > 0;
	level->contradicted |= parent && parent->contradicted;
	level->agrees = !nested ||
			(!level->contradicted && is_sure(level) && level->compared && (!parent || parent->compared));
	if (level->agrees || !perf_level_is_estimated(level))
		return;
	engine->engine.stats.lies[LIE_CHILD] += level->contradicted;
	health->doubted |= level->contradicted;
	health->unsure |= !level->contradicted;
	perf_target_unmeasure_doubted(engine, target, set);
}

/* Compares the CPUs with the cgroups below the root. The root cgroup is counted as they are. */
static void compare_cpus(struct perf_engine *engine, size_t set)
{
	const struct perf_level *cpus = &engine->cpus[set], *cgroups = &engine->highest[set];
	double counted = perf_sums_estimate(&cpus->own), below = perf_sums_estimate(&cgroups->own);
	double tolerance = is_sure(cgroups) ? TOLERANCE : ROUGH_TOLERANCE;
	size_t twin = perf_find_twin(engine, SCOPE_CGROUP, set);
	struct perf_target *target;

	if (twin == NO_SET || !is_sure(cpus) || !perf_level_is_estimated(cpus) || counted + below < COUNTS_MIN ||
	    below <= counted * (1 + tolerance))
		return;
	TAILQ_FOREACH(target, &engine->targets, in_engine)
		if (target->depth == 0)
			perf_target_unmeasure(engine, target, target->scope == SCOPE_CPU ? twin : set);
	engine->engine.env.health[SCOPE_CPU][twin].doubted = true;
	engine->engine.env.health[SCOPE_CGROUP][set].doubted = true;
	engine->engine.stats.lies[LIE_CHILD]++;
}

static void halve_cpus(struct perf_engine *engine, size_t set, uint64_t now)
{
	struct perf_level *cpus = &engine->cpus[set], *cgroups = &engine->highest[set];

	cpus->below = cgroups->own;
	cpus->below.covered = cpus->below.enabled;
	if (!is_to_be_halved(cpus, find_set(engine, set), now))
		return;
	perf_level_halve(cpus, now);
	perf_level_halve(cgroups, now);
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
static void compare_set(struct perf_engine *engine, size_t set, unsigned deepest, uint64_t now)
{
	struct perf_target *target;

	for (unsigned depth = 1; depth <= deepest; depth++)
		TAILQ_FOREACH(target, &engine->targets, in_engine)
			if (target->depth == depth)
				prepare(engine, target, set, now);
	for (unsigned depth = deepest; depth > 0; depth--)
		TAILQ_FOREACH(target, &engine->targets, in_engine)
			if (target->depth == depth)
				compare(engine, target, set);
	for (unsigned depth = 1; depth <= deepest; depth++)
		TAILQ_FOREACH(target, &engine->targets, in_engine)
			if (target->depth == depth)
				conclude(engine, target, set);
	halve_cpus(engine, set, now);
	compare_cpus(engine, set);
}

void perf_levels_compare(struct perf_engine *engine, uint64_t now)
{
	const struct scope_plan *plan = &engine->engine.env.plan->scope[SCOPE_CGROUP];
	unsigned deepest = find_depth(engine);

	for (size_t i = 0; i < plan->nr_sets; i++)
		if (engine_owns(&engine->engine, SCOPE_CGROUP, i) && set_has_run_clock(plan, &plan->sets[i]))
			compare_set(engine, i, deepest, now);
}
