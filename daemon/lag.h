/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The longest of something within the last minute: bins of ten seconds, of which the oldest is forgotten.
 */

#include <stddef.h>
#include <stdint.h>

#define LAG_BINS 7
#define LAG_BIN_NS 10000000000U

struct lag {
	uint64_t bins[LAG_BINS]; /* [number of the bin % LAG_BINS] */
	uint64_t last;		 /* the number of the last one */
};

/* now: CLOCK_MONOTONIC ns. */
void lag_note(struct lag *lag, uint64_t now, uint64_t ns);
uint64_t lag_max(struct lag *lag, uint64_t now);
