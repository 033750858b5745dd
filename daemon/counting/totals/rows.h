/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The totals: everything that has been counted, apart from the files it came from. This room is the one place that
 * scales counts (estimate.h, unobserved.h) and adds them.
 *
 * Totals are a table for each scope. A row is a target that has series: a CPU, a cgroup, or a cgroup on one CPU. It has
 * a cell for each column of its scope's plan, with its rate, and the times of each set.
 *
 * Engines add through accounts (counting/engine/account.h). Nothing ever takes away, so a row's totals are
 * monotonic whatever happens to the files below: a reload opens them anew, a cgroup is removed (its row lingers) and
 * made again (the row is taken up again).
 *
 * All rows are in a list in the order in which they last changed, with the number of the interval. So whoever looks at
 * all rows in each interval looks only at those that changed, and cgroups that do not run cost nothing.
 *
 *   rows.h           the table: rows that come, linger and go; adding to them
 *   tick.h           the end of an interval: rates and shares
 *   reload.h         from one plan's totals to the next one's
 *   totals-image.h   totals as bytes
 *   estimate.h       from two readings to a count (pure)
 *   unobserved.h     from others to the count of one without a reading
 *   rate-averages.h  averages and peaks of one rate (pure)
 */

#include "base/cgroup/tree.h"
#include "base/util/hash.h"
#include "base/util/rewrite.h"
#include "base/util/slab.h"
#include "counting/plan/plan.h"
#include "counting/totals/rate-averages.h"

#include <sys/queue.h>

/* What has been counted. A reading touches this and the times, of each row. */
struct totals_cell {
	uint64_t total; /* counts, before the event's scale */
	bool measured;	/* something observed it; false: it is absent, not 0 */
};

/* The same at the end of the last interval (tick.h). */
struct totals_rate {
	uint64_t at_tick;	       /* the total */
	double rate;		       /* counts per second over the interval; NAN: not known (yet) */
	struct rate_averages averages; /* of that rate */
	bool stands; /* the rate is of an earlier interval: since then too little time has passed to tell another */
	bool begun;  /* it was measured at the end of the last interval, so that the next one covers all of its time */
};

/* Times of one set in one row, in ns: sums over the CPUs and lives of the files that fed it. */
struct totals_times {
	uint64_t enabled, running;
	uint64_t enabled_at_tick, running_at_tick;
	uint64_t covered;  /* enabled time covered by counts added since the last tick; may start before it */
	uint64_t waited;   /* length of the intervals since the last count in which it was enabled */
	double share;	   /* running / enabled over the last interval; NAN: it was not enabled */
	bool estimated;	   /* by the last share that is known, counts are estimates */
	bool time_missing; /* of a CPU: its events have stopped in this interval */
	bool gap;	   /* since the last count that made a rate, a part of the time was not counted: no rate */
};

#define ROW_ALL_CPUS (-1)

/* A reference of somebody else to a row, which may be dropped. */
struct totals_watch {
	struct totals_row *row; /* NULL: it was dropped */
};

struct totals_row {
	enum scope scope;
	int cpu;			  /* or ROW_ALL_CPUS */
	struct totals_times *times;	  /* one a set; in a slab, with the cells */
	struct totals_cell *cells;	  /* one a column */
	struct totals_rate *rates;	  /* one a column; in a slab */
	struct cgroup_identity *identity; /* SCOPE_CGROUP; a reference */
	uint64_t since;			  /* CLOCK_REALTIME ns when its totals began at 0: only to be shown */
	uint64_t began;			  /* CLOCK_MONOTONIC ns of that moment; 0: in a daemon before this one */
	uint64_t gone_at;		  /* CLOCK_MONOTONIC ns when its cgroup was removed; 0: it exists */
	bool excluded;	 /* its CPU is excluded now: not shown by itself, but part of the sum of all CPUs */
	bool suspended;	 /* its cgroup can't be counted for now: not shown, and the total continues when it can */
	size_t number;	 /* in the image that was written last, … */
	size_t in_image; /* … and how many bytes of rows are before it */
	struct totals_watch *watch; /* or NULL */
	struct totals *totals;
	uint64_t changed; /* the ticks of the totals when it changed last (totals_note_change()) */
	uint64_t ticked;  /* CLOCK_MONOTONIC ns: the tick to which its rates were brought; since then all are 0, or not
			   * known */
	TAILQ_ENTRY(totals_row) in_totals;
	TAILQ_ENTRY(totals_row) in_changed;
	TAILQ_ENTRY(totals_row) in_gone; /* while gone_at is set */
	UT_hash_handle by_target;
	char target[]; /* the key: CPU and label */
};

/* Rows of one cgroup on several CPUs stand together, and go together. */
TAILQ_HEAD(totals_row_list, totals_row);

/* The sum of all CPUs' rates of a column. */
struct totals_sum {
	struct rate_averages averages;
	uint64_t waited; /* ns of intervals in which none of the rates was known yet */
};

/* The image that was written last (totals-image.h). */
struct totals_image {
	struct rewrite_place place; /* of the rows */
	uint64_t moves, ticks;	    /* of the totals then */
	uint64_t numbered;	    /* how often the rows' numbers have changed */
};

struct totals {
	struct plan *plan; /* a reference */
	struct totals_row_list rows[_SCOPE_MAX];
	size_t nr_rows[_SCOPE_MAX];
	struct totals_row_list changed; /* all rows, those that changed last at the end */
	uint64_t moves;			/* rows that came, went, linger or are there again */
	struct totals_row_list gone;	/* the rows that linger, in the order in which their cgroups went */
	size_t nr_gone, max_gone;	/* cgroups that linger */
	/* Of rows: times and cells, and rates. Not for child processes. */
	struct slab counts[_SCOPE_MAX], rates[_SCOPE_MAX];
	uint64_t pushed_out;	       /* cgroups that could not linger to the end for want of room */
	uint64_t *counted[_SCOPE_MAX]; /* one a column: counts of all rows since the caller last cleared it */
	struct totals_sum *all_cpus;   /* one a column of SCOPE_CPU */
	struct totals_image image;
	struct totals_row *by_target; /* users choose labels, but the number of rows is bounded */
	uint64_t ticks;		      /* intervals that have ended */
	uint64_t last_tick;	      /* CLOCK_MONOTONIC ns; 0: none yet */
	double interval;	      /* seconds: the last one */
	bool gap;		      /* totals_note_gap() was called since then */
	uint64_t gap_at;	      /* CLOCK_MONOTONIC ns: the end of the last interval with a gap; 0: none yet */
	bool suspends;		      /* totals_suspend() */
};

/* At most max_gone cgroups linger: more push out those that went first. -ENOMEM. */
int totals_new(struct totals **ret, struct plan *plan, size_t max_gone);
struct totals *totals_free(struct totals *totals);
DEFINE_CLEANUP(struct totals *, totals_free)

/*
 * The row of that target: a new one, or the one that lingers under the same label. That gets the new identity, so that
 * the series goes on. -ENOMEM.
 */
int totals_take(struct totals *totals, enum scope scope, int cpu, struct cgroup_identity *identity,
		struct totals_row **ret);

/* The row of that target, or NULL. */
struct totals_row *totals_find(const struct totals *totals, int cpu, const struct cgroup_identity *identity);

/* The cgroup of the row is gone and its totals are final. totals_expire() frees the row when it has lingered for
 * `linger` ns. Leaves a row alone that another cgroup of that label has taken up. */
void totals_retire(struct totals *totals, struct totals_row *row, const struct cgroup_identity *identity, uint64_t now);
void totals_expire(struct totals *totals, uint64_t now, uint64_t linger);
void totals_drop(struct totals *totals, struct totals_row *row);

/* The CPUs that are excluded now (NULL: none). Their rows are not shown, but their counts stay in the sum of all CPUs,
 * which would fall otherwise. Rows of a cgroup on one of them are dropped, since nobody sums these up. */
void totals_exclude(struct totals *totals, const struct cpulist *excluded);

/* From now on it is that row's, and no other one's; NULL: of none. */
void totals_set_watch(struct totals_watch *watch, struct totals_row *row);

/* Anything of the row has changed: of its cells, times or rates, whose it is, or whether it is shown. */
static inline void totals_note_change(struct totals_row *row)
{
	struct totals *totals = row->totals;

	if (row->changed == totals->ticks)
		return;
	row->changed = totals->ticks;
	TAILQ_REMOVE(&totals->changed, row, in_changed);
	TAILQ_INSERT_TAIL(&totals->changed, row, in_changed);
}

/* The first of the rows that have changed since there were so many ticks; the others follow in_changed. NULL: none. */
struct totals_row *totals_first_changed(const struct totals *totals, uint64_t ticks);

/* Does the row hold nothing that could be lost? */
bool totals_row_is_empty(const struct totals *totals, const struct totals_row *row);

/* --- adding */

/* Adds ns to the times of the row's set. */
void totals_add_times(struct totals_row *row, size_t set, uint64_t enabled, uint64_t running);

/* Adds a count for each member of the set, in the order of its columns. covered: the enabled time, in ns, that they
 * cover. */
void totals_add_counts(struct totals_row *row, const struct scope_plan *plan, size_t set, const uint64_t *counts,
		       uint64_t covered);

/* The result of one reading, as to whether the cells of a row are known. */
enum observation {
	OBSERVED_NOTHING, /* nothing (more) happens there: its CPU is, or was, offline, or it is not started yet */
	OBSERVED_NONE,	  /* never enabled there: a true 0 */
	OBSERVED_PENDING, /* enabled and never run: unknown */
	OBSERVED_RUNNING,
	OBSERVED_LOST, /* could not be opened, or not be read */
};

/* A CPU was online in this interval without being counted for a part of it: neither that CPU nor cgroups have rates. */
void totals_note_gap(struct totals *totals, int cpu);

/* The set of a CPU was not enabled for a part of the interval. */
void totals_note_missing_time(struct totals_row *row, size_t set);
/* Did any set of the CPU lack time since the last call? */
bool totals_take_missing_time(const struct totals *totals, int cpu);

/*
 * Settles whether the cells of a set are measured. observations: a bit (1 << enum observation) for each kind that any
 * of the row's CPUs has seen. A sum of which a part could not be read is no sum. Measured cells stay measured while
 * their group waits for the PMU. Cells that never were stay absent until the group has run somewhere, also if they were
 * a true 0 before the group was enabled.
 */
void totals_decide(struct totals_row *row, const struct scope_plan *plan, size_t set, unsigned observations);

/* No cell of the set, or of the row, is measured any more. */
void totals_unmeasure_set(struct totals_row *row, const struct scope_plan *plan, size_t set);
void totals_unmeasure(const struct totals *totals, struct totals_row *row);
