/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Derived ratios: instructions per cycle, misses per access, CPUs in use. They are ratios of rates, of two events in
 * one set: only these were counted during the same time, and so count the same work.
 *
 * Events are recognised by their perf_event_attr, not by their names, which the config can choose.
 */

#include "counting/snapshot/snapshot.h"

/* A ratio of two columns of a table. */
struct derived {
	char *name;	    /* "ipc", "ipc_user" of cycles:u and instructions:u, "ipc/cpu_core" of one PMU of several */
	size_t over, under; /* columns; under == NO_COLUMN: the value is the rate of `over`, in its unit */
};

struct derived_list {
	struct derived *items;
	size_t nr;
};

void derived_list_release(struct derived_list *list);

/* Finds all ratios of the table's columns. -ENOMEM. */
int derived_find(struct derived_list *ret, const struct snapshot_table *table, enum scope scope);

/* The value in a row of cells. NAN: an event was not measured over the last interval, or the rate of `under` was 0. */
double derived_value(const struct derived *derived, const struct snapshot_table *table,
		     const struct snapshot_cell *cells);
