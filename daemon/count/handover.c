/* SPDX-License-Identifier: MIT */

#include "count/handover.h"

#include <string.h>
#include <time.h>

/* How often a cut is tried where events happen all the time, … */
#define TRIES 4
/* … and where the daemon lost its CPU in the midst of it, so that half way is not when the old set was read. */
#define TRIES_DISTURBED 16
#define DISTURBED_NS 50000U

/* A reader that takes over some of an old set's events, and what it has counted before and after the old one was
 * read. */
struct taker {
	struct reader *reader;
	const struct set *set;
	struct baseline before, after;
	bool times; /* it takes over those that are exposed: of a group of that name, or of the first there is */
};

struct handover {
	size_t *heirs[_SCOPE_MAX]; /* one a column of the predecessor: the equal one of the successor, or NO_COLUMN */
	struct taker *takers;	   /* one a member of the predecessor's largest set */
	size_t nr;
	uint64_t *values; /* two a column of the successor's */
};

struct handover *handover_free(struct handover *handover)
{
	if (!handover)
		return NULL;
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		free(handover->heirs[scope]);
	free(handover->takers);
	free(handover->values);
	free(handover);
	return NULL;
}

/* Sets that go over as they are need no search for each of their events. */
static bool goes_over(const struct perf_engine *to, enum scope scope, size_t set)
{
	for (size_t i = 0; i < to->engine.plan->scope[scope].nr_sets; i++)
		if (to->heirs[scope][i] == set)
			return true;
	return false;
}

static bool find_heirs(struct handover *handover, const struct perf_engine *to, enum scope scope)
{
	const struct scope_plan *plan = &to->engine.plan->scope[scope], *from = &to->from->engine.plan->scope[scope];
	size_t *heirs = calloc(from->nr_columns + 1, sizeof(*heirs));

	handover->heirs[scope] = heirs;
	for (size_t i = 0; heirs && i < from->nr_columns; i++)
		heirs[i] = NO_COLUMN;
	for (size_t i = 0; heirs && i < from->nr_sets; i++) {
		const struct set *set = &from->sets[i];

		if (goes_over(to, scope, i))
			continue;
		for (size_t k = 0; k < set->nr; k++)
			heirs[set->columns[k]] = column_find_equal(&from->columns[set->columns[k]], plan);
	}
	return heirs;
}

struct handover *handover_new(const struct perf_engine *to)
{
	_cleanup_(handover_freep) struct handover *handover = calloc(1, sizeof(*handover));
	size_t largest = 0, columns = 0;

	if (!handover)
		return NULL;
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		const struct scope_plan *from = &to->from->engine.plan->scope[scope];

		for (size_t i = 0; i < from->nr_sets; i++)
			largest = from->sets[i].nr > largest ? from->sets[i].nr : largest;
		columns += to->engine.plan->scope[scope].nr_columns;
		if (!find_heirs(handover, to, (enum scope)scope))
			return NULL;
	}
	handover->takers = calloc(largest + 1, sizeof(*handover->takers));
	handover->values = calloc(2 * columns + 1, sizeof(*handover->values));
	return handover->takers && handover->values ? steal_ptr(handover) : NULL;
}

static uint64_t now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

/* The open reader of that CPU, which is mostly at the same place as in the other set. */
static struct reader *find_reader(struct set_readers *readers, size_t hint, int cpu)
{
	if (!readers)
		return NULL;
	for (size_t i = 0; i < readers->nr; i++) {
		struct reader *reader = &readers->readers[(hint + i) % readers->nr];

		if (reader->cpu == cpu)
			return reader_is_open(reader) ? reader : NULL;
	}
	return NULL;
}

static bool is_all_or_nothing(const struct set *set)
{
	return set->pinned || set->exclusive;
}

static bool has_taker(const struct handover *handover, const struct reader *reader)
{
	for (size_t i = 0; i < handover->nr; i++)
		if (handover->takers[i].reader == reader)
			return true;
	return false;
}

/* The readers that take over events of the old set on a CPU. */
static void find_takers(struct handover *handover, const struct scope_plan *plan, struct station *to,
			const struct set *old, size_t hint, int cpu)
{
	const size_t *heirs = handover->heirs[to->scope];
	uint64_t *values = handover->values;

	handover->nr = 0;
	for (size_t i = 0; i < old->nr; i++) {
		size_t column = heirs[old->columns[i]], at = column == NO_COLUMN ? NO_SET : plan->columns[column].set;
		struct reader *reader = at == NO_SET ? NULL : find_reader(to->sets[at], hint, cpu);

		if (!reader || is_all_or_nothing(&plan->sets[at]) || has_taker(handover, reader))
			continue;
		handover->takers[handover->nr++] = (struct taker){
			.reader = reader,
			.set = &plan->sets[at],
			.times = !reader->started || strcmp(plan->sets[at].group->name, old->group->name) == 0,
			.before.values = values,
			.after.values = values + plan->sets[at].nr,
		};
		values += 2 * plan->sets[at].nr;
	}
}

static bool look(struct taker *taker, uint64_t *buffer, struct baseline *ret)
{
	return reader_look(taker->reader, taker->set->nr, buffer, ret);
}

/* Looks at all of the takers on either side of the old one's reading, at equal distances from it. */
static bool cut(struct handover *handover, uint64_t *buffer, struct reader *old, struct reading_context *context)
{
	bool known = true;

	for (size_t i = 0; i < handover->nr; i++)
		known &= look(&handover->takers[i], buffer, &handover->takers[i].before);
	context->at = now();
	(void)reader_update(old, context);
	for (size_t i = handover->nr; i-- > 0;)
		known &= look(&handover->takers[i], buffer, &handover->takers[i].after);
	return known;
}

/* The member of the taker's set that the old one's event becomes; NO_COLUMN. */
static size_t find_member(const struct handover *handover, const struct scope_plan *plan, enum scope scope,
			  const struct taker *taker, size_t old_column)
{
	size_t column = handover->heirs[scope][old_column];
	bool is_there = column != NO_COLUMN && plan->columns[column].set != NO_SET;

	return is_there && &plan->sets[plan->columns[column].set] == taker->set ? plan->columns[column].member :
										  NO_COLUMN;
}

static uint64_t half_way(uint64_t from, uint64_t to)
{
	return to > from ? from + (to - from) / 2 : from;
}

/* The taker counts what it takes from the old set from the cut on, and the rest since it was started. True where
 * nothing has happened between its readings. */
static bool begin_at_cut(const struct handover *handover, const struct scope_plan *plan, enum scope scope,
			 const struct taker *taker, const struct set *old)
{
	struct reader *reader = taker->reader;
	bool clean = true;

	for (size_t i = 0; i < old->nr; i++) {
		size_t member = find_member(handover, plan, scope, taker, old->columns[i]);

		if (member == NO_COLUMN)
			continue;
		clean &= taker->before.values[member] == taker->after.values[member];
		reader->base.values[member] = half_way(taker->before.values[member], taker->after.values[member]);
	}
	reader->base.enabled = half_way(taker->before.enabled, taker->after.enabled);
	reader->base.running = half_way(taker->before.running, taker->after.running);
	if (taker->times) {
		reader->enabled = reader->base.enabled;
		reader->running = reader->base.running;
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

static void run_reader(struct handover *handover, struct perf_engine *engine, enum scope scope, struct reader *old,
		       struct reading_context *context)
{
	const struct scope_plan *plan = &engine->engine.plan->scope[scope];

	for (size_t i = 0; i < handover->nr; i++)
		if (!handover->takers[i].reader->started)
			reader_start(handover->takers[i].reader, now());
	for (int i = 0, tries = TRIES; i < tries; i++) {
		uint64_t start = now();

		if (!cut(handover, engine->buffer, old, context))
			break;
		tries = now() - start > DISTURBED_NS ? TRIES_DISTURBED : TRIES;
		if (begin_all_at_cut(handover, plan, scope, context->set))
			break;
	}
	old->dead = true;
}

static void run_set(struct handover *handover, struct perf_engine *engine, struct station *to, struct station *from,
		    size_t at)
{
	const struct scope_plan *plan = &engine->engine.plan->scope[to->scope];
	struct perf_engine *old = engine->from;
	struct set_readers *readers = from->sets[at];
	struct sink also = {};
	struct reading_context context = {
		.set = &old->engine.plan->scope[from->scope].sets[at],
		.set_at = at,
		.last = true,
		.finding = &old->engine.findings[from->scope][at],
		.stats = &old->engine.stats,
		.lost = &old->lost_since,
		.buffer = old->buffer,
	};

	if (readers->shared || is_all_or_nothing(context.set))
		return;
	/* What a CPU's set counts up to its end is the root cgroup's as well. */
	if (root_find_fed(old, from, at, &also))
		context.also = also;
	for (size_t i = 0; i < readers->nr; i++) {
		struct reader *reader = &readers->readers[i];

		if (!reader_is_open(reader) || reader->dead || !reader->started)
			continue;
		find_takers(handover, plan, to, context.set, i, reader->cpu);
		if (handover->nr > 0)
			run_reader(handover, engine, to->scope, reader, &context);
	}
}

void handover_run(struct handover *handover, struct perf_engine *engine, struct station *to, struct station *from)
{
	for (size_t i = 0; handover && i < engine->from->engine.plan->scope[from->scope].nr_sets; i++)
		if (from->sets[i])
			run_set(handover, engine, to, from, i);
}
