/* SPDX-License-Identifier: MIT */

#include "counting/engine/perf/handover.h"

#include "base/util/clock.h"

#include <string.h>

/* How often a cut is tried where events happen all the time, … */
#define TRIES 4
/* … and where the daemon was held up in between, so that the old set was not read half way: a cut that took longer than
 * the shortest one by more than this part of it. */
#define TRIES_DISTURBED 32
#define DISTURBED_PART 4

/* A group that takes over some of an old set's events, and its counts before and after the old set was read. */
struct taker {
	struct perf_group *group;
	const struct set *set;
	struct baseline before, after;
	bool times; /* it takes over those that are exposed: of a group of that name, or of the first there is */
};

struct handover {
	size_t *successors[_SCOPE_MAX]; /* one a column of the old plan: the equal one of the new, or NO_COLUMN */
	struct taker *takers;		/* one a member of the predecessor's largest set */
	size_t nr;
	uint64_t *values; /* two a column of the successor's */
};

struct handover *handover_free(struct handover *handover)
{
	if (!handover)
		return NULL;
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		free(handover->successors[scope]);
	free(handover->takers);
	free(handover->values);
	free(handover);
	return NULL;
}

static bool find_successors(struct handover *handover, const struct perf_engine *to, enum scope scope)
{
	const struct scope_plan *plan = &to->engine.env.plan->scope[scope],
				*from = &to->from->engine.env.plan->scope[scope];
	size_t *successors = calloc(from->nr_columns + 1, sizeof(*successors));

	handover->successors[scope] = successors;
	for (size_t i = 0; successors && i < from->nr_columns; i++)
		successors[i] = NO_COLUMN;
	for (size_t i = 0; successors && i < from->nr_sets; i++) {
		const struct set *set = &from->sets[i];

		/* Sets that go over as they are need no search for each of their events. */
		if (perf_goes_over(to, scope, i))
			continue;
		for (size_t k = 0; k < set->nr; k++)
			successors[set->columns[k]] = column_find_equal(&from->columns[set->columns[k]], plan);
	}
	return successors;
}

struct handover *handover_new(const struct perf_engine *to)
{
	_cleanup_(handover_freep) struct handover *handover = calloc(1, sizeof(*handover));
	size_t largest = 0, columns = 0;

	if (!handover)
		return NULL;
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		const struct scope_plan *from = &to->from->engine.env.plan->scope[scope];

		for (size_t i = 0; i < from->nr_sets; i++)
			largest = from->sets[i].nr > largest ? from->sets[i].nr : largest;
		columns += to->engine.env.plan->scope[scope].nr_columns;
		if (!find_successors(handover, to, (enum scope)scope))
			return NULL;
	}
	handover->takers = calloc(largest + 1, sizeof(*handover->takers));
	handover->values = calloc(2 * columns + 1, sizeof(*handover->values));
	return handover->takers && handover->values ? steal_ptr(handover) : NULL;
}

/* The open group of that CPU, which is mostly at the same place as in the other set. */
static struct perf_group *find_open_group(struct perf_groups *groups, size_t hint, int cpu)
{
	if (!groups)
		return NULL;
	for (size_t i = 0; i < groups->nr; i++) {
		struct perf_group *group = &groups->groups[(hint + i) % groups->nr];

		if (group->cpu == cpu)
			return perf_group_is_open(group) ? group : NULL;
	}
	return NULL;
}

static bool is_all_or_nothing(const struct set *set)
{
	return set->pinned || set->exclusive;
}

static bool has_taker(const struct handover *handover, const struct perf_group *group)
{
	for (size_t i = 0; i < handover->nr; i++)
		if (handover->takers[i].group == group)
			return true;
	return false;
}

/* The groups that take over events of the old set on a CPU. */
static void find_takers(struct handover *handover, const struct scope_plan *plan, struct perf_target *to,
			const struct set *old, size_t hint, int cpu)
{
	const size_t *successors = handover->successors[to->scope];
	uint64_t *values = handover->values;

	handover->nr = 0;
	for (size_t i = 0; i < old->nr; i++) {
		size_t at = plan_set_of(plan, successors[old->columns[i]]);
		struct perf_group *group = at == NO_SET ? NULL : find_open_group(to->sets[at], hint, cpu);

		if (!group || is_all_or_nothing(&plan->sets[at]) || has_taker(handover, group))
			continue;
		handover->takers[handover->nr++] = (struct taker){
			.group = group,
			.set = &plan->sets[at],
			.times = !group->started || strcmp(plan->sets[at].group->name, old->group->name) == 0,
			.before.values = values,
			.after.values = values + plan->sets[at].nr,
		};
		values += 2 * plan->sets[at].nr;
	}
}

static bool taker_look(struct taker *taker, uint64_t *buffer, struct baseline *ret)
{
	return perf_group_look(taker->group, taker->set->nr + taker->group->clocked, buffer, ret);
}

/* Looks at all of the takers on either side of the old one's reading, at equal distances from it. */
static bool takers_cut(struct handover *handover, uint64_t *buffer, struct perf_group *old,
		       struct reading_context *context)
{
	bool known = true;

	for (size_t i = 0; i < handover->nr; i++)
		known &= taker_look(&handover->takers[i], buffer, &handover->takers[i].before);
	context->at = clock_monotonic_ns();
	(void)perf_group_update(old, context);
	for (size_t i = handover->nr; i-- > 0;)
		known &= taker_look(&handover->takers[i], buffer, &handover->takers[i].after);
	return known;
}

/* The member of the taker's set that the old one's event becomes; NO_COLUMN. */
static size_t find_member(const struct handover *handover, const struct scope_plan *plan, enum scope scope,
			  const struct taker *taker, size_t old_column)
{
	size_t column = handover->successors[scope][old_column];
	bool is_there = column != NO_COLUMN && plan->columns[column].set != NO_SET;

	return is_there && &plan->sets[plan->columns[column].set] == taker->set ? plan->columns[column].member :
										  NO_COLUMN;
}

static uint64_t half_way(uint64_t from, uint64_t to)
{
	return to > from ? from + (to - from) / 2 : from;
}

/* The taker counts the events that it takes over from the cut on, and the others since its start. True: no such
 * event has happened between its two readings. */
static bool begin_at_cut(const struct handover *handover, const struct scope_plan *plan, enum scope scope,
			 const struct taker *taker, const struct set *old)
{
	struct perf_group *group = taker->group;
	bool clean = true;

	for (size_t i = 0; i < old->nr; i++) {
		size_t member = find_member(handover, plan, scope, taker, old->columns[i]);

		if (member == NO_COLUMN)
			continue;
		clean &= taker->before.values[member] == taker->after.values[member];
		group->base.values[member] = half_way(taker->before.values[member], taker->after.values[member]);
	}
	group->base.enabled = half_way(taker->before.enabled, taker->after.enabled);
	group->base.running = half_way(taker->before.running, taker->after.running);
	group->base.clock = half_way(taker->before.clock, taker->after.clock);
	if (taker->times) {
		group->enabled = group->base.enabled;
		group->running = group->base.running;
		group->clock = group->base.clock;
	}
	return clean;
}

static bool begin_all_at_cut(const struct handover *handover, const struct scope_plan *plan, enum scope scope,
			     const struct set *old)
{
	bool clean = true;

	for (size_t i = 0; i < handover->nr; i++)
		clean &= begin_at_cut(handover, plan, scope, &handover->takers[i], old);
	return clean;
}

static void run_group(struct handover *handover, struct perf_engine *engine, enum scope scope, struct perf_group *old,
		      struct reading_context *context)
{
	const struct scope_plan *plan = &engine->engine.env.plan->scope[scope];
	uint64_t shortest = UINT64_MAX;

	for (size_t i = 0; i < handover->nr; i++)
		if (!handover->takers[i].group->started)
			perf_group_start(handover->takers[i].group, clock_monotonic_ns());
	for (int i = 1; i <= TRIES_DISTURBED; i++) {
		uint64_t start = clock_monotonic_ns(), took;

		if (!takers_cut(handover, engine->buffer, old, context))
			break;
		took = clock_monotonic_ns() - start;
		shortest = took < shortest ? took : shortest;
		if (begin_all_at_cut(handover, plan, scope, account_set(&context->own)) ||
		    (i >= TRIES && took <= shortest + shortest / DISTURBED_PART))
			break;
	}
	old->dead = true;
}

static void run_set(struct handover *handover, struct perf_engine *engine, struct perf_target *to,
		    struct perf_target *from, size_t at)
{
	const struct scope_plan *plan = &engine->engine.env.plan->scope[to->scope];
	struct perf_engine *old = engine->from;
	struct perf_groups *groups = from->sets[at];
	struct account also = {};
	struct reading_context context = {
		.own = {
			.plan = &old->engine.env.plan->scope[from->scope],
			.set = at,
			.health = &old->engine.env.health[from->scope][at],
			.idles = from->idles,
		},
		.last = true,
		.stats = &old->engine.stats,
		.freqs = &old->freqs,
		.doubtful = &old->doubtful,
		.lost = &old->lost_since,
		.buffer = old->buffer,
	};

	if (groups->shared || is_all_or_nothing(account_set(&context.own)))
		return;
	/* The last counts of a CPU's set are the root cgroup's too. */
	if (perf_target_find_fed(old, from, at, &also))
		context.also = also;
	for (size_t i = 0; i < groups->nr; i++) {
		struct perf_group *group = &groups->groups[i];

		if (!perf_group_is_open(group) || group->dead || !group->started)
			continue;
		find_takers(handover, plan, to, account_set(&context.own), i, group->cpu);
		if (handover->nr > 0)
			run_group(handover, engine, to->scope, group, &context);
	}
}

void handover_run(struct handover *handover, struct perf_engine *engine, struct perf_target *to,
		  struct perf_target *from)
{
	for (size_t i = 0; handover && i < engine->from->engine.env.plan->scope[from->scope].nr_sets; i++)
		if (from->sets[i])
			run_set(handover, engine, to, from, i);
}
