/* SPDX-License-Identifier: MIT */

#include "counting/session/stall.h"

#define STEADY_WINDOW_NS 1000000000U
#define OTHERS_WINDOW_NS 10000000000U
#define STEADY_NS_PER_COUNT 1000U

void stall_update(struct stall *stall, bool steady, uint64_t counted, uint64_t busy)
{
	stall->has_counted = stall->has_counted || counted > 0;
	if (!steady && stall->has_counted) {
		*stall = (struct stall){ .has_counted = true };
		return;
	}
	if (!busy)
		return;
	stall->busy += busy;
	stall->counted += counted;
	if (stall->busy < (steady ? STEADY_WINDOW_NS : OTHERS_WINDOW_NS))
		return;
	stall->stalled = !steady || stall->counted < stall->busy / STEADY_NS_PER_COUNT;
	stall->busy = stall->counted = 0;
}

bool stall_is_in_doubt(const struct stall *stall, bool steady, uint64_t counted, uint64_t running)
{
	return steady ? stall->stalled || counted < running / STEADY_NS_PER_COUNT :
			running > 0 && !stall->stalled && !stall->has_counted;
}
