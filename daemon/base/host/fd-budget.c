/* SPDX-License-Identifier: MIT */

#include "base/host/fd-budget.h"

#include <assert.h>

/* Files of neither events nor connections, where the limit allows them all. */
#define OTHER_FILES 128

/* Without these nothing works: the files that are open all the time, and the few that are opened for a moment to look
 * at something. */
#define INDISPENSABLE_FILES 24
#define FEW_CONNECTIONS 4

static uint64_t lower(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t higher(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

size_t fd_budget_reserve(uint64_t fd_limit, uint64_t connections)
{
	/* With a very low limit, answering requests goes before counting. */
	uint64_t least = lower(fd_limit, INDISPENSABLE_FILES + FEW_CONNECTIONS);

	assert(connections <= UINT32_MAX);
	return (size_t)lower(OTHER_FILES + connections, higher(fd_limit / 2, least));
}

unsigned fd_budget_connections(uint64_t fd_limit, uint64_t connections)
{
	size_t reserve = fd_budget_reserve(fd_limit, connections);
	uint64_t others = higher(lower(reserve / 2, OTHER_FILES), INDISPENSABLE_FILES);
	uint64_t fit = reserve > others ? reserve - others : 1;

	return (unsigned)lower(connections, fit);
}
