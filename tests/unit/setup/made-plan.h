/* SPDX-License-Identifier: MIT */
#pragma once

/* Plans that are put together by hand (counting/plan/build.h), without a kernel to try events on. */

#include "counting/plan/build.h"

#define HW PERF_TYPE_HARDWARE
#define SW PERF_TYPE_SOFTWARE
#define UNCORE 77

/* The plan does not look into engines. */
#define ENGINE_A ((const struct engine_ops *)1)
#define ENGINE_B ((const struct engine_ops *)2)

/* An event of a made group; the last one has no name. Events of one name and type are one event. */
struct made {
	const char *name;
	uint32_t type;
	bool pinned, exclusive;
	const struct engine_ops *engine; /* NULL: ENGINE_A */
	const char *cpus;		 /* NULL: all */
};

struct made_group {
	const char *name;
	bool alone, hidden;
	struct made events[6];
};

/* Adds a group to the list. */
void made_plan_group(struct group_list *list, const struct made_group *made);

/* Gives the plan the groups of a scope, up to one without a name, with all their events in sets on the CPUs 0, 1 and
 * 5. */
void made_plan_build(struct plan *plan, enum scope scope, const struct made_group *groups);

/* "a b|c": the names in each set, the leader first. */
void assert_plan_sets(const struct scope_plan *plan, const char *sets);
