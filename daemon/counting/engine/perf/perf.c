/* SPDX-License-Identifier: MIT */

#include "counting/engine/perf/perf.h"

#include "counting/engine/perf/groups-image.h"
#include "counting/engine/perf/handover.h"
#include "counting/engine/perf/levels.h"
#include "counting/engine/perf/probe.h"
#include "counting/engine/perf/root.h"

#include <errno.h>
#include <string.h>

/* --- opening a set */

static int explain_refused(const struct perf_engine *engine, const struct engine_target *spec, int error, int cpu,
			   const struct event *event, struct reason *why)
{
	struct reason detail;

	perf_open_explain(error, event, spec->scope, cpu, engine->engine.env.privilege, &detail);
	return reason_set(why, error, "%s%sCPU %d, '%s': %s", spec->label, spec->label[0] ? ", " : "", cpu, event->text,
			  detail.text);
}

/* Without its directory nothing of a cgroup can be opened: perf_event_open(2) would take -1 for all processes. */
static int directory_error(const struct engine_target *spec, struct reason *why)
{
	if (spec->scope != SCOPE_CGROUP || spec->id == CGROUP_ROOT_ID || spec->cgroup_fd >= 0)
		return 0;
	return reason_set(why, spec->cgroup_fd, "its directory can't be opened: %s", strerror(-spec->cgroup_fd));
}

/* Opens the groups of a set that are not open yet, without starting them: all of them or none. A CPU that has gone
 * offline since the plan was made is passed over: nothing runs there. */
static int set_open(struct perf_engine *engine, struct perf_groups **ret, const struct engine_target *spec,
		    const struct set *set, const struct cpulist *cpus, struct totals_row *const *rows,
		    struct reason *why)
{
	const struct scope_plan *plan = &engine->engine.env.plan->scope[spec->scope];
	struct engine_stats *stats = &engine->engine.stats;
	struct perf_groups *groups = *ret ? *ret : perf_groups_new(plan, set, cpus, rows);
	struct perf_event_attr attr;
	int r = 0;

	if (!groups)
		return reason_set(why, -ENOMEM, "out of memory");
	r = directory_error(spec, why);
	groups->deferred = false;
	for (size_t i = 0; i < groups->nr && (r == 0 || r == -ENODEV); i++) {
		struct perf_group *group = &groups->groups[i];
		size_t at;

		if (perf_group_is_open(group))
			continue;
		r = perf_group_open(group, plan, set, spec->cgroup_fd, stats, &at);
		if (r < 0 && r != -ENODEV)
			explain_refused(engine, spec, r, group->cpu, set_event(plan, set, at, &attr), why);
	}
	if (r == 0 || r == -ENODEV) {
		*ret = groups;
		return 0;
	}
	for (size_t i = 0; i < groups->nr; i++)
		if (!groups->groups[i].started)
			perf_group_close(&groups->groups[i], groups->nr_events, stats);
	*ret = groups;
	if (perf_groups_nr_open(groups) == 0) {
		perf_groups_free(groups, stats);
		*ret = NULL;
	}
	return r;
}

static void set_start(struct perf_groups *groups, uint64_t now)
{
	for (size_t i = 0; i < groups->nr; i++)
		if (!groups->groups[i].started && perf_group_is_open(&groups->groups[i]))
			perf_group_start(&groups->groups[i], now);
}

/* --- targets */

/* The fds of a target that has all that can be open. */
static size_t nr_fds_of(const struct perf_engine *engine, enum scope scope, uint64_t id)
{
	const struct scope_plan *plan = &engine->engine.env.plan->scope[scope];
	size_t nr = 0;

	for (size_t i = 0; i < plan->nr_sets; i++) {
		const struct set *set = &plan->sets[i];

		if (!engine_owns(&engine->engine, scope, i))
			continue;
		if (scope == SCOPE_CPU)
			nr += cpulist_has(&set->cpus, (int)id) ? set_nr_events(plan, set) : 0;
		else if (!perf_set_is_shared(engine, scope, id, i))
			nr += set_nr_events(plan, set) * set->cpus.nr;
	}
	return nr;
}

/* The files of the target in the preceding engine, which are taken over, or closed first. Those of sets that leave to
 * another kind of engine stay open until that starts. */
static size_t nr_fds_to_come(const struct perf_engine *engine, enum scope scope, uint64_t id)
{
	const struct scope_plan *plan = &engine->from->engine.env.plan->scope[scope];
	const struct perf_target *old = perf_target_find(engine->from, scope, id);
	size_t nr = 0;

	for (size_t i = 0; old && i < plan->nr_sets; i++)
		if (!engine->takeover->leaves[scope][i])
			nr += perf_groups_nr_open(old->sets[i]) * set_nr_events(plan, &plan->sets[i]);
	return nr;
}

static size_t perf_fds_needed(const struct engine *base, enum scope scope, uint64_t id)
{
	const struct perf_engine *engine = perf_engine_const(base);
	const struct scope_plan *plan = &base->env.plan->scope[scope];
	size_t needed = nr_fds_of(engine, scope, id),
	       open = perf_target_nr_fds(perf_target_find(engine, scope, id), plan);

	if (engine->from)
		open += nr_fds_to_come(engine, scope, id);
	return needed > open ? needed - open : 0;
}

static struct engine_room perf_room(const struct engine *base)
{
	size_t fds[_SCOPE_MAX] = {};

	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		const struct scope_plan *plan = &base->env.plan->scope[scope];

		for (size_t i = 0; i < plan->nr_sets; i++)
			if (engine_owns(base, (enum scope)scope, i))
				fds[scope] += set_nr_events(plan, &plan->sets[i]) * plan->sets[i].cpus.nr;
	}
	return (struct engine_room){
		.fds_of_cpus = fds[SCOPE_CPU],
		.fds_per_cgroup = fds[SCOPE_CGROUP],
		.cgroups = SIZE_MAX,
	};
}

static bool perf_has(const struct engine *base, enum scope scope, uint64_t id)
{
	return perf_target_find(perf_engine_const(base), scope, id) != NULL;
}

static bool perf_is_open(const struct engine *base, enum scope scope, size_t set)
{
	const struct perf_engine *engine = perf_engine_const(base);
	const struct perf_target *target;

	TAILQ_FOREACH(target, &engine->targets, in_engine) {
		const struct perf_groups *groups = target->scope == scope ? target->sets[set] : NULL;

		if (perf_groups_nr_open(groups) > 0 ||
		    (groups && groups->shared && perf_is_open(base, SCOPE_CPU, perf_find_twin(engine, scope, set))))
			return true;
	}
	return false;
}

static size_t perf_nr_whole(const struct engine *base, size_t set)
{
	const struct perf_engine *engine = perf_engine_const(base);
	const struct perf_target *target;
	size_t nr = 0;

	TAILQ_FOREACH(target, &engine->targets, in_engine)
		nr += target->scope == SCOPE_CGROUP && perf_groups_are_whole(target->sets[set]);
	return nr;
}

static int perf_event_of(const struct engine *base, int cpu, size_t set, size_t member, uint64_t *ret_id)
{
	const struct perf_target *target = perf_target_find(perf_engine_const(base), SCOPE_CPU, (uint64_t)cpu);
	const struct perf_groups *groups = target ? target->sets[set] : NULL;
	const struct perf_group *group = groups && groups->nr > 0 ? groups->groups : NULL;

	if (!group)
		return -ENOENT;
	if (group->dead || group->offline)
		return -ENODEV;
	if (!group->started || !perf_group_is_open(group))
		return -ENOENT;
	*ret_id = group->ids[member];
	return group->fds[member];
}

static void perf_remove(struct engine *base, enum scope scope, uint64_t id, uint64_t now)
{
	struct perf_engine *engine = perf_engine(base);
	struct perf_target *target = perf_target_find(engine, scope, id);

	if (target)
		perf_target_end(engine, target, now, false);
}

static void perf_remove_set(struct engine *base, enum scope scope, uint64_t id, size_t set, uint64_t now)
{
	struct perf_engine *engine = perf_engine(base);
	struct perf_target *target = perf_target_find(engine, scope, id);

	if (!target)
		return;
	if (target->sets[set] && target->sets[set]->shared)
		root_read_twin(engine, set, now);
	perf_target_end_set(engine, target, set, now);
}

static void perf_finish(struct engine *base, uint64_t now)
{
	struct perf_engine *engine = perf_engine(base);

	while (!TAILQ_EMPTY(&engine->targets))
		perf_target_end(engine, TAILQ_FIRST(&engine->targets), now, false);
}

/* --- taking over */

/* Takes over the open groups of an equal set on those CPUs that both are on and that have been online ever since.
 * Returns how many groups that are. */
static size_t inherit_groups(struct perf_engine *engine, struct perf_groups *groups, struct perf_groups *old)
{
	size_t nr = 0, at = 0;

	for (size_t i = 0; i < old->nr; i++) {
		struct perf_group *from = &old->groups[i];

		/* Both are in the order of CPUs. */
		while (at < groups->nr && groups->groups[at].cpu < from->cpu)
			at++;
		if (at == groups->nr)
			break;
		if (groups->groups[at].cpu != from->cpu || !perf_group_is_open(from) || from->dead ||
		    cpulist_has(engine->takeover->lost, from->cpu))
			continue;
		perf_group_move(&groups->groups[at], from, old->nr_events);
		engine->engine.stats.fds += old->nr_events;
		engine->from->engine.stats.fds -= old->nr_events;
		nr++;
	}
	return nr;
}

/* Takes over from equal sets of the preceding engine's target; how many groups. */
static size_t inherit_sets(struct perf_engine *engine, struct perf_target *target, const struct cpulist *cpus,
			   struct totals_row *const *rows)
{
	const struct scope_plan *plan = &engine->engine.env.plan->scope[target->scope];
	struct perf_target *old = perf_target_find(engine->from, target->scope, target->id);
	size_t nr = 0;

	for (size_t i = 0; old && i < plan->nr_sets; i++) {
		size_t predecessor = engine->predecessors[target->scope][i], taken;

		if (predecessor == NO_SET || target->sets[i] || perf_groups_nr_open(old->sets[predecessor]) == 0)
			continue;
		target->sets[i] = perf_groups_new(plan, &plan->sets[i], cpus, rows);
		if (!target->sets[i])
			continue;
		taken = inherit_groups(engine, target->sets[i], old->sets[predecessor]);
		target->sets[i]->level = old->sets[predecessor]->level;
		if (taken == 0) {
			free(target->sets[i]);
			target->sets[i] = NULL;
		}
		nr += taken;
	}
	return nr;
}

/* Can what is open of the preceding engine's set be that of the set? */
static bool may_continue(const struct perf_engine *engine, enum scope scope, size_t set, size_t old)
{
	const struct scope_plan *plan = &engine->engine.env.plan->scope[scope];
	const struct scope_plan *from = &engine->from->engine.env.plan->scope[scope];

	/* Open events can't be made exclusive, or shared. */
	return old != NO_SET && engine_owns(&engine->engine, scope, set) &&
	       engine_owns(&engine->from->engine, scope, old) &&
	       plan->sets[set].exclusive == from->sets[old].exclusive && !perf_goes_over(engine, scope, old);
}

/* Which of the preceding engine's sets each set is: worked out once, and not for each target. One that was hidden and
 * is shown now, or the other way round, has the same events open: cgroups may be credited with what they count. */
static void find_predecessors(struct perf_engine *engine, enum scope scope)
{
	static size_t (*const find[])(const struct scope_plan *a_plan, const struct set *a,
				      const struct scope_plan *b_plan) = { set_find_equal, set_find_alike };
	const struct scope_plan *plan = &engine->engine.env.plan->scope[scope];
	const struct scope_plan *from = &engine->from->engine.env.plan->scope[scope];
	size_t *predecessors = engine->predecessors[scope];

	for (size_t i = 0; i < plan->nr_sets; i++)
		predecessors[i] = NO_SET;
	for (size_t i = 0; i < ARRAY_SIZE(find) * plan->nr_sets; i++) {
		size_t set = i % plan->nr_sets, old = find[i / plan->nr_sets](plan, &plan->sets[set], from);
		struct set_health *health = &engine->engine.env.health[scope][set];

		if (predecessors[set] != NO_SET || !may_continue(engine, scope, set, old))
			continue;
		predecessors[set] = old;
		health->waited = engine->from->engine.env.health[scope][old].waited;
		health->ever_ran = engine->from->engine.env.health[scope][old].ever_ran;
	}
}

static void perf_takeover(struct engine *base, const struct engine_takeover *takeover)
{
	struct perf_engine *engine = perf_engine(base);

	engine->takeover = takeover;
	engine->from = takeover ? perf_engine(takeover->from) : NULL;
	engine->doubtful |= engine->from && engine->from->doubtful;
	for (int scope = 0; takeover && scope < _SCOPE_MAX; scope++)
		find_predecessors(engine, (enum scope)scope);
	handover_free(engine->handover);
	engine->handover = takeover ? handover_new(engine) : NULL;
}

/* Ends what is still open of a target in the preceding engine, but for sets that leave to another kind of engine: that
 * one ends them when it starts. */
static void end_old(struct perf_engine *engine, struct perf_target *old, uint64_t now, bool wait)
{
	struct perf_engine *from = engine->from;
	bool leaves = false;

	for (size_t i = 0; i < from->engine.env.plan->scope[old->scope].nr_sets; i++)
		leaves |= old->sets[i] && engine->takeover->leaves[old->scope][i];
	if (!leaves) {
		perf_target_end(from, old, now, wait);
		return;
	}
	for (size_t i = 0; i < from->engine.env.plan->scope[old->scope].nr_sets; i++)
		if (!engine->takeover->leaves[old->scope][i])
			perf_target_end_set(from, old, i, now);
}

/* Groups show it by their shape, also those of cgroups, and a single event by its time, if it is of the whole CPU. One
 * is enough: others can have been opened since. That the kernel said so at opening is not, where others are open
 * there: it says the same of a PMU that does not count on that CPU. */
static enum life perf_life(const struct engine *base, int cpu)
{
	const struct perf_engine *engine = perf_engine_const(base);
	const struct perf_target *target = perf_target_find(engine, SCOPE_CPU, (uint64_t)cpu);
	enum life life = LIFE_UNKNOWN;

	if (cpulist_has(&engine->lost_since, cpu))
		return LIFE_BEEN_OFFLINE;
	for (size_t i = 0; target && i < base->env.plan->scope[SCOPE_CPU].nr_sets; i++) {
		const struct perf_groups *groups = target->sets[i];

		if (!groups || groups->nr == 0)
			continue;
		if (perf_groups_nr_open(groups) && groups->groups[0].still)
			return LIFE_BEEN_OFFLINE;
		if (perf_groups_nr_open(groups))
			life = LIFE_ONLINE;
		else if (groups->groups[0].offline && life == LIFE_UNKNOWN)
			life = LIFE_BEEN_OFFLINE;
	}
	return life;
}

/* --- adding */

static void note_refused(struct set_health *health, enum scope scope, const struct reason *why)
{
	if (scope == SCOPE_CPU)
		health->lasting = *why;
	else
		health->lack = *why;
}

/* Opens the sets that are not open yet. Returns 0 or an error, with a sentence on the last one. tell: the sets note it
 * in their health. */
static int open_missing(struct perf_engine *engine, struct perf_target *target, const struct engine_target *spec,
			const struct cpulist *cpus, struct totals_row *const *rows, struct reason *why, bool tell)
{
	const struct scope_plan *plan = &engine->engine.env.plan->scope[spec->scope];
	int error = 0;

	why->text[0] = '\0';
	for (size_t i = 0; i < plan->nr_sets && !(error == -ENOENT && spec->scope == SCOPE_CGROUP); i++) {
		int r = 0;

		if (engine_owns(&engine->engine, spec->scope, i) && !perf_groups_are_whole(target->sets[i]))
			r = set_open(engine, &target->sets[i], spec, &plan->sets[i], cpus, rows, why);
		if (r < 0 && tell)
			note_refused(&engine->engine.env.health[spec->scope][i], spec->scope, why);
		/* An error that more room could cure goes before others: it decides whether to wait for the closing
		 * of old files. */
		if (r < 0 && !perf_open_may_recover(error))
			error = r;
	}
	return error;
}

/* Other engines end what this one is about to count. */
static void before_start(const struct perf_engine *engine, const struct engine_target *spec, uint64_t now)
{
	if (spec->before_start)
		spec->before_start(spec->userdata, &engine->engine, now);
}

/* Starts what was opened; returns how many sets are open. */
static size_t start_sets(struct perf_engine *engine, struct perf_target *target, const struct engine_target *spec,
			 uint64_t now)
{
	size_t nr = 0;

	before_start(engine, spec, now);
	for (size_t i = 0; i < engine->engine.env.plan->scope[target->scope].nr_sets; i++) {
		if (!target->sets[i])
			continue;
		set_start(target->sets[i], now);
		nr++;
	}
	return nr;
}

/* Leaves groups that are not open to a later add(), and says so in why. */
static void defer_missing(const struct perf_engine *engine, struct perf_target *target, struct reason *why)
{
	why->text[0] = '\0';
	for (size_t i = 0; i < engine->engine.env.plan->scope[target->scope].nr_sets; i++) {
		if (!engine_owns(&engine->engine, target->scope, i) || perf_groups_are_whole(target->sets[i]))
			continue;
		if (target->sets[i])
			target->sets[i]->deferred = true;
		reason_set(why, 0, "some of its events are about to be opened");
	}
}

/* Was everything taken over that was open for a cgroup, so that waiting for the rest loses nothing? The root cgroup
 * may have been counted without an open file. */
static bool may_defer(const struct perf_engine *engine, const struct perf_target *old, const struct engine_target *spec)
{
	const struct perf_engine *from = engine->from;

	return engine->engine.defers && !spec->before_start && old && old->scope == SCOPE_CGROUP &&
	       old->id != CGROUP_ROOT_ID && perf_target_nr_fds(old, &from->engine.env.plan->scope[SCOPE_CGROUP]) == 0;
}

/*
 * Opens all sets of the target. Sets of the preceding engine that are equal are taken over. Events of its other sets
 * are handed over to the sets that take their place (handover.h), and closed; where there is no room for both (of
 * files, of breakpoints, of a PMU with one user), they are read for the last time before their successors are
 * opened. A set that can't be opened is left out, and `why` says so. The target fails as a whole where the kernel
 * does not know the cgroup, or where files or memory are short and nothing was taken over. New sets may be deferred
 * where nothing is replaced.
 */
static int open_sets(struct perf_engine *engine, struct perf_target *target, const struct engine_target *spec,
		     const struct cpulist *cpus, struct totals_row *const *rows, uint64_t now, struct reason *why)
{
	struct perf_target *old = perf_target_find(engine->from, spec->scope, spec->id);
	size_t nr_inherited, nr;
	bool again;
	int r = root_share_sets(engine, target, old, spec, cpus, rows, now);

	if (r < 0)
		return reason_set(why, r, "out of memory");
	nr_inherited = inherit_sets(engine, target, cpus, rows);
	if (nr_inherited > 0 && may_defer(engine, old, spec)) {
		defer_missing(engine, target, why);
		end_old(engine, old, now, false);
		return 0;
	}
	again = engine->from || spec->before_start;
	r = open_missing(engine, target, spec, cpus, rows, why, !again);
	/* Before a hand-over, which starts groups; and where other engines may have the files that are short. */
	if (old || perf_open_may_recover(r))
		before_start(engine, spec, now);
	if (old) {
		handover_run(engine->handover, engine, target, old);
		end_old(engine, old, now, perf_open_may_recover(r));
	}
	if (r < 0 && again)
		r = open_missing(engine, target, spec, cpus, rows, why, true);
	if ((r == -ENOENT && spec->scope == SCOPE_CGROUP) || (engine_is_short(r) && nr_inherited == 0))
		return r;

	nr = start_sets(engine, target, spec, now);
	return nr ? 0 : r;
}

/* Tries the sets again that are not open; the others continue. */
static int perf_target_mend(struct perf_engine *engine, struct perf_target *target, const struct engine_target *spec,
			    const struct cpulist *cpus, struct totals_row *const *rows, uint64_t now,
			    struct reason *why)
{
	int r = open_missing(engine, target, spec, cpus, rows, why, true);

	(void)start_sets(engine, target, spec, now);
	return r == -ENOENT && spec->scope == SCOPE_CGROUP ? r : 0;
}

static int perf_add(struct engine *base, const struct engine_target *spec, const struct cpulist *cpus,
		    struct totals_row *const *rows, uint64_t now, struct reason *why)
{
	struct perf_engine *engine = perf_engine(base);
	struct perf_target *target = perf_target_find(engine, spec->scope, spec->id);
	int r;

	if (target)
		return perf_target_mend(engine, target, spec, cpus, rows, now, why);
	target = perf_target_new(engine, spec, rows, cpus->nr);
	if (!target)
		return reason_set(why, -ENOMEM, "out of memory");
	r = open_sets(engine, target, spec, cpus, rows, now, why);
	if (r < 0)
		perf_target_end(engine, target, now, false); /* sets that were taken over are read for the last time */
	return r;
}

static void perf_read(struct engine *base, uint64_t now)
{
	struct perf_engine *engine = perf_engine(base);
	struct perf_target *target;

	/* They count on meanwhile: what comes last has the most. So do parents, and CPUs, which were added first. */
	TAILQ_FOREACH_REVERSE(target, &engine->targets, perf_target_list, in_engine) {
		perf_target_update(engine, target, now, false);
		perf_target_decide_closed(engine, target);
	}
	root_decide(engine);
	perf_levels_compare(engine, now);
}

static void perf_each_stored(const struct engine *base, stored_visitor each, void *userdata)
{
	const struct perf_engine *engine = perf_engine_const(base);
	const struct perf_target *target;

	TAILQ_FOREACH(target, &engine->targets, in_engine)
		for (size_t i = 0; i < base->env.plan->scope[target->scope].nr_sets; i++) {
			const struct scope_plan *plan = &base->env.plan->scope[target->scope];
			const struct perf_groups *groups = target->sets[i];

			if (set_has_probe(plan, &plan->sets[i]))
				continue;
			for (size_t k = 0; groups && k < groups->nr; k++) {
				const struct perf_group *group = &groups->groups[k];

				for (size_t m = 0; !group->dead && m < groups->nr_events; m++)
					if (group->fds[m] >= 0)
						each(userdata, group->fds[m],
						     (struct stored_id){ STORED_PERF_EVENT, group->ids[m] });
			}
		}
}

/* --- making */

static void perf_destroy(struct engine *base)
{
	struct perf_engine *engine = perf_engine(base);

	while (!TAILQ_EMPTY(&engine->targets))
		perf_target_remove(engine, TAILQ_FIRST(&engine->targets));
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		free(engine->predecessors[scope]);
	}
	free(engine->cpus);
	free(engine->highest);
	cpulist_release(&engine->lost_since);
	handover_free(engine->handover);
	cpu_freqs_release(&engine->freqs);
	engine_release(base);
	free(engine->buffer);
	free(engine);
}

static int perf_create(struct engine **ret, const struct engine_env *env)
{
	struct perf_engine *engine = calloc(1, sizeof(*engine));
	size_t largest = 0;
	bool failed = false;

	if (!engine)
		return -ENOMEM;
	engine_init(&engine->engine, &engine_perf, env);
	TAILQ_INIT(&engine->targets);
	cpu_freqs_init(&engine->freqs, env->sysroot);
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		const struct scope_plan *plan = &env->plan->scope[scope];

		engine->predecessors[scope] = calloc(plan->nr_sets + 1, sizeof(size_t));
		failed |= !engine->predecessors[scope];
		for (size_t i = 0; i < plan->nr_sets; i++)
			if (set_nr_events(plan, &plan->sets[i]) > largest)
				largest = set_nr_events(plan, &plan->sets[i]);
	}
	engine->buffer = calloc(READING_WORDS(largest), sizeof(*engine->buffer));
	engine->cpus = calloc(env->plan->scope[SCOPE_CGROUP].nr_sets + 1, sizeof(*engine->cpus));
	engine->highest = calloc(env->plan->scope[SCOPE_CGROUP].nr_sets + 1, sizeof(*engine->highest));
	if (failed || !engine->buffer || !engine->cpus || !engine->highest) {
		perf_destroy(&engine->engine);
		return -ENOMEM;
	}
	*ret = &engine->engine;
	return 0;
}

const struct engine_ops engine_perf = {
	.name = "perf",
	.try_column = probe_column,
	.try_set = probe_set,
	.open_set = probe_open_set,
	.recovers = probe_recovers,
	.create = perf_create,
	.destroy = perf_destroy,
	.fds_needed = perf_fds_needed,
	.room = perf_room,
	.is_open = perf_is_open,
	.nr_whole = perf_nr_whole,
	.event_of = perf_event_of,
	.has = perf_has,
	.add = perf_add,
	.remove = perf_remove,
	.remove_set = perf_remove_set,
	.finish = perf_finish,
	.read = perf_read,
	.life = perf_life,
	.takeover = perf_takeover,
	.each_stored = perf_each_stored,
	.save = perf_save,
	.restore = perf_restore,
};
