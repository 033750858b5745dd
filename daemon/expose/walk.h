/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The one walk over a snapshot.
 *
 * walk_new() settles what is walked over: which scopes, rows and columns are asked for, in which order
 * the rows come, CPU rows summed into one where that is configured, and which ratios can be derived.
 * Then there are two orders, each with a small table of functions that a format's writer fills in:
 *
 *   by family   all samples of one metric together, as Prometheus's text format and OpenMetrics want it;
 *               with what is not a row's: states, identities, the daemon's own figures (family.h)
 *   by target   all values of one CPU or cgroup together, as a reader of JSON wants it
 *
 * The walk knows no format and a writer no filter. A walk borrows snapshot and query.
 */

#include "expose/derived.h"
#include "expose/expose.h"
#include "expose/number.h"

/* A scope's part. Rows and columns are indices into `table`, whose columns all stay where they are. */
struct walk_table {
	enum scope scope;
	const struct snapshot_table *table; /* the snapshot's, or sums */
	struct snapshot_table sums;	    /* one row, of all CPUs; columns are the snapshot's */
	size_t *columns;		    /* asked for, in the order of the config */
	size_t nr_columns;
	struct scale *scales;		    /* of each column in `columns` */
	size_t *rows;			    /* asked for, in the order to be shown, cut at the limit */
	size_t nr_rows;
	size_t nr_matched;		    /* rows before the limit */
	struct derived_list derived;	    /* of those asked for */
};

struct walk {
	const struct snapshot *snapshot;
	struct walk_table table[_SCOPE_MAX];
};

/* query NULL: everything. -ENOMEM; -E2BIG: its globs would take too long with the names there are. */
int walk_new(struct walk **ret, const struct snapshot *snapshot, const struct expose_query *query);
struct walk *walk_free(struct walk *walk);
DEFINE_CLEANUP(struct walk *, walk_free)

/* The event of number i of the columns asked for. */
static inline const struct event *walk_event(const struct walk_table *table, size_t i)
{
	return table->table->columns[table->columns[i]].column->event;
}

/* What a writer that goes by target does. All are called in the order in which they stand here, for each
 * scope; there is nothing between begin_scope and end_scope of a scope that is not asked for. */
struct target_writer {
	void (*begin_scope)(void *userdata, const struct walk_table *table);
	void (*begin_target)(void *userdata, const struct walk_table *table, const struct snapshot_row *row);
	/* Of number `column` of the columns asked for. Only what is measured; times is NULL where the
	 * column is in no set. */
	void (*value)(void *userdata, const struct walk_table *table, size_t column, const struct snapshot_cell *cell,
		      const struct snapshot_times *times);
	/* Only what is finite. */
	void (*ratio)(void *userdata, const char *name, double value);
	void (*end_target)(void *userdata);
	void (*end_scope)(void *userdata);
};

void walk_targets(const struct walk *walk, const struct target_writer *writer, void *userdata);
