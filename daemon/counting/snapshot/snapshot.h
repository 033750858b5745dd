/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One consistent reading of everything that is exposed, in flat arrays. Immutable once made, and reference-counted, so
 * that responses can be written from it while counting goes on, also in another thread. It borrows nothing: names are
 * those of the plan, to which it holds a reference. References, also those to all that it shares with the daemon, are
 * taken and dropped on the loop only: they are not atomic.
 */

#include "base/host/cpu.h"
#include "counting/alarm/rule-info.h"
#include "counting/session/session.h"
#include "counting/snapshot/self-stats.h"

#include <math.h>

struct snapshot_column {
	const struct column *column; /* event, group and scope, in the snapshot's plan */
	enum event_state state;
	bool partial; /* failed in some cgroups, and counted in others */
	char *why;    /* the reason for the state, or NULL */
};

struct snapshot_cell {
	uint64_t total;		  /* counts; × event->scale is in the event's unit */
	double rate;		  /* counts per second over the last interval, or NAN */
	float average[_RATE_MAX]; /* average rates over about one and five minutes; NAN: unknown */
	float highest;		  /* highest rate of one interval within the last minute, or NAN */
	bool measured;		  /* false: absent from every output */
};

struct snapshot_times {
	uint64_t enabled, running; /* ns */
	double share;		   /* running / enabled over the last interval, or NAN */
	bool estimated;		   /* by the last share that is known, counts are estimates */
};

struct snapshot_row {
	int cpu;			  /* or ROW_ALL_CPUS */
	struct cpu_place place;		  /* of the CPU in the topology */
	uint64_t busy;			  /* SCOPE_CPU: busy ns since boot by the kernel's accounting; 0: unknown */
	struct cgroup_identity *identity; /* SCOPE_CGROUP; a reference */
	/* The identity's names when the snapshot was made: the loop can set those of the identity meanwhile. */
	const struct container_names *names;
	bool gone;	    /* the cgroup was removed and lingers */
	uint64_t since;	    /* ns since the epoch when the totals began: only to be shown */
	uint64_t began;	    /* CLOCK_MONOTONIC ns of that moment; 0: in a daemon before this one */
	size_t descendants; /* SCOPE_CGROUP: other cgroups below it that have rows, at any depth */
};

/* The values of a scope: a row for each target (CPU, cgroup), a column for each event, cells row by row. */
struct snapshot_table {
	struct snapshot_column *columns;
	size_t nr_columns;
	size_t nr_sets;
	struct snapshot_row *rows;
	size_t nr_rows;
	struct snapshot_cell *cells;  /* [row * nr_columns + column] */
	struct snapshot_cell *sums;   /* [column] of SCOPE_CPU: all CPUs together; only members that are not sums of the
				       * CPUs' are set */
	struct snapshot_times *times; /* [row * nr_sets + column's set] */
};

/* A cgroup in the tree, counted or not. */
struct snapshot_cgroup {
	struct cgroup_identity *identity;    /* a reference */
	const struct container_names *names; /* as those of a row */
	enum cgroup_status status;
	char *why; /* why it, or some of its events, are not counted; or NULL */
};

/* A rule that may make captures. */
struct snapshot_rule {
	char *name, *problem; /* problem: why it is not evaluated, or "" */
	uint64_t captures, passed_over;
};

/* The options of the config about what is shown. */
struct snapshot_options {
	bool aggregate; /* [cpu] aggregate: CPU rows are to be summed into one, with cpu == ROW_ALL_CPUS */
	bool created;	/* [web] created */
	bool peaks;	/* [web] peaks */
};

struct snapshot {
	unsigned refs;
	uint64_t taken;	   /* time of reading the counters, CLOCK_MONOTONIC ns: for the age */
	uint64_t realtime; /* the same time, ns since the epoch */
	struct plan *plan; /* a reference */
	struct snapshot_options options;
	struct snapshot_table table[_SCOPE_MAX];
	struct snapshot_cgroup *cgroups;
	size_t nr_cgroups;
	char *tree_problem;	      /* why not all of the cgroup tree is watched, or NULL */
	char *unlisted;		      /* an example of a cgroup that cannot be in the list, and why; or NULL */
	struct switch_cost *switches; /* of the CPUs on which an engine credits cgroups */
	size_t nr_switches;
	struct snapshot_rule *rules;
	size_t nr_rules;
	struct self_stats self;
};

/* Copies the current values of session, the tree (or NULL) and the topology (or NULL). -ENOMEM. */
int snapshot_new(struct snapshot **ret, const struct session *session, const struct cgroup_tree *tree,
		 const struct cpu_topology *topology, const struct snapshot_options *options,
		 const struct self_stats *self);
/* Sets the busy time of single CPUs, one of cpus each, before the snapshot is shared. */
void snapshot_set_busy(struct snapshot *snapshot, const struct cpulist *cpus, const uint64_t *busy);
/* Adds a rule, whose texts are copied, likewise. -ENOMEM. */
int snapshot_add_rule(struct snapshot *snapshot, const struct capture_rule_info *rule);
struct snapshot *snapshot_ref(struct snapshot *snapshot);
struct snapshot *snapshot_unref(struct snapshot *snapshot);
DEFINE_CLEANUP(struct snapshot *, snapshot_unref)

static inline const struct snapshot_cell *snapshot_cell(const struct snapshot_table *table, size_t row, size_t column)
{
	return &table->cells[row * table->nr_columns + column];
}

/* The highest rate within the last minute, or NAN. */
static inline double snapshot_peak(const struct snapshot_cell *cell)
{
	/* It is kept with fewer digits, so that it could be less than the rate shown beside it. */
	return fmax((double)cell->highest, cell->rate);
}

/* The times of the column's set. NULL: it is in none. */
static inline const struct snapshot_times *snapshot_times(const struct snapshot_table *table, size_t row, size_t column)
{
	size_t set = table->columns[column].column->set;

	return set == NO_SET ? NULL : &table->times[row * table->nr_sets + set];
}

/* The state of the column in one row: where it is counted, by the row's own share of the time. */
static inline enum event_state snapshot_state(const struct snapshot_table *table, size_t row, size_t column)
{
	const struct snapshot_column *whole = &table->columns[column];
	const struct snapshot_times *times = snapshot_times(table, row, column);

	if (!times || (whole->state != EVENT_OK && whole->state != EVENT_MULTIPLEXED && !whole->partial))
		return whole->state;
	return times->estimated ? EVENT_MULTIPLEXED : EVENT_OK;
}
