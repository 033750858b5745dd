/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The selection from a snapshot that a format's writer walks over: the scopes, rows and columns that a query asks for,
 * the order of the rows, CPU rows summed into one where that is configured, and the ratios that can be derived. All
 * filters are here, and no format is.
 *
 * Writers walk in one of two orders:
 *
 *   by family   all samples of one metric together, with states, identities and the daemon's own metrics besides:
 *               family-walk.h, for the Prometheus text format and OpenMetrics
 *   by target   all values of one CPU or cgroup together: json.c, straight over the tables here
 *
 * A walk borrows snapshot and query.
 */

#include "base/util/number.h"
#include "web/expose/derived.h"
#include "web/expose/expose.h"

/* The selection from one scope: nothing of one that is left out. Rows and columns are selected by their indices in
 * `table`. */
struct walk_table {
	enum scope scope;
	const struct snapshot_table *table; /* the snapshot's, or &sums */
	struct snapshot_table sums;	    /* one row, of all CPUs; borrows the snapshot's columns */
	size_t *columns;		    /* selected, in the order of the config */
	size_t nr_columns;
	struct scale *scales; /* of each column in `columns` */
	size_t *rows;	      /* selected, in the order to be shown, cut at the limit */
	size_t nr_rows;
	size_t nr_matched;	     /* rows before the limit */
	struct derived_list derived; /* selected */
};

struct walk {
	const struct snapshot *snapshot;
	bool without_self;
	struct walk_table table[_SCOPE_MAX];
};

/* query NULL: everything. -ENOMEM; -E2BIG: matching its globs against the names would take too long. */
int walk_new(struct walk **ret, const struct snapshot *snapshot, const struct expose_query *query);
struct walk *walk_free(struct walk *walk);
DEFINE_CLEANUP(struct walk *, walk_free)

/* The event of the i-th selected column. */
static inline const struct event *walk_event(const struct walk_table *table, size_t i)
{
	return table->table->columns[table->columns[i]].column->event;
}

/* The i-th derived ratio in a row of table->table. NAN: unknown, or without meaning in that row. */
double walk_ratio(const struct walk_table *table, size_t row, size_t i);
