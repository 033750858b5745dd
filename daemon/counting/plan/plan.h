/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The plan of what is counted: the configured groups as columns, sets and counters.
 *
 * A column is one event in one scope: one series per target. An event that this machine lacks, or that the process may
 * not count, is a column too, with its state and the reason, and is in no set.
 *
 * A set is the events of one configured group that the kernel schedules and reads together: a leader and its members. A
 * configured group is one set, unless its events belong to different PMUs (the kernel refuses those in one group) or
 * engines, each event was to be counted alone, the group does not fit the PMU at once and may be split, or some of its
 * software events are shared with a group of the other scope (plan_align_credited()).
 *
 * A counter is an event as it is opened on CPUs. A column of each scope can stand on the same counter: what a CPU
 * counts is then the CPU's, and also the root cgroup's, or whichever cgroup an engine credits it to.
 *
 * The planner (counting/session/planner.h) makes a plan. From then on only its open files go (plan_end_tries(),
 * plan_let_go()), and a restored one notes which sets are open. The engines and snapshots share it by references, and a
 * snapshot may outlive the engines.
 */

#include "base/host/privilege.h"
#include "base/util/async-close.h"
#include "base/util/cpulist.h"
#include "counting/event/event.h"
#include "counting/plan/pmu-counters.h"

/* The scope an event is counted in: whole CPUs, or cgroups. */
enum scope {
	SCOPE_CPU,
	SCOPE_CGROUP,
	_SCOPE_MAX,
};

const char *scope_name(enum scope scope); /* "cpu", "cgroup" */

/* An event's state in a scope. The names are those of perf_event_state's label. */
enum event_state {
	EVENT_OK,
	EVENT_MULTIPLEXED,     /* runs part of the time, totals are estimated */
	EVENT_NEVER_SCHEDULED, /* opened, enabled and never ran */
	EVENT_STALLED,	       /* runs on a busy CPU and does not count */
	EVENT_UNSUPPORTED,     /* this machine can't */
	EVENT_DENIED,	       /* this process may not */
	EVENT_FAILED,	       /* anything else; the reason says */
	EVENT_NEVER_FIRES,     /* it was provoked, and did not count (counting/event/firing.h) */
	_EVENT_STATE_MAX,
};

const char *event_state_name(enum event_state state);

/* A configured group, parsed. */
struct group {
	char *name;
	bool alone; /* each event is a set of its own */
	bool split; /* it may be counted in parts where it does not fit the PMU */
	/* Of the CPUs' scope: it is one of the cgroups', and is opened on CPUs only so that an engine can credit it. */
	bool hidden;
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
	size_t set;	/* index into the plan's sets of that scope; NO_SET: not counted */
	size_t member;	/* place in the set */
	size_t counter; /* index into the plan's counters, of a column in a set */
	/* The attributes that it is opened with: the event's, less what the kernel refuses. pinned and exclusive are
	 * the set's. */
	struct perf_event_attr attr;
	/* State when the plan was made; what the engine finds later stands in struct states. */
	enum event_state state;
	char *why;	   /* NULL where there is nothing to say */
	char *passed_over; /* why an engine that goes before its own does not count it, and `why` says so; or NULL */
	int retained_fd;   /* an open file of a retained event (struct event): it keeps the kernel's number; -1: none */
	bool may_recover;  /* it is not counted, and that can change by itself: it is to be tried again */
};

struct engine_ops;

struct set {
	const struct group *group;
	const struct engine_ops *engine; /* that counts it; NULL: this build has no such engine (of an image) */
	size_t *columns;		 /* the leader first */
	size_t nr;
	struct cpulist cpus; /* the set is opened on these (online) CPUs */
	bool exact;	     /* never multiplexed: all events are in the software context */
	bool uncore;	     /* a device's events */
	/* One of its events asks for it; the set is then never split. Exclusive also where beside another set more
	 * events would run than the PMU counts. */
	bool pinned, exclusive;
	bool part;     /* of a group that was split */
	bool credited; /* it opens nothing, and stands on a set of the CPUs */
	bool closed;   /* of a plan from an image: none of its events is open, so far */
};

struct scope_plan {
	struct column *columns;
	size_t nr_columns;
	size_t nr_hidden; /* the last columns: of hidden groups, which nobody is shown */
	size_t *by_name;  /* the columns' numbers, sorted by the names of their events; NULL: there are few */
	struct set *sets;
	size_t nr_sets;
};

struct counter {
	size_t columns[_SCOPE_MAX]; /* the column of each scope that stands on it, or NO_COLUMN */
};

/* Open perf events that are not counted. */
struct tried {
	int *fds; /* leaders before their members */
	size_t nr;
};

/* -ENOMEM. */
int tried_add(struct tried *tried, int fd);
void tried_release(struct tried *tried);

struct plan {
	unsigned refs;
	struct group_list groups[_SCOPE_MAX];
	struct scope_plan scope[_SCOPE_MAX];
	struct counter *counters;
	size_t nr_counters;
	struct pmu_counters_list pmus; /* as tested when the plan was made; empty in a restored one */
	struct tried tried; /* events that were opened to try them and are slow to close, until plan_end_tries() */
};

/* An empty plan with one reference, to be built (build.h). NULL: no memory. */
struct plan *plan_new(void);
struct plan *plan_ref(struct plan *plan);
struct plan *plan_unref(struct plan *plan);
DEFINE_CLEANUP(struct plan *, plan_unref)

/* The columns that have series: the first ones. */
static inline size_t plan_nr_shown(const struct scope_plan *plan)
{
	return plan->nr_columns - plan->nr_hidden;
}

/* --- sets */

/* The set that a column of the plan (or NO_COLUMN) is in, or NO_SET. */
static inline size_t plan_set_of(const struct scope_plan *plan, size_t column)
{
	return column == NO_COLUMN ? NO_SET : plan->columns[column].set;
}

/* The attributes with which the set's member of that number is opened. */
struct perf_event_attr set_attr(const struct scope_plan *plan, const struct set *set, size_t member);

/* Is one of the scope's, or the set's, events slow to close (event_is_slow_to_close())? */
bool plan_is_slow_to_close(const struct scope_plan *plan);
bool set_is_slow_to_close(const struct scope_plan *plan, const struct set *set);
/* Is one of its events a probe? Each file of a probe is slow to close. */
bool set_has_probe(const struct scope_plan *plan, const struct set *set);

/* The first set of the group that has the times of this one, which are the group's once: those of events that count all
 * the time are the same, unless each was to be counted alone. */
size_t set_with_times(const struct scope_plan *plan, size_t set);

/* The other scope's set whose columns stand on the same counters, or NO_SET. */
size_t set_find_twin(const struct plan *plan, enum scope scope, size_t set);

/* Is the plan's column, or set (or NO_COLUMN, NO_SET), counted, and open? */
bool column_is_open(const struct scope_plan *plan, size_t column);
bool set_is_open(const struct scope_plan *plan, size_t set);

/* --- from one plan to the next */

/* Is it the same event: counted alike, and exposed under the same name, or hidden? */
bool column_equal(const struct column *a, const struct column *b);
/* The number of the plan's column that is equal, of which there is one at most, or NO_COLUMN. */
size_t column_find_equal(const struct column *column, const struct scope_plan *plan);
/* The same, or the column whose totals continue in this one: written and named alike, where one of the two could not be
 * counted, or where a tracepoint got another number since its module was loaded again. */
size_t column_find_predecessor(const struct column *column, const struct scope_plan *plan);
/* The number of b_plan's set with equal columns in the same order, on whatever CPUs, or NO_SET. */
size_t set_find_equal(const struct scope_plan *a_plan, const struct set *a, const struct scope_plan *b_plan);
/* The same, but that one of the sets may be hidden, and the other one shown. */
size_t set_find_alike(const struct scope_plan *a_plan, const struct set *a, const struct scope_plan *b_plan);

/* --- what became of trying */

/*
 * Closes the events that were opened to try them, through the closer, or at once where that is NULL. To close the last
 * event of a tracepoint takes tens of milliseconds, any other no time. So this comes when the plan is open, because
 * what is counted then keeps its tracepoints, or when the plan is given up. Until then these files leave no less room
 * for what is counted: the caller ends them where files are short.
 */
void plan_end_tries(struct plan *plan, struct async_close *closer);

/* Closes through the closer the files that keep the numbers of retained events (column.retained_fd). How many are
 * there? */
void plan_let_go(struct plan *plan, struct async_close *closer);
size_t plan_nr_retained(const struct plan *plan);

/* How many columns, in all scopes, are counted? Is there one that is not, and may be later? */
size_t plan_nr_counted(const struct plan *plan);
bool plan_may_recover(const struct plan *plan);
