/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One consistent reading of everything, in flat arrays: what is exposed. Immutable once made (what has been written
 * from it is added), and reference-counted, so that an answer can be written from it while counting goes on.
 */

#include "count/count.h"
#include "snapshot/self.h"
#include "target/cpu.h"
#include "util/blob.h"

#include <math.h>

struct snapshot_column {
	const struct column *column; /* event, group, scope: of the plan, which the snapshot refers to */
	enum event_state state;
	char *why; /* or NULL */
};

struct snapshot_cell {
	uint64_t total; /* counts; × event->scale is the value in the event's unit */
	double rate;	/* counts per second over the last interval, or NAN */
	float average[_TREND_MAX]; /* of it, over about a minute and five; NAN: not known */
	float highest;	/* of one interval within the last minute, or NAN */
	bool measured;	/* false: absent from every output */
};

struct snapshot_times {
	uint64_t enabled, running; /* ns */
	double share;		   /* running / enabled over the last interval, or NAN */
};

struct snapshot_row {
	int cpu;			  /* or ROW_ALL_CPUS */
	struct cpu_place place;		  /* of the CPU */
	struct cgroup_identity *identity; /* SCOPE_CGROUP; a reference */
	bool gone;			  /* the cgroup is removed and lingers */
	uint64_t since;			  /* ns since the epoch when its totals began */
};

/* A scope's numbers: a row per target, a column per event, cells row by row. */
struct snapshot_table {
	struct snapshot_column *columns;
	size_t nr_columns;
	size_t nr_sets;
	struct snapshot_row *rows;
	size_t nr_rows;
	struct snapshot_cell *cells;  /* [row * nr_columns + column] */
	struct snapshot_cell *sums;   /* [column] of SCOPE_CPU: all CPUs together; only what is no sum of theirs */
	struct snapshot_times *times; /* [row * nr_sets + column's set] */
};

/* A cgroup of the tree, counted or not. */
struct snapshot_cgroup {
	struct cgroup_identity *identity; /* a reference */
	enum cgroup_status status;
	char *why; /* why not counted, or NULL */
};

/* What the config wants to be shown, and how. */
struct snapshot_options {
	bool aggregate; /* [cpu] aggregate: CPU rows are summed into one, cpu == ROW_ALL_CPUS */
	bool created;	/* [web] created */
	bool peaks;	/* [web] peaks */
};

/* What a snapshot is written as, and how that is sent. */
enum snapshot_format {
	SNAPSHOT_PROMETHEUS,
	SNAPSHOT_OPENMETRICS,
	SNAPSHOT_JSON,
	_SNAPSHOT_FORMAT_MAX,
};

enum snapshot_coding {
	SNAPSHOT_PLAIN,
	SNAPSHOT_GZIP,
	_SNAPSHOT_CODING_MAX,
};

/* Answers to questions about a part of it, the oldest first. */
#define SNAPSHOT_ANSWERS 16

struct snapshot_answer {
	char *question;
	enum snapshot_coding coding;
	struct blob *blob;
};

struct snapshot {
	unsigned refs;
	uint64_t taken;	   /* when the counters were read, CLOCK_MONOTONIC ns: for its age */
	uint64_t realtime; /* the same, ns since the epoch: for people */
	struct plan *plan; /* a reference */
	struct snapshot_options options;
	struct snapshot_table table[_SCOPE_MAX];
	struct snapshot_cgroup *cgroups;
	size_t nr_cgroups;
	char *tree_problem; /* why not all of the cgroup tree is watched, or NULL */
	char *unlisted;	    /* which cgroup, of those that can't be in the list, and why; or NULL */
	struct self self;
	/* What was written from it so far: of expose/rendering.h. */
	struct blob *rendered[_SNAPSHOT_FORMAT_MAX][_SNAPSHOT_CODING_MAX];
	struct snapshot_answer answers[SNAPSHOT_ANSWERS];
	size_t nr_answers;
};

/* Copies what count, the tree (or NULL) and the topology (or NULL) hold now. -ENOMEM. */
int snapshot_new(struct snapshot **ret, const struct count *count, const struct cgroup_tree *tree,
		 const struct cpu_topology *topology, const struct snapshot_options *options, const struct self *self);
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
	/* It is kept in fewer digits, and is no less than what is shown beside it. */
	return fmax((double)cell->highest, cell->rate);
}

/* The times of the set that the column is in; NULL where it is in none. */
static inline const struct snapshot_times *snapshot_times(const struct snapshot_table *table, size_t row,
							  size_t column)
{
	size_t set = table->columns[column].column->set;

	return set == NO_SET ? NULL : &table->times[row * table->nr_sets + set];
}
