/* SPDX-License-Identifier: MIT */

#include "counting/session/engines.h"

#include "counting/engine/perf/perf.h"
#include "counting/session/planner.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* --- making */

const struct engine_ops *engines_by_name(const char *name)
{
	const struct engine_ops *const *engines = planner_all_engines();

	for (size_t i = 0; engines[i]; i++)
		if (strcmp(engines[i]->name, name) == 0)
			return engines[i];
	return NULL;
}

size_t engines_number(const struct engines *engines, const struct engine_ops *ops)
{
	size_t i = 0;

	while (i < engines->nr && engines->engines[i]->ops != ops)
		i++;
	return i;
}

struct engine *engines_find(const struct engines *engines, const struct engine_ops *ops)
{
	size_t i = engines_number(engines, ops);

	return i < engines->nr ? engines->engines[i] : NULL;
}

static int engines_create(struct engines *engines, const struct engine_ops *ops, const struct engine_env *env)
{
	size_t length = strlen(engines->name);
	int r;

	if (!ops || engines_find(engines, ops))
		return 0;
	assert(engines->nr < ENGINES_MAX);
	r = ops->create(&engines->engines[engines->nr], env);
	if (r < 0)
		return r;
	engines->nr++;
	(void)snprintf(engines->name + length, sizeof(engines->name) - length, "%s%s", length ? ", " : "", ops->name);
	return 0;
}

int engines_new(struct engines *ret, struct plan *plan, const struct engine_env *surroundings)
{
	struct engine_env env = *surroundings;
	int r = 0;

	env.plan = plan;
	env.engines = ret->engines;
	env.nr_engines = &ret->nr;
	ret->plan = plan_ref(plan);
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		const struct scope_plan *sp = &plan->scope[scope];

		ret->health[scope] = calloc(sp->nr_sets + 1, sizeof(*ret->health[scope]));
		ret->leaves[scope] = calloc(sp->nr_sets + 1, sizeof(*ret->leaves[scope]));
		ret->replaced[scope] = calloc(sp->nr_columns + 1, sizeof(*ret->replaced[scope]));
		if (!ret->health[scope] || !ret->leaves[scope] || !ret->replaced[scope])
			r = -ENOMEM;
		env.health[scope] = ret->health[scope];
	}
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < plan->scope[scope].nr_sets && r == 0; i++)
			r = engines_create(ret, plan->scope[scope].sets[i].engine, &env);
	/* Where nothing can be counted, there is still an engine to be named. */
	if (r == 0 && ret->nr == 0)
		r = engines_create(ret, &engine_perf, &env);
	if (r < 0)
		engines_release(ret);
	return r;
}

void engines_release(struct engines *engines)
{
	engines_takeover_end(engines);
	while (engines->nr > 0) {
		struct engine *engine = engines->engines[--engines->nr];

		engine->ops->destroy(engine);
	}
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		free(engines->health[scope]);
		free(engines->leaves[scope]);
		free(engines->replaced[scope]);
		engines->health[scope] = NULL;
		engines->leaves[scope] = NULL;
		engines->replaced[scope] = NULL;
	}
	engines->plan = plan_unref(engines->plan);
}

/* --- asking all */

size_t engines_fds_needed(const struct engines *engines, enum scope scope, uint64_t id)
{
	size_t nr = 0;

	for (size_t i = 0; i < engines->nr; i++)
		nr += engines->engines[i]->ops->fds_needed(engines->engines[i], scope, id);
	return nr;
}

bool engines_are_open(const struct engines *engines, enum scope scope, size_t set)
{
	const struct engine *engine = engines_find(engines, engines->plan->scope[scope].sets[set].engine);

	return engine && engine->ops->is_open(engine, scope, set);
}

bool engines_have(const struct engines *engines, enum scope scope, uint64_t id)
{
	for (size_t i = 0; i < engines->nr; i++)
		if (engines->engines[i]->ops->has(engines->engines[i], scope, id))
			return true;
	return false;
}

void engines_remove(struct engines *engines, enum scope scope, uint64_t id, uint64_t now)
{
	for (size_t i = 0; i < engines->nr; i++)
		engines->engines[i]->ops->remove(engines->engines[i], scope, id, now);
}

void engines_finish(struct engines *engines, uint64_t now)
{
	for (size_t i = 0; i < engines->nr; i++)
		engines->engines[i]->ops->finish(engines->engines[i], now);
}

static void read_those(struct engines *engines, bool credit, uint64_t now)
{
	for (size_t i = 0; i < engines->nr; i++)
		if (engines->engines[i]->ops->credits == credit)
			engines->engines[i]->ops->read(engines->engines[i], now);
}

/* CPUs come after the cgroups that are credited with their counts: these never have more. */
void engines_read(struct engines *engines, uint64_t now)
{
	read_those(engines, true, now);
	read_those(engines, false, now);
}

/* One that has seen the CPU go is right, and one that knows nothing says nothing. */
enum life engines_life(const struct engines *engines, int cpu)
{
	enum life life = LIFE_UNKNOWN;

	for (size_t i = 0; i < engines->nr; i++) {
		enum life found = engines->engines[i]->ops->life(engines->engines[i], cpu);

		if (found == LIFE_BEEN_OFFLINE)
			return found;
		life = found == LIFE_UNKNOWN ? life : found;
	}
	return life;
}

bool engines_switch_cost(const struct engines *engines, int cpu, struct switch_cost *ret)
{
	for (size_t i = 0; i < engines->nr; i++) {
		const struct engine *engine = engines->engines[i];

		if (engine->ops->switch_cost && engine->ops->switch_cost(engine, cpu, ret))
			return true;
	}
	return false;
}

void engines_note_lack(struct engines *engines, const struct reason *why)
{
	for (size_t i = 0; i < engines->plan->scope[SCOPE_CGROUP].nr_sets; i++)
		engines->health[SCOPE_CGROUP][i].lack = *why;
}

void engines_count_lacking(struct engines *engines, size_t nr)
{
	for (size_t i = 0; i < engines->plan->scope[SCOPE_CGROUP].nr_sets; i++) {
		const struct engine *engine = engines_find(engines, engines->plan->scope[SCOPE_CGROUP].sets[i].engine);
		struct set_health *health = &engines->health[SCOPE_CGROUP][i];
		size_t whole = engine && engine->ops->nr_whole ? engine->ops->nr_whole(engine, i) : nr;

		health->cgroups = nr;
		health->lacking = nr > whole ? nr - whole : 0;
		if (!health->lacking)
			health->lack.text[0] = '\0';
	}
}

void engines_each_stored(const struct engines *engines, stored_visitor each, void *userdata)
{
	for (size_t i = 0; i < engines->nr; i++)
		engines->engines[i]->ops->each_stored(engines->engines[i], each, userdata);
}

void engines_defer(struct engines *engines, bool defers)
{
	for (size_t i = 0; i < engines->nr; i++)
		engine_defer(engines->engines[i], defers);
}

struct engine_room engines_room(const struct engines *engines)
{
	struct engine_room sum = { .cgroups = SIZE_MAX };

	for (size_t i = 0; i < engines->nr; i++) {
		struct engine_room room = engines->engines[i]->ops->room(engines->engines[i]);

		sum.fds_of_cpus += room.fds_of_cpus;
		sum.fds_per_cgroup += room.fds_per_cgroup;
		sum.cgroups = room.cgroups < sum.cgroups ? room.cgroups : sum.cgroups;
	}
	return sum;
}

struct engine_stats engines_stats(const struct engines *engines)
{
	struct engine_stats sum = {};

	for (size_t i = 0; i < engines->nr; i++) {
		const struct engine_stats *stats = &engines->engines[i]->stats;

		sum.fds += stats->fds;
		sum.changes += stats->changes;
		sum.read_errors += stats->read_errors;
		sum.backwards += stats->backwards;
		for (int lie = 0; lie < _LIE_MAX; lie++)
			sum.lies[lie] += stats->lies[lie];
	}
	return sum;
}

/* --- adding */

/* An engine whose sets another one credits to cgroups counts their root. */
static bool engine_counts_scope(const struct engine *engine, enum scope scope, uint64_t id)
{
	bool root = scope == SCOPE_CGROUP && id == CGROUP_ROOT_ID;

	for (size_t i = 0; root && i < *engine->env.nr_engines; i++)
		if (engine->env.engines[i]->ops->credits)
			return true;
	for (size_t i = 0; i < engine->env.plan->scope[scope].nr_sets; i++)
		if (engine_owns(engine, scope, i))
			return true;
	return false;
}

void engines_decide_row(const struct engines *engines, enum scope scope, uint64_t id, struct totals_row *row)
{
	const struct scope_plan *plan = &engines->plan->scope[scope];

	if (!engines_have(engines, scope, id))
		return;
	for (size_t i = 0; i < engines->nr; i++) {
		const struct engine *engine = engines->engines[i];

		for (size_t k = 0; !engine->ops->has(engine, scope, id) && k < plan->nr_sets; k++)
			if (engine_owns(engine, scope, k))
				totals_unmeasure_set(row, plan, k);
	}
}

/* The target whose sets are about to start. */
struct starting {
	struct engines *engines;
	const struct engine_target *target;
};

/* Has the predecessors of other kinds read for the last time what the engine is going to count. */
static void end_replaced(void *userdata, const struct engine *engine, uint64_t now)
{
	const struct starting *starting = userdata;
	const struct engines *engines = starting->engines;
	enum scope scope = starting->target->scope;
	const struct scope_plan *plan = &engines->plan->scope[scope];

	for (size_t i = 0; i < plan->nr_columns; i++) {
		size_t set = engines->replaced[scope][i];
		struct engine *old;

		if (set == NO_SET || plan->columns[i].set == NO_SET ||
		    !engine_owns(engine, scope, plan->columns[i].set))
			continue;
		old = engines_find(engines->from, engines->from->plan->scope[scope].sets[set].engine);
		if (old)
			old->ops->remove_set(old, scope, starting->target->id, set, now);
	}
}

int engines_add(struct engines *engines, const struct engine_target *asked, const struct cpulist *cpus,
		struct totals_row *const *rows, uint64_t now, struct reason *why)
{
	struct starting starting = { .engines = engines, .target = asked };
	struct engine_target target = *asked;
	bool had = engines_have(engines, asked->scope, asked->id), open = false;
	struct reason reason = {};
	int error = 0;

	had = had || (engines->from && engines_have(engines->from, asked->scope, asked->id));
	if (engines->moves) {
		target.before_start = end_replaced;
		target.userdata = &starting;
	}
	for (size_t i = 0; i < engines->nr; i++) {
		struct engine *engine = engines->engines[i];
		int r;

		if (!engine_counts_scope(engine, asked->scope, asked->id))
			continue;
		why->text[0] = '\0';
		r = engine->ops->add(engine, &target, cpus, rows, now, why);
		if (why->text[0])
			reason = *why;
		open |= r == 0;
		error = r < 0 ? r : error;
		/* A target that continues, with all that the engines before this one have taken over, is not new. */
		if (engine_is_short(r) && !had) {
			engines_remove(engines, asked->scope, asked->id, now);
			open = false;
			break;
		}
	}
	for (size_t i = 0; open && i < cpus->nr; i++)
		engines_decide_row(engines, asked->scope, asked->id, rows[i]);
	*why = reason;
	return open ? 0 : error;
}

/* --- taking over */

/* The set of `from` that has counted what the column counts; or NO_SET. */
static size_t find_counted_in(const struct scope_plan *plan, size_t column, const struct scope_plan *from)
{
	size_t old = NO_COLUMN;

	if (plan->columns[column].set != NO_SET)
		old = column_find_predecessor(&plan->columns[column], from);
	return plan_set_of(from, old);
}

/* The same, by another kind of engine. */
static size_t find_replaced(const struct scope_plan *plan, size_t column, const struct scope_plan *from)
{
	size_t set = find_counted_in(plan, column, from);

	return set != NO_SET && from->sets[set].engine != plan->sets[plan->columns[column].set].engine ? set : NO_SET;
}

/* The same, by the same kind. */
static size_t find_continued(const struct scope_plan *plan, size_t column, const struct scope_plan *from)
{
	size_t set = find_counted_in(plan, column, from);

	return set != NO_SET && from->sets[set].engine == plan->sets[plan->columns[column].set].engine ? set : NO_SET;
}

static void engines_find_moves(struct engines *engines, enum scope scope)
{
	const struct scope_plan *plan = &engines->plan->scope[scope];
	struct engines *from = engines->from;

	memset(from->leaves[scope], 0, from->plan->scope[scope].nr_sets * sizeof(*from->leaves[scope]));
	for (size_t i = 0; i < plan->nr_columns; i++) {
		size_t set = find_replaced(plan, i, &from->plan->scope[scope]);

		engines->replaced[scope][i] = set;
		if (set == NO_SET)
			continue;
		from->leaves[scope][set] = true;
		engines->moves = true;
	}
	/* A set that leaves in part only ends where the part that stays is taken over. */
	for (size_t i = 0; i < plan->nr_columns; i++) {
		size_t set = find_continued(plan, i, &from->plan->scope[scope]);

		if (set != NO_SET)
			from->leaves[scope][set] = false;
	}
}

void engines_takeover_begin(struct engines *engines, struct engines *from, const struct cpulist *lost)
{
	engines->from = from;
	/* Engines from an image have none. */
	for (size_t i = 0; i < from->nr; i++)
		from->engines[i]->env.closer = engines->engines[0]->env.closer;
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		engines_find_moves(engines, (enum scope)scope);
	for (size_t i = 0; i < engines->nr; i++) {
		struct engine *engine = engines->engines[i], *old = engines_find(from, engine->ops);

		if (!old)
			continue;
		engines->takeovers[i] = (struct engine_takeover){ .from = old, .lost = lost };
		for (int scope = 0; scope < _SCOPE_MAX; scope++)
			engines->takeovers[i].leaves[scope] = from->leaves[scope];
		engine->ops->takeover(engine, &engines->takeovers[i]);
	}
}

void engines_takeover_end(struct engines *engines)
{
	for (size_t i = 0; i < engines->nr && engines->from; i++)
		engines->engines[i]->ops->takeover(engines->engines[i], NULL);
	engines->from = NULL;
	engines->moves = false;
}
