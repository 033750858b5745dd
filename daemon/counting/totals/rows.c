/* SPDX-License-Identifier: MIT */

#include "counting/totals/rows.h"

#include "base/util/clock.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Totals that were suspended for want of a mount wait so long, at least, for their cgroups to be opened again. */
#define SUSPENDED_NS 10000000000U

/* Of a row: its times and cells. */
static size_t counts_size(const struct scope_plan *plan)
{
	return plan->nr_sets * sizeof(struct totals_times) + plan->nr_columns * sizeof(struct totals_cell);
}

int totals_new(struct totals **ret, struct plan *plan, size_t max_gone)
{
	struct totals *totals = calloc(1, sizeof(*totals));

	if (!totals)
		return -ENOMEM;
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		TAILQ_INIT(&totals->rows[scope]);
		slab_init(&totals->counts[scope], counts_size(&plan->scope[scope]));
		slab_init(&totals->rates[scope], plan->scope[scope].nr_columns * sizeof(struct totals_rate));
	}
	totals->plan = plan_ref(plan);
	totals->max_gone = max_gone;
	TAILQ_INIT(&totals->changed);
	TAILQ_INIT(&totals->gone);
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		totals->counted[scope] = calloc(plan->scope[scope].nr_columns + 1, sizeof(uint64_t));
		if (!totals->counted[scope]) {
			totals_free(totals);
			return -ENOMEM;
		}
	}
	totals->all_cpus = calloc(plan->scope[SCOPE_CPU].nr_columns + 1, sizeof(*totals->all_cpus));
	if (!totals->all_cpus) {
		totals_free(totals);
		return -ENOMEM;
	}
	for (size_t i = 0; i < plan->scope[SCOPE_CPU].nr_columns; i++)
		rate_averages_forget(&totals->all_cpus[i].averages);
	*ret = totals;
	return 0;
}

struct totals *totals_free(struct totals *totals)
{
	if (!totals)
		return NULL;
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		while (!TAILQ_EMPTY(&totals->rows[scope]))
			totals_drop(totals, TAILQ_FIRST(&totals->rows[scope]));
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		free(totals->counted[scope]);
		slab_release(&totals->counts[scope]);
		slab_release(&totals->rates[scope]);
	}
	free(totals->all_cpus);
	plan_unref(totals->plan);
	free(totals);
	return NULL;
}

/* Of the rows that linger, is it the first of its cgroup? */
static bool is_first_gone(const struct totals_row *row)
{
	const struct totals_row *before = row ? TAILQ_PREV(row, totals_row_list, in_gone) : NULL;

	return row && !(before && before->identity->id == row->identity->id &&
			strcmp(before->identity->label, row->identity->label) == 0);
}

static void enter_gone(struct totals *totals, struct totals_row *row, uint64_t now)
{
	row->gone_at = now ? now : 1;
	totals->moves++;
	totals_note_change(row);
	TAILQ_INSERT_TAIL(&totals->gone, row, in_gone);
	totals->nr_gone += is_first_gone(row);
}

/* The row is there again, or no more. */
static void leave_gone(struct totals *totals, struct totals_row *row)
{
	const struct totals_row *next;

	if (!row->gone_at)
		return;
	next = TAILQ_NEXT(row, in_gone);
	totals->nr_gone -= is_first_gone(row) + is_first_gone(next);
	TAILQ_REMOVE(&totals->gone, row, in_gone);
	totals->nr_gone += is_first_gone(next);
	row->gone_at = 0;
}

static void row_free(struct totals *totals, struct totals_row *row)
{
	slab_give(&totals->counts[row->scope], row->times);
	slab_give(&totals->rates[row->scope], row->rates);
	free(row);
}

void totals_exclude(struct totals *totals, const struct cpulist *excluded)
{
	struct totals_row *row, *next;

	TAILQ_FOREACH(row, &totals->rows[SCOPE_CPU], in_totals)
		row->excluded = excluded && cpulist_has(excluded, row->cpu);
	for (row = TAILQ_FIRST(&totals->rows[SCOPE_CGROUP]); row; row = next) {
		next = TAILQ_NEXT(row, in_totals);
		if (row->cpu != ROW_ALL_CPUS && excluded && cpulist_has(excluded, row->cpu))
			totals_drop(totals, row);
	}
}

void totals_set_watch(struct totals_watch *watch, struct totals_row *row)
{
	if (watch->row)
		watch->row->watch = NULL;
	watch->row = row;
	if (row)
		row->watch = watch;
}

void totals_drop(struct totals *totals, struct totals_row *row)
{
	for (size_t i = 0; i < totals->plan->scope[row->scope].nr_columns; i++)
		totals->counted[row->scope][i] += row->cells[i].total - row->rates[i].at_tick;
	leave_gone(totals, row);
	HASH_DELETE(by_target, totals->by_target, row);
	TAILQ_REMOVE(&totals->rows[row->scope], row, in_totals);
	TAILQ_REMOVE(&totals->changed, row, in_changed);
	totals->nr_rows[row->scope]--;
	totals->moves++;
	if (row->watch)
		row->watch->row = NULL;
	cgroup_identity_unref(row->identity);
	row_free(totals, row);
}

/* The key of the hash: rows of CPUs and of cgroups can't meet, since a label begins with a slash. */
static char *target_key(int cpu, const struct cgroup_identity *identity)
{
	char *key;

	return asprintf(&key, "%d%s", cpu, identity ? identity->label : "") < 0 ? NULL : key;
}

static struct totals_row *look_for(const struct totals *totals, int cpu, const struct cgroup_identity *identity)
{
	struct totals_row *row;

	TAILQ_FOREACH(row, &totals->rows[identity ? SCOPE_CGROUP : SCOPE_CPU], in_totals)
		if (row->cpu == cpu && (!identity || strcmp(row->identity->label, identity->label) == 0))
			return row;
	return NULL;
}

struct totals_row *totals_find(const struct totals *totals, int cpu, const struct cgroup_identity *identity)
{
	_cleanup_(freep) char *key = target_key(cpu, identity);
	struct totals_row *row = NULL;

	/* Without memory for its key it is looked for: it could not be ended otherwise. */
	if (!key)
		return look_for(totals, cpu, identity);
	HASH_FIND(by_target, totals->by_target, key, strlen(key), row);
	return row;
}

static struct totals_row *row_new(struct totals *totals, enum scope scope, const char *key)
{
	const struct scope_plan *plan = &totals->plan->scope[scope];
	struct totals_row *row = calloc(1, sizeof(*row) + strlen(key) + 1);

	if (!row)
		return NULL;
	row->scope = scope;
	row->times = slab_take(&totals->counts[scope]);
	row->rates = slab_take(&totals->rates[scope]);
	if (!row->times || !row->rates) {
		row_free(totals, row);
		return NULL;
	}
	row->cells = (struct totals_cell *)(row->times + plan->nr_sets);
	for (size_t i = 0; i < plan->nr_sets; i++)
		row->times[i].share = NAN;
	for (size_t i = 0; i < plan->nr_columns; i++) {
		row->rates[i].rate = NAN;
		rate_averages_forget(&row->rates[i].averages);
	}
	strcpy(row->target, key);
	return row;
}

/* Columns that are not counted are not measured in the cgroup that takes the place of one that is gone. */
static void unmeasure_uncounted(const struct totals *totals, struct totals_row *row)
{
	const struct scope_plan *plan = &totals->plan->scope[row->scope];

	for (size_t i = 0; i < plan->nr_columns; i++)
		row->cells[i].measured &= plan->columns[i].set != NO_SET;
}

int totals_take(struct totals *totals, enum scope scope, int cpu, struct cgroup_identity *identity,
		struct totals_row **ret)
{
	_cleanup_(freep) char *key = target_key(cpu, identity);
	struct totals_row *row = NULL;

	if (!key)
		return -ENOMEM;
	HASH_FIND(by_target, totals->by_target, key, strlen(key), row);
	if (row) {
		struct cgroup_identity *old = row->identity;

		/* Beside those of the cgroup's rows that are new. */
		if (row->gone_at || row->suspended) {
			TAILQ_REMOVE(&totals->rows[scope], row, in_totals);
			TAILQ_INSERT_TAIL(&totals->rows[scope], row, in_totals);
			unmeasure_uncounted(totals, row);
		}
		leave_gone(totals, row);
		row->suspended = false;
		totals_note_change(row);
		totals->moves++;
		row->identity = identity ? cgroup_identity_ref(identity) : NULL;
		cgroup_identity_unref(old);
		*ret = row;
		return 0;
	}

	row = row_new(totals, scope, key);
	if (!row)
		return -ENOMEM;
	HASH_ADD(by_target, totals->by_target, target, strlen(key), row);
	if (!row->by_target.tbl) {
		row_free(totals, row);
		return -ENOMEM;
	}
	row->cpu = cpu;
	row->since = clock_realtime_ns();
	row->began = clock_monotonic_ns();
	row->identity = identity ? cgroup_identity_ref(identity) : NULL;
	/* A cgroup that was made in this interval had no counts before: what it counts covers the interval. */
	if (identity && totals->last_tick && identity->found_at > totals->last_tick)
		for (size_t i = 0; i < totals->plan->scope[scope].nr_columns; i++)
			row->rates[i].begun = true;
	row->totals = totals;
	row->changed = totals->ticks;
	row->ticked = totals->last_tick;
	TAILQ_INSERT_TAIL(&totals->rows[scope], row, in_totals);
	TAILQ_INSERT_TAIL(&totals->changed, row, in_changed);
	totals->nr_rows[scope]++;
	totals->moves++;
	*ret = row;
	return 0;
}

/* All rows of the cgroup that was gone first. */
static void push_out(struct totals *totals)
{
	size_t nr = totals->nr_gone;

	while (totals->nr_gone == nr)
		totals_drop(totals, TAILQ_FIRST(&totals->gone));
	totals->pushed_out++;
}

void totals_retire(struct totals *totals, struct totals_row *row, const struct cgroup_identity *identity, uint64_t now)
{
	if (row->gone_at || row->identity != identity)
		return;
	for (size_t i = 0; i < totals->plan->scope[row->scope].nr_sets; i++)
		row->times[i].waited = 0; /* nothing more is added */
	enter_gone(totals, row, now);
	while (totals->nr_gone > totals->max_gone)
		push_out(totals);
}

void totals_expire(struct totals *totals, uint64_t now, uint64_t linger)
{
	struct totals_row *row, *next;

	for (row = TAILQ_FIRST(&totals->gone); row && now >= row->gone_at && now - row->gone_at >= linger; row = next) {
		next = TAILQ_NEXT(row, in_gone);
		/* Its cgroup is being opened again. */
		if (!row->suspended || now - row->gone_at >= SUSPENDED_NS)
			totals_drop(totals, row);
	}
}

struct totals_row *totals_first_changed(const struct totals *totals, uint64_t ticks)
{
	struct totals_row *row, *first = NULL;

	TAILQ_FOREACH_REVERSE(row, &totals->changed, totals_row_list, in_changed) {
		if (row->changed < ticks)
			break;
		first = row;
	}
	return first;
}

bool totals_row_is_empty(const struct totals *totals, const struct totals_row *row)
{
	const struct scope_plan *plan = &totals->plan->scope[row->scope];

	for (size_t i = 0; i < plan->nr_columns; i++)
		if (row->cells[i].measured || row->cells[i].total)
			return false;
	/* The times of a group that was enabled and has never run are exposed too. */
	for (size_t i = 0; i < plan->nr_sets; i++)
		if (row->times[i].enabled)
			return false;
	return true;
}

/* --- adding */

void totals_add_times(struct totals_row *row, size_t set, uint64_t enabled, uint64_t running)
{
	if (enabled == 0 && running == 0)
		return;
	totals_note_change(row);
	row->times[set].enabled += enabled;
	row->times[set].running += running;
}

void totals_add_counts(struct totals_row *row, const struct scope_plan *plan, size_t set, const uint64_t *counts,
		       uint64_t covered)
{
	uint64_t any = covered;

	for (size_t i = 0; i < plan->sets[set].nr; i++) {
		row->cells[plan->sets[set].columns[i]].total += counts[i];
		any |= counts[i];
	}
	row->times[set].covered += covered;
	if (any)
		totals_note_change(row);
}

void totals_note_missing_time(struct totals_row *row, size_t set)
{
	row->times[set].time_missing = true;
}

bool totals_take_missing_time(const struct totals *totals, int cpu)
{
	struct totals_row *row = totals_find(totals, cpu, NULL);
	bool missing = false;

	for (size_t i = 0; row && i < totals->plan->scope[SCOPE_CPU].nr_sets; i++) {
		missing |= row->times[i].time_missing;
		row->times[i].time_missing = false;
	}
	return missing;
}

void totals_note_gap(struct totals *totals, int cpu)
{
	totals->gap = true;
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		struct totals_row *row;

		TAILQ_FOREACH(row, &totals->rows[scope], in_totals) {
			if (row->cpu != cpu && row->cpu != ROW_ALL_CPUS)
				continue;
			totals_note_change(row);
			for (size_t i = 0; i < totals->plan->scope[scope].nr_sets; i++)
				row->times[i].gap = true;
		}
	}
}

static void cell_set_measured(struct totals_row *row, size_t column, bool measured)
{
	if (row->cells[column].measured != measured)
		totals_note_change(row);
	row->cells[column].measured = measured;
}

static void set_measured(struct totals_row *row, const struct set *set, bool measured)
{
	for (size_t i = 0; i < set->nr; i++)
		cell_set_measured(row, set->columns[i], measured);
}

void totals_decide(struct totals_row *row, const struct scope_plan *plan, size_t at, unsigned observations)
{
	const struct set *set = &plan->sets[at];
	bool running = observations & 1U << OBSERVED_RUNNING, zero = observations & 1U << OBSERVED_NONE;
	bool pending = observations & 1U << OBSERVED_PENDING;

	if (observations & 1U << OBSERVED_LOST)
		set_measured(row, set, false);
	else if (running || (zero && !pending))
		set_measured(row, set, true);
	else if (pending)
		for (size_t i = 0; i < set->nr; i++)
			cell_set_measured(row, set->columns[i],
					  row->cells[set->columns[i]].measured && row->cells[set->columns[i]].total);
}

void totals_unmeasure_set(struct totals_row *row, const struct scope_plan *plan, size_t set)
{
	set_measured(row, &plan->sets[set], false);
}

void totals_unmeasure(const struct totals *totals, struct totals_row *row)
{
	for (size_t i = 0; i < totals->plan->scope[row->scope].nr_columns; i++)
		cell_set_measured(row, i, false);
}
