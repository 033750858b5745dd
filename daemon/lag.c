/* SPDX-License-Identifier: MIT */

#include "lag.h"

static void move_on(struct lag *lag, uint64_t now)
{
	uint64_t bin = now / LAG_BIN_NS, first = lag->last + 1;

	if (bin >= LAG_BINS && first < bin - LAG_BINS + 1)
		first = bin - LAG_BINS + 1;
	for (uint64_t i = first; i <= bin; i++)
		lag->bins[i % LAG_BINS] = 0;
	if (bin > lag->last)
		lag->last = bin;
}

void lag_note(struct lag *lag, uint64_t now, uint64_t ns)
{
	uint64_t *bin;

	move_on(lag, now);
	bin = &lag->bins[lag->last % LAG_BINS];
	if (ns > *bin)
		*bin = ns;
}

uint64_t lag_max(struct lag *lag, uint64_t now)
{
	uint64_t max = 0;

	move_on(lag, now);
	for (int i = 0; i < LAG_BINS; i++)
		max = lag->bins[i] > max ? lag->bins[i] : max;
	return max;
}
