/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The totals: what has been counted, apart from the fds it came from.
 *
 * A row is a target that has series: a CPU, a cgroup, or a cgroup on one CPU. It has a cell for each
 * column of its scope's plan and the times of each set. Engines add to rows; nothing ever takes away,
 * so totals are monotonic for the life of a row, whatever happens to the fds below: a reload opens them
 * anew, a cgroup is removed (its row lingers) and made again (the row is taken up again).
 */

#include "count/plan.h"
#include "count/trend.h"
#include "target/cgroup.h"
#include "util/hash.h"

#include <sys/queue.h>

struct cell {
	uint64_t total;	  /* counts, before the event's scale */
	uint64_t at_tick; /* total at the end of the last interval */
	double rate;	  /* counts per second over the last interval; NAN where that is not known (yet) */
	struct trend trend; /* of that rate */
	bool measured;	  /* something observed it; else it is absent, not 0 */
	bool held;	  /* its rate is of before: too little time has passed since then to tell another */
};

/* Of one set in one row, in ns: sums over the CPUs and lives of the fds that fed it. */
struct set_times {
	uint64_t enabled, running;
	uint64_t enabled_at_tick, running_at_tick;
	uint64_t covered; /* enabled time that what was counted since the last interval is of; it can be of before */
	uint64_t waited;  /* length of intervals in which it was enabled and nothing was counted, since something was */
	double share; /* running / enabled over the last interval; NAN where it was not enabled */
};

#define ROW_ALL_CPUS (-1)

struct row {
	enum scope scope;
	int cpu;			  /* or ROW_ALL_CPUS */
	struct cgroup_identity *identity; /* SCOPE_CGROUP; a reference */
	uint64_t since;			  /* CLOCK_REALTIME ns when its totals began at 0 */
	uint64_t gone_at;		  /* CLOCK_MONOTONIC ns when its cgroup was removed; 0: it is there */
	bool excluded; /* of a CPU that is left alone now: of no interest by itself, but a part of the CPUs' sum */
	bool held; /* its cgroup can't be counted for now: not shown, and the total goes on when it can */
	size_t number;			  /* in an image, while that is written */
	TAILQ_ENTRY(row) in_ledger;
	TAILQ_ENTRY(row) in_gone; /* while gone_at is set */
	struct cell *cells;		  /* one a column; of the same allocation */
	struct set_times *times;	  /* one a set; of the same allocation */
	UT_hash_handle by_target;
	char target[];			  /* the key: CPU and label */
};

/* Rows of one cgroup on several CPUs stand together, and go together. */
TAILQ_HEAD(row_list, row);

/* Of all CPUs' rates of a column. */
struct sum {
	struct trend trend;
	uint64_t waited; /* ns of intervals in which none of them was known yet */
};

struct ledger {
	struct plan *plan; /* a reference */
	struct row_list rows[_SCOPE_MAX];
	size_t nr_rows[_SCOPE_MAX];
	struct row_list gone; /* of them, the rows that linger, those gone first in front */
	size_t nr_gone, max_gone; /* cgroups that they are of */
	uint64_t pushed_out;	  /* cgroups for which there was no room to linger any longer */
	uint64_t *counted[_SCOPE_MAX]; /* one a column: by all rows since it was last looked at */
	struct sum *all_cpus;	       /* one a column of SCOPE_CPU */
	struct row *by_target; /* labels are anybody's to choose, but how many rows there are is bounded */
	uint64_t last_tick; /* CLOCK_MONOTONIC ns; 0: none yet */
	bool holds; /* ledger_carry() holds cgroups that are not counted any more, and does not have them linger */
};

/* At most max_gone cgroups linger: more push out those that were gone first. */
int ledger_new(struct ledger **ret, struct plan *plan, size_t max_gone);
struct ledger *ledger_free(struct ledger *ledger);
DEFINE_CLEANUP(struct ledger *, ledger_free)

/*
 * The row of that target: new, or taken up again where one lingers under the same label, whose identity
 * is then replaced (the series goes on). -ENOMEM.
 */
int ledger_take(struct ledger *ledger, enum scope scope, int cpu, struct cgroup_identity *identity, struct row **ret);

/* The row of that target, or NULL. */
struct row *ledger_find(const struct ledger *ledger, int cpu, const struct cgroup_identity *identity);

/* Its cgroup is gone, its totals are final: ledger_expire() frees it once it has lingered long enough
 * (ns). A row already taken up again by another cgroup of that label is left alone. */
void ledger_retire(struct ledger *ledger, struct row *row, const struct cgroup_identity *identity, uint64_t now);
void ledger_expire(struct ledger *ledger, uint64_t now, uint64_t linger);
void ledger_drop(struct ledger *ledger, struct row *row);

/*
 * Ends an interval: works out rates, their trends and shares from what was added since the last. What happens while a
 * set waits for the PMU is added when it has run again (estimate.h), and is no rate of that moment: a row's sets that
 * all wait have no rate until then, and then one over all of the time; while some of them count, they stand for the
 * others. Where intervals are so short that there is nothing to tell of them (reader.c), the last rate stands until
 * there is.
 */
void ledger_tick(struct ledger *ledger, uint64_t now);

/* Nothing in the row is measured any more. */
void ledger_unmeasure(const struct ledger *ledger, struct row *row);

/* Does it hold anything that could be lost? */
bool ledger_row_is_empty(const struct ledger *ledger, const struct row *row);

/*
 * Takes over from the ledger this one replaces: the totals of each event that is counted in both, for each target that
 * is in both; the rows of CPUs that are not counted now, of which the caller knows why; the rows that linger, and
 * those of cgroups that are not counted any more, which linger from now on, or are held, as far as they are of the kind
 * that is made now (per_cpu: a cgroup has a row a CPU). What stays configured is not reset. cpus: those that are
 * counted now. -ENOMEM.
 */
int ledger_carry(struct ledger *to, const struct ledger *from, bool per_cpu, const struct cpulist *cpus, uint64_t now);
