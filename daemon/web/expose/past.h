/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A selection from the past (counting/history/history.h): the scopes, cgroups, events and the stretch of time that a
 * query asks for. Rows and points are those of the last reading: nothing is read for it. A snapshot says how CPUs are
 * shown: as their sum where it aggregates, and where they are.
 *
 * It is a copy, so that it can be written in another thread (past-text.h). The copy is made on the loop, in steps,
 * since there can be millions of points to look at, and globs to match. If the history changes between two steps, it
 * begins anew. Only the selection of the whole past is no copy: its points are loaded as they are written.
 */

#include "counting/history/history.h"
#include "web/expose/expose.h"
#include "web/expose/sieve.h"

/* The most points that are copied: some tens of milliseconds of writing, and some megabytes. */
#define PAST_POINTS_MAX 200000U

enum past_kind {
	PAST_RATES,  /* points */
	PAST_TOTALS, /* points, and the totals before them */
	PAST_WHOLE,  /* the same, of everything, not copied, without a bound */
};

struct past_target {
	enum scope scope;
	const struct history_row *row;	  /* borrowed, until it is copied; NULL: the sum of all CPUs */
	struct cgroup_identity *identity; /* SCOPE_CGROUP; a reference */
	int cpu;			  /* or ROW_ALL_CPUS */
	bool gone;
	size_t series; /* the number of its first one; one for each selected column of its scope */
};

struct past {
	const struct history *history;	  /* borrowed, and not looked at when the copy is complete */
	const struct snapshot *snapshot;  /* borrowed */
	const struct expose_query *query; /* borrowed */
	enum past_kind kind;
	struct plan *plan;			/* a reference; NULL: there is no past */
	struct history_slot all[HISTORY_SLOTS]; /* without a bound on the time */
	size_t nr_all, first, end;		/* selected: first to end - 1 */
	bool repeated[HISTORY_SLOTS];		/* the wall clock was set back, and has shown that time again */
	size_t *columns[_SCOPE_MAX];
	size_t nr_columns[_SCOPE_MAX];
	struct past_target *targets; /* in the order of the history: those that are gone come last */
	size_t nr_targets;
	double *values; /* of all series that are copied; of PAST_WHOLE, of one */
	size_t nr_series, room;
	/* How far the copy is: */
	uint64_t changes; /* of the history when it began */
	unsigned nr_begun;
	struct sieve events, cgroups;
	int scope;		       /* whose columns are chosen */
	size_t next, copied, column;   /* columns looked at; targets copied; columns copied of the next one */
	const struct history_row *row; /* looked at last; NULL: none */
	bool is_complete;
};

/* Borrows all until it is freed. -ENOMEM; -EINVAL: CLOCK_STEPS_REVERSED. */
int past_new(struct past **ret, const struct history *history, const struct snapshot *snapshot,
	     const struct expose_query *query, enum past_kind kind);
/* On the loop, too. */
struct past *past_free(struct past *past);
DEFINE_CLEANUP(struct past *, past_free)

/* Goes on until that time (CLOCK_MONOTONIC ns). 1: there is more to do; 0: it is complete. -ENOMEM; -E2BIG as of
 * expose.h; -EOVERFLOW: more than PAST_POINTS_MAX; -EINVAL as above; -ESTALE: the history changes too often. */
int past_step(struct past *past, uint64_t until);

/* The i-th selected column. */
const struct column *past_column(const struct past *past, enum scope scope, size_t i);

/*
 * Of the target's i-th selected column: the total at the beginning of the first selected slot (of PAST_RATES it has no
 * meaning), and then the counts in each selected slot, NAN: not known. Slots that are repeated are not in the total. Of
 * PAST_WHOLE until the next call.
 */
const double *past_series(struct past *past, const struct past_target *target, size_t i);
