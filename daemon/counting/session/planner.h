/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * From the configured groups to a plan.
 *
 * Each event is asked of the engines, by preference, and belongs to the first that can count it here: engines are
 * chosen per event, and a set has events of one engine. The engine tries it (engine.h): each event once by itself, and
 * each set once as the group that it will be, before anything is counted. An event that opens is provoked, where that
 * can be done (counting/event/firing.h). One that no engine can count, or that does not count what was provoked, stays
 * a column with its state and the reason.
 *
 * Before that, the PMUs are tested for the number of counters that count (counting/engine/perf/pmu-test.h): the plan
 * has the results. On a PMU of which not all counters count, never more events of the plan run at once than count.
 * Which of its counters those are, nobody can tell: whatever is enabled last has one that does not count. So nothing
 * can be put onto the others, but the kernel can be kept from using as many. Pinned sets run at all times, and have no
 * more than count in all; no other set has more than they leave; and where several of those could together have more,
 * they are exclusive: the kernel then runs one of them at a time, beside the pinned ones.
 */

#include "counting/engine/engine.h"

/* Lists of engines, by preference, NULL after the last: all of this build, and perf alone. */
const struct engine_ops *const *planner_all_engines(void);
extern const struct engine_ops *const perf_alone[];

/* The surroundings of a plan. All borrowed. */
struct planner {
	const struct engine_ops *const *engines; /* by preference, NULL after the last */
	const struct cpulist *cpus;		 /* online, and to be counted */
	int cgroup_fd;				 /* the hierarchy's root, to try events on; -1: none, */
	const char *no_cgroups;			 /* … for this reason: no event can be counted per cgroup */
	const struct privilege *privilege;
	const struct event_env *env; /* PMUs, whose counters are tested; NULL: they are not */
	const struct plan *counting; /* the plan in force, whose open events are not tried again; NULL: none */
};

/*
 * Makes a plan, and takes over what is in groups on success. -ENOMEM; -EEXIST with the sentence in why where two events
 * of a scope would have the same series.
 */
int planner_make(const struct planner *planner, struct group_list groups[static _SCOPE_MAX], struct plan **ret,
		 struct reason *why);

/* Can one of the plan's events that may recover (struct column) be opened by now? */
bool planner_recovers(const struct planner *planner, const struct plan *plan);
