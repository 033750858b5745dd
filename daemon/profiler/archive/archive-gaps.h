/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The stretches in which nothing was sampled. Their sum is kept for ever, and the latest of them one by one.
 */

#include <stddef.h>
#include <stdint.h>

#define ARCHIVE_GAPS_MAX 64

/* CLOCK_MONOTONIC ns. */
struct archive_gap {
	uint64_t from, to;
};

struct archive_gaps {
	uint64_t ns; /* of all that there ever were */
	size_t nr;   /* of the latest, oldest first */
	struct archive_gap latest[ARCHIVE_GAPS_MAX];
};

/* One that ends before it begins is none. */
void archive_gaps_note(struct archive_gaps *gaps, uint64_t from, uint64_t to);

/* ns of a stretch that were not sampled, by the latest gaps. */
uint64_t archive_gaps_between(const struct archive_gaps *gaps, uint64_t from, uint64_t to);
