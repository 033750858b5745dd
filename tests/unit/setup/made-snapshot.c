/* SPDX-License-Identifier: MIT */

#include "setup/made-snapshot.h"

#include "counting/plan/build.h"
#include "counting/totals/tick.h"

#include "base/util/text.h"

#include <math.h>
#include <string.h>

static const struct snapshot_cell no_cell = { .rate = NAN, .average = { NAN, NAN }, .highest = NAN };

static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

static void *grow(void *array, size_t nr, size_t size)
{
	char *grown = must(reallocarray(array, nr + 1, size));

	memset(grown + nr * size, 0, size);
	return grown;
}

static char *copy(const char *text)
{
	return text ? must(strdup(text)) : NULL;
}

/* --- events, groups, columns */

static struct group *group_of(struct group_list *list, const char *name)
{
	for (size_t i = 0; i < list->nr; i++)
		if (strcmp(list->groups[i].name, name) == 0)
			return &list->groups[i];
	return NULL;
}

static void add_event(struct group_list *list, const struct made_event *made)
{
	struct group *group = group_of(list, made->group);
	struct event *event;

	if (!group) {
		list->groups = grow(list->groups, list->nr, sizeof(*list->groups));
		group = &list->groups[list->nr++];
		group->name = copy(made->group);
	}
	group->events.events = grow(group->events.events, group->events.nr, sizeof(*event));
	event = &group->events.events[group->events.nr++];
	*event = (struct event){
		.text = copy(made->text),
		.metric = made->metric ? copy(made->metric) : must(metric_name(made->text)),
		.pmu = copy(made->pmu ? made->pmu : "cpu"),
		.by_pmu = made->by_pmu,
		.attr = { .size = sizeof(event->attr), .type = made->type, .config = made->config },
		.scale = made->scale != 0 ? made->scale : 1,
		.unit = made->unit,
		.software = made->type == PERF_TYPE_SOFTWARE,
		.uncore = made->uncore,
		.absent = made->absent,
		.why_absent = made->absent ? copy(made->why) : NULL,
	};
	event->attr.exclude_kernel = event->attr.exclude_hv = event->attr.exclude_guest = made->user;
}

static void add_to_set(struct scope_plan *plan, size_t at, int set_at)
{
	struct column *column = &plan->columns[at];
	struct set *set;

	while (plan->nr_sets <= (size_t)set_at)
		plan->sets = grow(plan->sets, plan->nr_sets++, sizeof(*plan->sets));
	set = &plan->sets[set_at];
	set->group = column->group;
	set->exact = column->event->software;
	if (set->nr == 0 && cpulist_parse(&set->cpus, "0-1") < 0)
		abort();
	set->columns = grow(set->columns, set->nr, sizeof(*set->columns));
	column->set = (size_t)set_at;
	column->member = set->nr;
	set->columns[set->nr++] = at;
}

static void take_column(struct snapshot_table *table, struct scope_plan *plan, size_t at, const struct made_event *made)
{
	if (made->set != MADE_NO_SET)
		add_to_set(plan, at, made->set);
	plan->columns[at].state = made->state;
	table->columns[at] = (struct snapshot_column){
		.column = &plan->columns[at],
		.state = made->state,
		.why = copy(made->why),
	};
}

static void add_table(struct snapshot *snapshot, enum scope scope, const struct made_event *events)
{
	struct scope_plan *plan = &snapshot->plan->scope[scope];
	struct snapshot_table *table = &snapshot->table[scope];

	/* Columns come group by group, whatever the order of the table. */
	if (plan_add_columns(plan, &snapshot->plan->groups[scope], scope) < 0)
		abort();
	table->nr_columns = plan->nr_columns;
	table->columns = must(calloc(plan->nr_columns + 1, sizeof(*table->columns)));
	for (size_t i = 0; i < plan->nr_columns; i++)
		for (const struct made_event *made = events; made->text; made++) {
			const struct event *event = plan->columns[i].event;

			if (made->scope == scope && !table->columns[i].column && strcmp(event->text, made->text) == 0 &&
			    strcmp(plan->columns[i].group->name, made->group) == 0 &&
			    strcmp(event->pmu, made->pmu ? made->pmu : "cpu") == 0)
				take_column(table, plan, i, made);
		}
	table->nr_sets = plan->nr_sets;
	table->rows = must(calloc(1, sizeof(*table->rows)));
	table->cells = must(calloc(1, sizeof(*table->cells)));
	table->sums = must(calloc(plan->nr_columns + 1, sizeof(*table->sums)));
	for (size_t i = 0; i < plan->nr_columns; i++)
		table->sums[i] = no_cell;
	table->times = must(calloc(1, sizeof(*table->times)));
}

struct snapshot *made_snapshot(const struct made_event *events)
{
	struct snapshot *snapshot = must(calloc(1, sizeof(*snapshot)));

	snapshot->refs = 1;
	snapshot->taken = 5000000000;
	snapshot->realtime = 1700000000123456789;
	snapshot->self.interval = 1000000000;
	snapshot->plan = must(calloc(1, sizeof(*snapshot->plan)));
	snapshot->plan->refs = 1;
	for (const struct made_event *made = events; made->text; made++)
		add_event(&snapshot->plan->groups[made->scope], made);
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		add_table(snapshot, (enum scope)scope, events);
	return snapshot;
}

/* --- rows */

size_t made_row(struct snapshot *snapshot, enum scope scope, int cpu, const char *path, uint64_t id)
{
	struct snapshot_table *table = &snapshot->table[scope];
	size_t row = table->nr_rows++;

	/* Twice as large at every power of two: there are tests with many rows. */
	if ((row & (row - 1)) == 0) {
		size_t room = row ? 2 * row : 1;

		table->rows = must(reallocarray(table->rows, room, sizeof(*table->rows)));
		table->cells = must(reallocarray(table->cells, room * table->nr_columns + 1, sizeof(*table->cells)));
		table->times = must(reallocarray(table->times, room * table->nr_sets + 1, sizeof(*table->times)));
	}
	table->rows[row] = (struct snapshot_row){ .cpu = cpu, .place = { CPU_NOWHERE, CPU_NOWHERE } };
	if (path && cgroup_identity_new(&table->rows[row].identity, id, path) < 0)
		abort();
	for (size_t i = 0; i < table->nr_columns; i++)
		table->cells[row * table->nr_columns + i] = no_cell;
	for (size_t i = 0; i < table->nr_sets; i++)
		table->times[row * table->nr_sets + i] = (struct snapshot_times){ .share = NAN };
	return row;
}

static struct snapshot_cell *cell_at(struct snapshot *snapshot, enum scope scope, size_t row, size_t column)
{
	struct snapshot_table *table = &snapshot->table[scope];

	if (row >= table->nr_rows || column >= table->nr_columns)
		abort();
	return &table->cells[row * table->nr_columns + column];
}

void made_cell(struct snapshot *snapshot, enum scope scope, size_t row, size_t column, uint64_t total, double rate)
{
	struct snapshot_cell *cell = cell_at(snapshot, scope, row, column);

	*cell = no_cell;
	cell->total = total;
	cell->rate = rate;
	cell->measured = true;
}

void made_trend(struct snapshot *snapshot, enum scope scope, size_t row, size_t column, float average_1m,
		float average_5m, float highest)
{
	struct snapshot_cell *cell = cell_at(snapshot, scope, row, column);

	cell->average[RATE_1M] = average_1m;
	cell->average[RATE_5M] = average_5m;
	cell->highest = highest;
}

void made_times(struct snapshot *snapshot, enum scope scope, size_t row, size_t set, uint64_t enabled, uint64_t running,
		double share)
{
	struct snapshot_table *table = &snapshot->table[scope];

	if (row >= table->nr_rows || set >= table->nr_sets)
		abort();
	table->times[row * table->nr_sets + set] = (struct snapshot_times){
		.enabled = enabled,
		.running = running,
		.share = share,
		.estimated = share < FULL_SHARE,
	};
}

void made_cgroup(struct snapshot *snapshot, const char *path, uint64_t id, enum cgroup_status status, const char *why)
{
	struct snapshot_cgroup *cgroup;

	snapshot->cgroups = grow(snapshot->cgroups, snapshot->nr_cgroups, sizeof(*snapshot->cgroups));
	cgroup = &snapshot->cgroups[snapshot->nr_cgroups++];
	cgroup->status = status;
	cgroup->why = copy(why);
	if (cgroup_identity_new(&cgroup->identity, id, path) < 0)
		abort();
}
