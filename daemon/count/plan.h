/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What is counted: the configured groups turned into columns and sets.
 *
 * A column is one event in one scope: one series per target. A set is the events of one configured
 * group that the kernel schedules and reads together: one leader and its members. A configured group is
 * one set, unless its events belong to different PMUs (the kernel refuses those in one group), it was
 * asked to count each event alone, or it does not fit the PMU at once and may be split.
 *
 * Each event is tried on its own when the plan is made (probe.h; once per event, not once per fd). What this
 * machine lacks or the process may not count stays a column, with its state and reason, and is in no
 * set. What was opened for that and is slow to close stays open until the plan is counted (plan_end_tries()).
 *
 * A plan is immutable, and is shared by the counting engine and by snapshots, which may outlive it: it is
 * reference-counted.
 */

#include "count/open.h"
#include "util/closer.h"
#include "util/cpulist.h"

/* A configured group, parsed. The strings and events are handed over to the plan. */
struct group {
	char *name;
	bool alone; /* each event is a set of its own */
	bool split; /* it may be counted in parts where it does not fit the PMU */
	struct event_list events;
};

struct group_list {
	struct group *groups;
	size_t nr;
};

void group_list_release(struct group_list *list);

#define NO_SET SIZE_MAX
#define NO_COLUMN SIZE_MAX

struct column {
	enum scope scope;
	const struct group *group;
	const struct event *event;
	size_t set;    /* index into the plan's sets of that scope; NO_SET: not counted */
	size_t member; /* place in the set */
	/* What it is opened with: the event's, less what the kernel refuses. pinned and exclusive are the set's. */
	struct perf_event_attr attr;
	/* State after the probe; the engine's later findings stand in struct count. */
	enum event_state state;
	char *why; /* NULL where there is nothing to say */
	int held; /* of a kept event: open, so that its number stays its own while nothing else is; or -1 */
	bool may_recover; /* not counted, which can change without anyone's doing: to be tried again */
};

/* -ENOMEM. */
int column_set_state(struct column *column, enum event_state state, const char *why);

struct set {
	const struct group *group;
	size_t *columns; /* the leader first */
	size_t nr;
	struct cpulist cpus; /* the set is opened on these (online) CPUs */
	bool exact;	     /* never multiplexed: all events are in the software context */
	bool uncore;	     /* a device's events */
	bool pinned, exclusive; /* one of its events asks for it; it is then never split */
	bool part;		/* of a group that was split */
	bool closed;		/* of a plan that was read back: not an event of it is open, so far */
};

struct scope_plan {
	struct column *columns;
	size_t nr_columns;
	size_t *by_name; /* the columns' numbers, sorted by the names of their events; NULL: they are few */
	struct set *sets;
	size_t nr_sets;
};

/* What the set's member of that number is opened with. */
struct perf_event_attr set_attr(const struct scope_plan *plan, const struct set *set, size_t member);

/* Is one of the scope's events slow to close? */
bool plan_is_slow_to_close(const struct scope_plan *plan);
/* One of its events is slow to close; or is a probe, of which each fd is. */
bool set_is_slow_to_close(const struct scope_plan *plan, const struct set *set);
bool set_has_probe(const struct scope_plan *plan, const struct set *set);

/* The same event: counted alike and exposed under the same name. */
bool column_equal(const struct column *a, const struct column *b);
/* The number of the plan's column that is equal, of which there is one at most; NO_COLUMN. */
size_t column_find_equal(const struct column *column, const struct scope_plan *plan);
/* The same, or of the column whose totals go on in it: written alike and named alike, where one of the two could not be
 * counted, or where a tracepoint has another number since its module was loaded again. */
size_t column_find_predecessor(const struct column *column, const struct scope_plan *plan);

/* Is the plan's column, or set (or NO_COLUMN, NO_SET), counted, and open? */
bool column_is_open(const struct scope_plan *plan, size_t column);
bool set_is_open(const struct scope_plan *plan, size_t set);

/* The number of b_plan's set that stands for the same thing: leader and members alike, on whatever CPUs; NO_SET. */
size_t set_find_equal(const struct scope_plan *a_plan, const struct set *a, const struct scope_plan *b_plan);

/* Perf events that are open and are not counted. */
struct held {
	int *fds; /* leaders before their members */
	size_t nr;
};

void held_release(struct held *held);

struct plan {
	unsigned refs;
	struct group_list groups[_SCOPE_MAX];
	struct scope_plan scope[_SCOPE_MAX];
	struct held tried; /* what was opened to try it, and is slow to close: until plan_end_tries() */
};

/* The number of the CPUs' set that opens the same events on the same CPUs as a set of cgroups: what it counts is the
 * root cgroup's count too. NO_SET. */
size_t plan_find_cpu_set(const struct plan *plan, const struct set *cgroup_set);

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

/*
 * Closes what was opened to try it, by the closer, or at once where that is NULL. To close the last event of a
 * tracepoint takes tens of milliseconds, any other no time: so this comes when the plan is open, for what is counted
 * keeps its tracepoints, or when the plan is given up. Until then these events take no room from what is counted: the
 * caller ends them where files are short.
 */
void plan_end_tries(struct plan *plan, struct closer *closer);

/* Has the closer close what holds the numbers of kept events (column.held); and how many files are that? */
void plan_let_go(struct plan *plan, struct closer *closer);
size_t plan_nr_held(const struct plan *plan);

struct plan *plan_ref(struct plan *plan);
struct plan *plan_unref(struct plan *plan);
DEFINE_CLEANUP(struct plan *, plan_unref)

/* Gives an empty plan the columns of all groups' events, none of them in a set. -ENOMEM. */
int plan_add_columns(struct scope_plan *plan, const struct group_list *groups, enum scope scope);

/* How many columns, in all scopes, are counted; and is there one that is not and may be later? */
size_t plan_nr_counted(const struct plan *plan);
bool plan_may_recover(const struct plan *plan);
/* Can one of those be opened by now? */
bool plan_recovers(const struct plan *plan, const struct cpulist *cpus, int cgroup_fd);

/* How many fds one cgroup needs on all of the sets' CPUs, and all CPUs together. */
size_t plan_fds_per_cgroup(const struct plan *plan);
size_t plan_fds_of_cpus(const struct plan *plan);
