/* SPDX-License-Identifier: MIT */
#pragma once

/* The highest value of the last minute, kept in bins of ten seconds, of which the oldest is dropped: a value counts for
 * 60 to 70 s. A zeroed struct is empty. */

#include <stddef.h>
#include <stdint.h>

#define WINDOW_BINS 7
#define WINDOW_BIN_NS 10000000000U

struct windowed_max {
	uint64_t bins[WINDOW_BINS]; /* [number of the bin % WINDOW_BINS] */
	uint64_t last;		    /* the number of the last one */
};

/* now: CLOCK_MONOTONIC ns. */
void windowed_max_add(struct windowed_max *window, uint64_t now, uint64_t ns);
uint64_t windowed_max_get(struct windowed_max *window, uint64_t now);
