/* SPDX-License-Identifier: MIT */

#include "base/util/windowed-max.h"

static void move_on(struct windowed_max *window, uint64_t now)
{
	uint64_t bin = now / WINDOW_BIN_NS, first = window->last + 1;

	if (bin >= WINDOW_BINS && first < bin - WINDOW_BINS + 1)
		first = bin - WINDOW_BINS + 1;
	for (uint64_t i = first; i <= bin; i++)
		window->bins[i % WINDOW_BINS] = 0;
	if (bin > window->last)
		window->last = bin;
}

void windowed_max_add(struct windowed_max *window, uint64_t now, uint64_t ns)
{
	uint64_t *bin;

	move_on(window, now);
	bin = &window->bins[window->last % WINDOW_BINS];
	if (ns > *bin)
		*bin = ns;
}

uint64_t windowed_max_get(struct windowed_max *window, uint64_t now)
{
	uint64_t max = 0;

	move_on(window, now);
	for (int i = 0; i < WINDOW_BINS; i++)
		max = window->bins[i] > max ? window->bins[i] : max;
	return max;
}
