/* SPDX-License-Identifier: MIT */

#include "web/expose/walk.h"

#include "counting/snapshot/snapshot-sum.h"
#include "web/expose/sieve.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static void walk_table_release(struct walk_table *table)
{
	snapshot_sum_release(&table->sums);
	free(table->columns);
	free(table->scales);
	free(table->rows);
	derived_list_release(&table->derived);
}

struct walk *walk_free(struct walk *walk)
{
	if (!walk)
		return NULL;
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		walk_table_release(&walk->table[scope]);
	free(walk);
	return NULL;
}

/* --- what a query selects */

static int choose_columns(struct walk_table *table, struct sieve *events)
{
	size_t nr = table->table->nr_columns;

	table->columns = calloc(nr + 1, sizeof(*table->columns));
	table->scales = calloc(nr + 1, sizeof(*table->scales));
	if (!table->columns || !table->scales)
		return -ENOMEM;
	for (size_t i = 0; i < nr && !sieve_is_exhausted(events); i++) {
		const struct event *event = table->table->columns[i].column->event;

		if (!sieve_admits_event(events, event))
			continue;
		table->scales[table->nr_columns] = scale_of(event->scale);
		table->columns[table->nr_columns++] = i;
	}
	return sieve_is_exhausted(events) ? -E2BIG : 0;
}

/* A ratio is selected by its name, or together with both of its events. */
static bool admits_derived(const struct walk_table *table, struct sieve *events, const struct derived *derived)
{
	const struct snapshot_column *columns = table->table->columns;

	if (sieve_admits_text(events, derived->name))
		return true;
	return sieve_admits_event(events, columns[derived->over].column->event) &&
	       (derived->under == NO_COLUMN || sieve_admits_event(events, columns[derived->under].column->event));
}

static int choose_derived(struct walk_table *table, struct sieve *events)
{
	struct derived_list *list = &table->derived;
	size_t nr = 0;

	if (derived_find(list, table->table, table->scope) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < list->nr; i++)
		if (!sieve_is_exhausted(events) && admits_derived(table, events, &list->items[i]))
			list->items[nr++] = list->items[i];
		else
			free(list->items[i].name);
	list->nr = nr;
	return sieve_is_exhausted(events) ? -E2BIG : 0;
}

static int choose_rows(struct walk_table *table, const struct expose_query *query)
{
	_cleanup_(sieve_release) struct sieve cgroups = { .on = false };
	size_t nr = table->table->nr_rows;

	table->rows = calloc(nr + 1, sizeof(*table->rows));
	if (!table->rows)
		return -ENOMEM;
	sieve_init(&cgroups, query->cgroup);
	for (size_t i = 0; i < nr && !sieve_is_exhausted(&cgroups); i++) {
		const struct snapshot_row *row = &table->table->rows[i];

		if (!row->identity ||
		    ((!query->leaves || row->descendants == 0) && sieve_admits_text(&cgroups, row->identity->label)))
			table->rows[table->nr_rows++] = i;
	}
	table->nr_matched = table->nr_rows;
	return sieve_is_exhausted(&cgroups) ? -E2BIG : 0;
}

/* --- the order of rows */

/* The key that a row is sorted by: the sum over all columns with that name, of which there are several where several
 * PMUs count the event. */
struct sort_key {
	size_t row;
	double rate; /* NAN: unknown */
	double total;
	bool measured;
};

static bool is_sort_event(const struct event *event, const char *sort)
{
	return strcmp(event->metric, sort) == 0 || strcmp(event->text, sort) == 0;
}

static struct sort_key sort_key_of(const struct snapshot_table *table, size_t row, const size_t *columns, size_t nr)
{
	struct sort_key key = { .row = row, .rate = NAN };

	for (size_t i = 0; i < nr; i++) {
		const struct snapshot_cell *cell = snapshot_cell(table, row, columns[i]);

		if (!cell->measured)
			continue;
		key.measured = true;
		key.total += (double)cell->total;
		if (!isnan(cell->rate))
			key.rate = isnan(key.rate) ? cell->rate : key.rate + cell->rate;
	}
	return key;
}

/* -1 if a comes first: the larger one, and any number before NAN. */
static int compare_falling(double a, double b)
{
	if (isnan(a) || isnan(b))
		return isnan(a) - isnan(b);
	return (a < b) - (a > b);
}

static int compare_keys(const void *a, const void *b)
{
	const struct sort_key *x = a, *y = b;
	int r = y->measured - x->measured;

	if (r == 0)
		r = compare_falling(x->rate, y->rate);
	if (r == 0)
		r = compare_falling(x->total, y->total);
	return r ? r : (x->row > y->row) - (x->row < y->row);
}

static int sort_rows(struct walk_table *table, const char *sort)
{
	_cleanup_(freep) struct sort_key *keys = calloc(table->nr_rows + 1, sizeof(*keys));
	_cleanup_(freep) size_t *columns = calloc(table->table->nr_columns + 1, sizeof(*columns));
	size_t nr = 0;

	if (!keys || !columns)
		return -ENOMEM;
	/* Columns are matched by name once, and not for each row. */
	for (size_t i = 0; i < table->table->nr_columns; i++)
		if (is_sort_event(table->table->columns[i].column->event, sort))
			columns[nr++] = i;
	for (size_t i = 0; i < table->nr_rows; i++)
		keys[i] = sort_key_of(table->table, table->rows[i], columns, nr);
	qsort(keys, table->nr_rows, sizeof(*keys), compare_keys);
	for (size_t i = 0; i < table->nr_rows; i++)
		table->rows[i] = keys[i].row;
	return 0;
}

/* --- the walk */

static int walk_table_init(struct walk_table *table, const struct snapshot *snapshot, enum scope scope,
			   const struct expose_query *query)
{
	_cleanup_(sieve_release) struct sieve events = { .on = false };
	int r;

	table->scope = scope;
	table->table = &snapshot->table[scope];
	if (query->without[scope])
		return 0;
	if (scope == SCOPE_CPU && snapshot->options.aggregate) {
		if (snapshot_sum(&table->sums, table->table) < 0)
			return -ENOMEM;
		table->table = &table->sums;
	}
	sieve_init(&events, query->event);
	r = choose_columns(table, &events);
	if (r == 0)
		r = choose_derived(table, &events);
	if (r == 0)
		r = choose_rows(table, query);
	if (r < 0)
		return r;
	if (query->sort && sort_rows(table, query->sort) < 0)
		return -ENOMEM;
	if (query->limit > 0 && table->nr_rows > query->limit)
		table->nr_rows = query->limit;
	return 0;
}

int walk_new(struct walk **ret, const struct snapshot *snapshot, const struct expose_query *query)
{
	_cleanup_(walk_freep) struct walk *walk = calloc(1, sizeof(*walk));
	static const struct expose_query everything = {};

	if (!walk)
		return -ENOMEM;
	walk->snapshot = snapshot;
	walk->without_self = query && query->without_self;
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		int r = walk_table_init(&walk->table[scope], snapshot, (enum scope)scope, query ? query : &everything);

		if (r < 0)
			return r;
	}
	*ret = steal_ptr(walk);
	return 0;
}

double walk_ratio(const struct walk_table *table, size_t row, size_t i)
{
	const struct derived *ratio = &table->derived.items[i];
	const struct cgroup_identity *identity = table->table->rows[row].identity;

	/* The root cgroup includes the idle tasks: its task-clock is the time on the wall, and no CPUs in use. */
	if (ratio->under == NO_COLUMN && identity && identity->id == CGROUP_ROOT_ID)
		return NAN;
	return derived_value(ratio, table->table, snapshot_cell(table->table, row, 0));
}

bool expose_has_event(const struct snapshot *snapshot, const struct expose_query *query, const char *name)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		const struct snapshot_table *table = &snapshot->table[scope];

		for (size_t i = 0; !query->without[scope] && i < table->nr_columns; i++)
			if (is_sort_event(table->columns[i].column->event, name))
				return true;
	}
	return false;
}
