/* SPDX-License-Identifier: MIT */

#include "counting/engine/account.h"

#include <errno.h>

void account_add_times(const struct account *account, uint64_t enabled, uint64_t running)
{
	if (!account->row)
		return;
	totals_add_times(account->row, account->set, enabled, running);
	account->health->enabled += enabled;
	account->health->running += running;
	if (!account->idles)
		account->health->busy += running;
}

void account_add_counts(const struct account *account, const uint64_t *counts, uint64_t covered)
{
	if (account->row)
		totals_add_counts(account->row, account->plan, account->set, counts, covered);
}

void account_note_missing_time(const struct account *account)
{
	totals_note_missing_time(account->row, account->set);
}

void account_note_run(const struct account *account, uint64_t enabled, bool ran, bool timeless)
{
	struct set_health *health = account->health;

	if (!account->row)
		return;
	if (enabled > health->waited)
		health->waited = enabled;
	health->ever_ran |= ran;
	health->timeless |= timeless;
}

bool account_is_measured(const struct account *account)
{
	return account->row && account->row->cells[account_set(account)->columns[0]].measured;
}

void account_note_lag(const struct account *account)
{
	account->health->lagged = true;
}

void account_note_failure(const struct account *account, const struct reason *why)
{
	if (!account->row)
		return;
	account->health->failures++;
	account->health->why = *why;
}

int account_explain_starved(struct reason *why, int cpu)
{
	return reason_set(why, -ENODATA,
			  "CPU %d has no counters free for it, and it is pinned, which is all or nothing: it is tried "
			  "again at each reading",
			  cpu);
}
