/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What is counted: the configured groups turned into columns and sets.
 *
 * A column is one event in one scope: one series per target. A set is the events of one configured
 * group that the kernel schedules and reads together: one leader and its members. A configured group is
 * one set, unless its events belong to different PMUs (the kernel refuses those in one group) or it was
 * asked to count each event alone.
 *
 * Each event is tried on its own when the plan is made (once per event, not once per fd). What this
 * machine lacks or the process may not count stays a column, with its state and reason, and is in no
 * set.
 *
 * A plan is immutable, and is shared by the counting engine and by snapshots, which may outlive it: it is
 * reference-counted.
 */

#include "count/open.h"
#include "util/cpulist.h"

/* A configured group, parsed. The strings and events are handed over to the plan. */
struct group {
	char *name;
	bool alone;
	struct event_list events;
};

struct group_list {
	struct group *groups;
	size_t nr;
};

void group_list_release(struct group_list *list);

#define NO_SET SIZE_MAX

struct column {
	enum scope scope;
	const struct group *group;
	const struct event *event;
	size_t set;    /* index into the plan's sets of that scope; NO_SET: not counted */
	size_t member; /* place in the set */
	/* State after the probe; the engine's later findings stand in struct count. */
	enum event_state state;
	char *why; /* NULL where there is nothing to say */
};

struct set {
	const struct group *group;
	size_t *columns; /* the leader first */
	size_t nr;
	struct cpulist cpus; /* the set is opened on these (online) CPUs */
	bool exact;	     /* never multiplexed: all events are in the software context */
	bool uncore;	     /* a device's events */
};

struct scope_plan {
	struct column *columns;
	size_t nr_columns;
	struct set *sets;
	size_t nr_sets;
};

/* Where the sets of a scope stand for the same thing: leader, members and CPUs alike. */
bool set_equal(const struct scope_plan *a_plan, const struct set *a, const struct scope_plan *b_plan,
	       const struct set *b);
/* The same event: counted alike and exposed under the same name. */
bool column_equal(const struct column *a, const struct column *b);

struct plan {
	unsigned refs;
	struct group_list groups[_SCOPE_MAX];
	struct scope_plan scope[_SCOPE_MAX];
};

/*
 * Makes a plan; takes what is in groups over (also on failure). cpus are the online ones. cgroup_fd is
 * the hierarchy's root, to try events on; where it is -1, no_cgroups says why and all events of that
 * scope are unsupported. counting (or NULL) is the plan that is in force: what it counts is not tried
 * again. -ENOMEM; -EEXIST with the sentence in why where two events of a scope would
 * have the same series.
 */
int plan_new(struct plan **ret, struct group_list groups[static _SCOPE_MAX], const struct cpulist *cpus,
	     int cgroup_fd, const char *no_cgroups, const struct privilege *privilege, const struct plan *counting,
	     struct reason *why);
struct plan *plan_ref(struct plan *plan);
struct plan *plan_unref(struct plan *plan);
DEFINE_CLEANUP(struct plan *, plan_unref)

/* How many fds one target needs (one CPU, or one cgroup on all of the sets' CPUs). */
size_t plan_fds_per_cgroup(const struct plan *plan);
