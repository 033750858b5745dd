/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Ratios that mean more than their parts: instructions per cycle, misses per access, CPUs in use. Made
 * from rates, of events that the kernel counted together: apart, two events see different work.
 *
 * Which event is which is told by its perf_event_attr, not by its name, which can be a label.
 */

#include "snapshot/snapshot.h"

/* A ratio that a table's columns have. */
struct derived {
	char *name; /* "ipc", "ipc_user" of cycles:u and instructions:u, "ipc/cpu_core" of one PMU of several */
	size_t over, under; /* columns; under == NO_COLUMN: the rate of `over` in its unit, for itself */
};

struct derived_list {
	struct derived *items;
	size_t nr;
};

void derived_list_release(struct derived_list *list);

/* Finds all that table's columns have. -ENOMEM. */
int derived_find(struct derived_list *ret, const struct snapshot_table *table, enum scope scope);

/* Its value in a row of cells; NAN where one part was not measured over an interval, or `under` was 0. */
double derived_value(const struct derived *derived, const struct snapshot_table *table,
		     const struct snapshot_cell *cells);
