/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How a plan is put together, by the planner (counting/session/planner.h) and from an image
 * (counting/session/session-image.h): columns first, then the sets of each scope, then the counters that the sets of
 * both stand on. Nobody changes columns and sets after that. Engines use the first functions, to try events.
 */

#include "counting/plan/plan.h"

/* Gives an empty scope the columns of all groups' events, none of them in a set. -ENOMEM. */
int plan_add_columns(struct scope_plan *plan, const struct group_list *groups, enum scope scope);

/* Copies why. -ENOMEM. */
int column_set_state(struct column *column, enum event_state state, const char *why);
/* Appends to the reason. -ENOMEM. */
int column_add_why(struct column *column, const char *why);

/* The CPUs of `online` on which the event can be counted. -ENOMEM. */
int cpulist_of_event(struct cpulist *ret, const struct event *event, const struct cpulist *online);

/* Puts the column of that number into the set that takes it, or into a new one, which the engine is going to count on
 * those of the online CPUs that have the event. -ENOMEM. */
int plan_assign_set(struct scope_plan *plan, size_t column, const struct engine_ops *engine,
		    const struct cpulist *online);

/* Moves the members of a set behind its first `keep` ones to a set of their own, which comes next. -ENOMEM. */
int plan_split_set(struct scope_plan *plan, size_t set, size_t keep);
/* Leaves the columns of the set in none. */
void plan_drop_set(struct scope_plan *plan, size_t set);

/*
 * Brings the credited sets in line with those of the CPUs, so that each event of both scopes is opened once. Sets with
 * the same events, under whatever name, get the same order. Events in the software context do not depend on the group
 * that they are in: of two sets that have some of them in common, those become sets of their own. -ENOMEM.
 */
int plan_align_credited(struct plan *plan);
/* The CPUs' set on whose counters a set of cgroups can stand: its members are alike, in the same order; or NO_SET. */
size_t plan_find_alike(const struct plan *plan, const struct set *set);

/* Works out the counters of the sets, when those are complete. -ENOMEM. */
int plan_add_counters(struct plan *plan);
