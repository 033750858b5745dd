/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * CPU time that children may take: a burst at first, and then a share of the time that passes.
 */

#include "base/util/clock.h"

#include <stdbool.h>

struct cpu_budget {
	int64_t burst_ns;  /* the most that can be saved up */
	unsigned share;	   /* one ns is credited for so many that pass */
	int64_t left_ns;   /* below 0: more was taken than there was */
	uint64_t credited; /* CLOCK_MONOTONIC ns: the last credit; 0: there was none */
};

/* Credits the time that has passed. Is any CPU time left? */
static inline bool cpu_budget_has_some(struct cpu_budget *budget, uint64_t now)
{
	if (!budget->credited)
		budget->left_ns = budget->burst_ns;
	else
		budget->left_ns += (int64_t)((now - budget->credited) / budget->share);
	budget->credited = now;
	if (budget->left_ns > budget->burst_ns)
		budget->left_ns = budget->burst_ns;
	return budget->left_ns > 0;
}

static inline void cpu_budget_take(struct cpu_budget *budget, uint64_t ns)
{
	budget->left_ns -= (int64_t)ns;
}
