/* SPDX-License-Identifier: MIT */

#include "profiler/archive/archive-gaps.h"

#include <string.h>

void archive_gaps_note(struct archive_gaps *gaps, uint64_t from, uint64_t to)
{
	if (from >= to)
		return;
	if (gaps->nr == ARCHIVE_GAPS_MAX)
		memmove(&gaps->latest[0], &gaps->latest[1], --gaps->nr * sizeof(gaps->latest[0]));
	gaps->latest[gaps->nr++] = (struct archive_gap){ .from = from, .to = to };
	gaps->ns += to - from;
}

uint64_t archive_gaps_between(const struct archive_gaps *gaps, uint64_t from, uint64_t to)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < gaps->nr; i++) {
		const struct archive_gap *gap = &gaps->latest[i];
		uint64_t begin = gap->from > from ? gap->from : from, end = gap->to < to ? gap->to : to;

		sum += end > begin ? end - begin : 0;
	}
	return sum;
}
