/* SPDX-License-Identifier: MIT */

#include "counting/snapshot/snapshot.h"

#include "base/cgroup/descendants.h"
#include "base/util/clock.h"
#include "counting/totals/tick.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

static void table_release(struct snapshot_table *table)
{
	for (size_t i = 0; table->columns && i < table->nr_columns; i++)
		free(table->columns[i].why);
	free(table->columns);
	for (size_t i = 0; table->rows && i < table->nr_rows; i++)
		cgroup_identity_unref(table->rows[i].identity);
	free(table->rows);
	free(table->cells);
	free(table->sums);
	free(table->times);
}

struct snapshot *snapshot_ref(struct snapshot *snapshot)
{
	snapshot->refs++;
	return snapshot;
}

struct snapshot *snapshot_unref(struct snapshot *snapshot)
{
	if (!snapshot || --snapshot->refs)
		return NULL;
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		table_release(&snapshot->table[scope]);
	for (size_t i = 0; snapshot->cgroups && i < snapshot->nr_cgroups; i++) {
		cgroup_identity_unref(snapshot->cgroups[i].identity);
		free(snapshot->cgroups[i].why);
	}
	free(snapshot->cgroups);
	free(snapshot->switches);
	for (size_t i = 0; i < snapshot->nr_rules; i++) {
		free(snapshot->rules[i].name);
		free(snapshot->rules[i].problem);
	}
	free(snapshot->rules);
	free(snapshot->tree_problem);
	free(snapshot->unlisted);
	plan_unref(snapshot->plan);
	free(snapshot);
	return NULL;
}

static int copy_columns(struct snapshot_table *table, const struct session *session, enum scope scope)
{
	const struct scope_plan *plan = &session_plan(session)->scope[scope];

	table->columns = calloc(plan->nr_columns + 1, sizeof(*table->columns));
	if (!table->columns)
		return -ENOMEM;
	table->nr_columns = plan_nr_shown(plan);
	table->nr_sets = plan->nr_sets;
	for (size_t i = 0; i < table->nr_columns; i++) {
		struct snapshot_column *column = &table->columns[i];
		const char *why;

		column->column = &plan->columns[i];
		column->state = session_column_state(session, scope, i, &why);
		column->partial = session_column_is_partial(session, scope, i);
		if (!why)
			continue;
		column->why = strdup(why);
		if (!column->why)
			return -ENOMEM;
	}
	return 0;
}

static void copy_averages(struct snapshot_cell *cell, const struct rate_averages *averages)
{
	memcpy(cell->average, averages->average, sizeof(cell->average));
	cell->highest = rate_averages_highest(averages);
}

static void copy_row(struct snapshot_table *table, const struct totals_row *row, const struct cpu_topology *topology)
{
	size_t at = table->nr_rows++;
	struct snapshot_cell *cells = table->cells + at * table->nr_columns;
	struct snapshot_times *times = table->times + at * table->nr_sets;
	struct rate_zeros zeros = totals_zeros(row);

	table->rows[at] = (struct snapshot_row){
		.cpu = row->cpu,
		.place = cpu_topology_find(topology, row->cpu),
		.identity = row->identity ? cgroup_identity_ref(row->identity) : NULL,
		.names = row->identity ? row->identity->names : NULL,
		.gone = row->gone_at != 0,
		.since = row->since,
		.began = row->began,
	};
	for (size_t i = 0; i < table->nr_columns; i++) {
		const struct rate_averages averages = totals_averages(row, i, &zeros);

		cells[i] = (struct snapshot_cell){
			.total = row->cells[i].total,
			.rate = row->rates[i].rate,
			.measured = row->cells[i].measured && table->columns[i].state != EVENT_STALLED,
		};
		copy_averages(&cells[i], &averages);
	}
	for (size_t i = 0; i < table->nr_sets; i++)
		times[i] = (struct snapshot_times){
			.enabled = row->times[i].enabled,
			.running = row->times[i].running,
			.share = row->times[i].share,
			.estimated = row->times[i].estimated,
		};
}

/* The totals of an excluded CPU are shown only as a part of the sum of all CPUs, which must not decrease. */
static int copy_rows(struct snapshot_table *table, const struct totals *totals, enum scope scope,
		     const struct cpu_topology *topology, bool aggregate)
{
	size_t nr = totals->nr_rows[scope];
	const struct totals_row *row;

	table->rows = calloc(nr + 1, sizeof(*table->rows));
	table->cells = calloc(nr * table->nr_columns + 1, sizeof(*table->cells));
	table->times = calloc(nr * table->nr_sets + 1, sizeof(*table->times));
	if (!table->rows || !table->cells || !table->times)
		return -ENOMEM;
	TAILQ_FOREACH(row, &totals->rows[scope], in_totals)
		if (!row->suspended && (!row->excluded || aggregate))
			copy_row(table, row, topology);
	return 0;
}

static int count_descendants(struct snapshot_table *cgroups)
{
	_cleanup_(freep) const char **labels = calloc(cgroups->nr_rows + 1, sizeof(*labels));
	_cleanup_(freep) size_t *numbers = calloc(cgroups->nr_rows + 1, sizeof(*numbers));

	if (!labels || !numbers)
		return -ENOMEM;
	for (size_t i = 0; i < cgroups->nr_rows; i++)
		labels[i] = cgroups->rows[i].identity->label;
	if (descendants_count(labels, cgroups->nr_rows, numbers) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < cgroups->nr_rows; i++)
		cgroups->rows[i].descendants = numbers[i];
	return 0;
}

static int copy_sums(struct snapshot_table *table, const struct totals *totals)
{
	table->sums = calloc(table->nr_columns + 1, sizeof(*table->sums));
	if (!table->sums)
		return -ENOMEM;
	for (size_t i = 0; i < table->nr_columns; i++)
		copy_averages(&table->sums[i], &totals->all_cpus[i].averages);
	return 0;
}

/* NULL stays NULL. */
static int copy_text(char **ret, const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	if (text && !copy)
		return -ENOMEM;
	*ret = copy;
	return 0;
}

static int copy_cgroups(struct snapshot *snapshot, const struct cgroup_tree *tree)
{
	const struct cgroup *cgroup;

	if (!tree)
		return 0;
	if (copy_text(&snapshot->tree_problem, cgroup_tree_problem(tree)) < 0 ||
	    copy_text(&snapshot->unlisted, cgroup_tree_unlisted(tree)) < 0)
		return -ENOMEM;
	snapshot->cgroups = calloc(cgroup_tree_size(tree) + 1, sizeof(*snapshot->cgroups));
	if (!snapshot->cgroups)
		return -ENOMEM;
	TAILQ_FOREACH(cgroup, cgroup_tree_all(tree), in_all) {
		struct snapshot_cgroup *copy = &snapshot->cgroups[snapshot->nr_cgroups++];

		copy->identity = cgroup_identity_ref(cgroup->identity);
		copy->names = cgroup->identity->names;
		copy->status = (enum cgroup_status)cgroup->status;
		if (!cgroup->why)
			continue;
		copy->why = strdup(cgroup->why);
		if (!copy->why)
			return -ENOMEM;
	}
	return 0;
}

static void add_switches(struct self_stats *self, const struct switch_cost *cost)
{
	self->switches += cost->switches;
	self->switch_ns += cost->ns;
	self->switches_hidden += cost->hidden;
	self->switches_passed += cost->passed;
	self->switches_unplaced += cost->unplaced;
	self->credit_errors += cost->errors;
}

/* Programs in the kernel count on meanwhile: each figure is read once, and the sums are of what was read. */
static int copy_switches(struct snapshot *snapshot, const struct session *session)
{
	const struct cpulist *cpus = session_cpus(session);

	snapshot->switches = calloc(cpus->nr + 1, sizeof(*snapshot->switches));
	if (!snapshot->switches)
		return -ENOMEM;
	for (size_t i = 0; i < cpus->nr; i++) {
		struct switch_cost *cost = &snapshot->switches[snapshot->nr_switches];

		if (!session_switch_cost(session, cpus->cpu[i], cost))
			continue;
		add_switches(&snapshot->self, cost);
		snapshot->nr_switches++;
	}
	return 0;
}

/* Converts a past time of CLOCK_MONOTONIC to the wall clock. */
static uint64_t realtime_of(uint64_t taken)
{
	uint64_t now = clock_monotonic_ns(), age = now > taken ? now - taken : 0;

	return clock_realtime_ns() - age;
}

int snapshot_new(struct snapshot **ret, const struct session *session, const struct cgroup_tree *tree,
		 const struct cpu_topology *topology, const struct snapshot_options *options,
		 const struct self_stats *self)
{
	_cleanup_(snapshot_unrefp) struct snapshot *snapshot = calloc(1, sizeof(*snapshot));

	if (!snapshot)
		return -ENOMEM;
	snapshot->refs = 1;
	snapshot->taken = session_stats(session).last_read;
	snapshot->realtime = realtime_of(snapshot->taken);
	snapshot->plan = plan_ref(session_plan(session));
	snapshot->options = *options;
	snapshot->self = *self;

	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		if (copy_columns(&snapshot->table[scope], session, (enum scope)scope) < 0 ||
		    copy_rows(&snapshot->table[scope], session_totals(session), (enum scope)scope, topology,
			      options->aggregate) < 0)
			return -ENOMEM;
	if (copy_sums(&snapshot->table[SCOPE_CPU], session_totals(session)) < 0 ||
	    count_descendants(&snapshot->table[SCOPE_CGROUP]) < 0 || copy_cgroups(snapshot, tree) < 0 ||
	    copy_switches(snapshot, session) < 0)
		return -ENOMEM;

	*ret = steal_ptr(snapshot);
	return 0;
}

static int compare_cpus(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

void snapshot_set_busy(struct snapshot *snapshot, const struct cpulist *cpus, const uint64_t *busy)
{
	struct snapshot_table *table = &snapshot->table[SCOPE_CPU];

	assert(snapshot->refs == 1);
	for (size_t i = 0; i < table->nr_rows; i++) {
		const int *cpu = bsearch(&table->rows[i].cpu, cpus->cpu, cpus->nr, sizeof(*cpu), compare_cpus);

		if (cpu)
			table->rows[i].busy = busy[cpu - cpus->cpu];
	}
}

int snapshot_add_rule(struct snapshot *snapshot, const struct capture_rule_info *rule)
{
	struct snapshot_rule *rules = reallocarray(snapshot->rules, snapshot->nr_rules + 1, sizeof(*rules)), *added;

	assert(snapshot->refs == 1);
	if (!rules)
		return -ENOMEM;
	snapshot->rules = rules;
	added = &rules[snapshot->nr_rules];
	*added = (struct snapshot_rule){
		.name = strdup(rule->name),
		.problem = strdup(rule->problem),
		.captures = rule->captures,
		.passed_over = rule->passed_over,
	};
	if (!added->name || !added->problem) {
		free(added->name);
		free(added->problem);
		return -ENOMEM;
	}
	snapshot->nr_rules++;
	return 0;
}
