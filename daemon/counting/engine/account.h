/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Where the readings of a set go: to a row of the totals, and to the set's health. Engines add times and counts through
 * an account and through nothing else. Which cells are measured, they tell totals_decide().
 */

#include "counting/engine/engine.h"

struct account {
	struct totals_row *row; /* NULL: there is none, and nothing is added */
	const struct scope_plan *plan;
	size_t set; /* its number in the plan */
	struct set_health *health;
	bool idles; /* the target's time has idle time in it */
};

static inline const struct set *account_set(const struct account *account)
{
	return &account->plan->sets[account->set];
}

/* Adds ns in which the set was enabled, and was running. */
void account_add_times(const struct account *account, uint64_t enabled, uint64_t running);

/* Adds a count for each member of the set; covered: the enabled time, in ns, that they cover. */
void account_add_counts(const struct account *account, const uint64_t *counts, uint64_t covered);

/* Notes that the set of a CPU was not enabled for a part of the interval. */
void account_note_missing_time(const struct account *account);

/* Notes what a reading shows of a group. enabled: how long it has been since it was opened (ns); ran: has it run, or
 * counted; timeless: it has counted while its running time stood still (cgroup events on kernel 6.18). */
void account_note_run(const struct account *account, uint64_t enabled, bool ran, bool timeless);

/* Are the set's cells in the row measured already? */
bool account_is_measured(const struct account *account);

/* Notes that a reading has to wait: the kernel's enabled time lags behind the time that the group ran. */
void account_note_lag(const struct account *account);

/* Notes that a reading failed, and why. */
void account_note_failure(const struct account *account, const struct reason *why);

/* Why a pinned set counts nothing on the CPU: -ENODATA, with the sentence. */
int account_explain_starved(struct reason *why, int cpu);
