/* SPDX-License-Identifier: MIT */

#include "counting/totals/reload.h"

#include "counting/totals/tick.h"

#include <errno.h>
#include <string.h>

/* Adds the times of each set of `from` to those of the set that has its group's times now. */
static void carry_times(struct totals_row *to, const struct totals_row *from, const size_t *set_successors,
			size_t nr_from)
{
	for (size_t i = 0; i < nr_from; i++) {
		struct totals_times *times;

		if (set_successors[i] == NO_SET)
			continue;
		times = &to->times[set_successors[i]];
		times->enabled += from->times[i].enabled;
		times->running += from->times[i].running;
		times->enabled_at_tick += from->times[i].enabled_at_tick;
		times->running_at_tick += from->times[i].running_at_tick;
		times->covered += from->times[i].covered;
		times->estimated |= from->times[i].estimated;
	}
}

/* From where to where. Everything that depends on the plans alone is worked out once, not for each row. */
struct carrying {
	struct totals *to;
	const struct totals *from;
	size_t *predecessors[_SCOPE_MAX];   /* one a column of the new plan: the equal one of the old, or NO_COLUMN */
	size_t *set_successors[_SCOPE_MAX]; /* one a set of the old plan: the new set that gets its times, or NO_SET */
	const struct totals_row *sought;    /* the last row of the old totals for which find_counted() has looked … */
	struct totals_row *counted; /* … and its result, which holds for the cgroup's other rows: they come next */
};

static void carrying_release(struct carrying *carrying)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		free(carrying->predecessors[scope]);
		free(carrying->set_successors[scope]);
	}
}

static bool begins_group(const struct scope_plan *plan, size_t set)
{
	return set == 0 || plan->sets[set - 1].group != plan->sets[set].group;
}

/* Times are exposed per group, so they are carried per group: into the first of its sets. It is looked for from a set
 * on, as groups mostly are in the order in which they were. */
static size_t first_set_of(const struct scope_plan *plan, const struct group *group, size_t from)
{
	for (size_t i = 0; i < plan->nr_sets; i++) {
		size_t set = (from + i) % plan->nr_sets;

		if (begins_group(plan, set) && strcmp(plan->sets[set].group->name, group->name) == 0)
			return set;
	}
	return NO_SET;
}

/* The sets of a group stand together, so that each group is looked for once. */
static int find_set_successors(struct carrying *carrying, enum scope scope)
{
	const struct scope_plan *to = &carrying->to->plan->scope[scope], *from = &carrying->from->plan->scope[scope];
	size_t *successors = calloc(from->nr_sets + 1, sizeof(*successors)), last = 0;

	carrying->set_successors[scope] = successors;
	if (!successors)
		return -ENOMEM;
	for (size_t i = 0; i < from->nr_sets; i++) {
		successors[i] = begins_group(from, i) ? first_set_of(to, from->sets[i].group, last) : successors[i - 1];
		last = successors[i] == NO_SET ? last : successors[i];
	}
	for (size_t i = 0; i < from->nr_sets; i++)
		successors[i] = set_with_times(from, i) == i ? successors[i] : NO_SET;
	return 0;
}

static int find_predecessors(struct carrying *carrying, enum scope scope)
{
	const struct scope_plan *to = &carrying->to->plan->scope[scope], *from = &carrying->from->plan->scope[scope];
	size_t *predecessors = calloc(to->nr_columns + 1, sizeof(*predecessors));

	carrying->predecessors[scope] = predecessors;
	if (!predecessors)
		return -ENOMEM;
	for (size_t i = 0; i < to->nr_columns; i++)
		predecessors[i] = column_find_predecessor(&to->columns[i], from);
	return 0;
}

/* Carries the time that a set has waited, and its gap, to the set that has its leader now. */
static void carry_waited(const struct carrying *carrying, struct totals_row *to, const struct totals_row *from)
{
	const struct scope_plan *plan = &carrying->to->plan->scope[from->scope];
	const struct scope_plan *from_plan = &carrying->from->plan->scope[from->scope];

	for (size_t i = 0; i < plan->nr_sets; i++) {
		size_t leader = carrying->predecessors[from->scope][plan->sets[i].columns[0]];
		size_t set = plan_set_of(from_plan, leader);

		if (set == NO_SET)
			continue;
		to->times[i].waited = from->times[set].waited;
		to->times[i].gap = from->times[set].gap;
		to->times[i].time_missing = from->times[set].time_missing;
	}
}

/* final: the target is not counted any more, and its measured cells stay so. */
static void carry_row(const struct carrying *carrying, struct totals_row *to, const struct totals_row *from, bool final)
{
	const struct scope_plan *plan = &carrying->to->plan->scope[from->scope];
	struct rate_zeros zeros = totals_zeros(from);

	totals_note_change(to);
	to->ticked = from->totals->last_tick;
	for (size_t i = 0; i < plan->nr_columns; i++) {
		size_t predecessor = carrying->predecessors[from->scope][i];
		uint64_t at_tick = to->rates[i].at_tick;

		if (predecessor == NO_COLUMN)
			continue;
		to->cells[i].total += from->cells[predecessor].total;
		to->rates[i] = from->rates[predecessor];
		to->rates[i].averages = totals_averages(from, predecessor, &zeros);
		to->rates[i].at_tick += at_tick;
		/* A column that is not counted any more is not measured, unless the target is gone: then it was. */
		if (plan->columns[i].set != NO_SET || final)
			to->cells[i].measured |= from->cells[predecessor].measured;
	}
	if (from->began <= to->began) {
		to->since = from->since;
		to->began = from->began;
	}
	if (!final)
		carry_waited(carrying, to, from);
	carry_times(to, from, carrying->set_successors[from->scope], carrying->from->plan->scope[from->scope].nr_sets);
}

/* Into the target's row, where the new totals have one. */
static bool carry_to_row(const struct carrying *carrying, const struct totals_row *old)
{
	struct totals_row *row = NULL;

	HASH_FIND(by_target, carrying->to->by_target, old->target, strlen(old->target), row);
	if (row)
		carry_row(carrying, row, old, row->gone_at != 0);
	return row;
}

/* Carries to a new row, which continues or lingers. beside: another row of the same cgroup, or NULL. */
static int carry_to_new_row(const struct carrying *carrying, const struct totals_row *old, uint64_t gone_at,
			    struct totals_row *beside)
{
	struct totals_row *row;
	int r = totals_take(carrying->to, old->scope, old->cpu, old->identity, &row);

	if (r < 0)
		return r;
	if (beside) {
		TAILQ_REMOVE(&carrying->to->rows[old->scope], row, in_totals);
		TAILQ_INSERT_AFTER(&carrying->to->rows[old->scope], beside, row, in_totals);
	}
	carry_row(carrying, row, old, true);
	row->suspended = old->suspended ||
			 (carrying->to->suspends && !old->gone_at && old->scope == SCOPE_CGROUP && !beside);
	if (row->suspended)
		totals_unmeasure(carrying->to, row);
	if (gone_at)
		totals_retire(carrying->to, row, old->identity, gone_at);
	return 0;
}

static struct totals_row *look_for_counted(const struct totals *totals, const struct totals_row *old,
					   const struct cpulist *cpus)
{
	for (size_t i = 0; i < cpus->nr; i++) {
		struct totals_row *row = totals_find(totals, cpus->cpu[i], old->identity);

		if (row && !row->gone_at)
			return row;
	}
	return NULL;
}

/* A row of the cgroup in the new totals, on any of the CPUs, that is counted; or NULL. Rows of one cgroup stand
 * together: all CPUs are looked at once a cgroup, and not once a row, which would be CPUs times CPUs. */
static struct totals_row *find_counted(struct carrying *carrying, const struct totals_row *old,
				       const struct cpulist *cpus)
{
	const struct totals_row *sought = carrying->sought;

	if (!sought || strcmp(sought->identity->label, old->identity->label) != 0)
		carrying->counted = look_for_counted(carrying->to, old, cpus);
	carrying->sought = old;
	return carrying->counted;
}

/* From a target that was counted: into its row, or else it is a CPU that is not counted for now, by itself or of a
 * cgroup, or a cgroup that is counted no more. */
static int carry_counted(struct carrying *carrying, const struct totals_row *old, bool per_cpu,
			 const struct cpulist *cpus, uint64_t now)
{
	struct totals_row *counted;

	if (carry_to_row(carrying, old))
		return 0;
	if (old->scope == SCOPE_CPU)
		return carry_to_new_row(carrying, old, 0, NULL);
	if ((old->cpu != ROW_ALL_CPUS) != per_cpu)
		return 0;
	counted = per_cpu ? find_counted(carrying, old, cpus) : NULL;
	if (counted)
		return carry_to_new_row(carrying, old, 0, counted);
	if (totals_row_is_empty(carrying->from, old))
		return 0;
	return carry_to_new_row(carrying, old, carrying->to->suspends ? 0 : now, NULL);
}

/* From a cgroup that is gone: into the row of another that has taken its label, or one that lingers on. */
static int carry_gone(const struct carrying *carrying, const struct totals_row *old, bool per_cpu)
{
	if (carry_to_row(carrying, old) || (old->cpu != ROW_ALL_CPUS) != per_cpu)
		return 0;
	return carry_to_new_row(carrying, old, old->gone_at, NULL);
}

void totals_suspend(struct totals *totals)
{
	totals->suspends = true;
}

int totals_carry(struct totals *to, const struct totals *from, bool per_cpu, const struct cpulist *cpus, uint64_t now)
{
	_cleanup_(carrying_release) struct carrying carrying = { .to = to, .from = from };
	const struct totals_row *old;
	int r = 0;

	for (int scope = 0; scope < _SCOPE_MAX && r == 0; scope++)
		r = find_predecessors(&carrying, (enum scope)scope);
	for (int scope = 0; scope < _SCOPE_MAX && r == 0; scope++)
		r = find_set_successors(&carrying, (enum scope)scope);
	/* In the order in which they went, and those that go now after them. */
	TAILQ_FOREACH(old, &from->gone, in_gone)
		if (r == 0)
			r = carry_gone(&carrying, old, per_cpu);
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		TAILQ_FOREACH(old, &from->rows[scope], in_totals)
			if (r == 0 && !old->gone_at)
				r = carry_counted(&carrying, old, per_cpu, cpus, now);
	for (size_t i = 0; i < to->plan->scope[SCOPE_CPU].nr_columns && r == 0; i++)
		if (carrying.predecessors[SCOPE_CPU][i] != NO_COLUMN)
			to->all_cpus[i] = from->all_cpus[carrying.predecessors[SCOPE_CPU][i]];
	to->suspends = false;
	to->last_tick = from->last_tick;
	to->interval = from->interval;
	to->gap |= from->gap;
	to->gap_at = from->gap_at;
	to->pushed_out += from->pushed_out;
	return r;
}
