/* SPDX-License-Identifier: MIT */

#include "counting/snapshot/snapshot-sum.h"

#include <errno.h>
#include <stdlib.h>

/* The wall clock could have been set between the two. It has to do for rows of a daemon before this one. */
static bool began_before(const struct snapshot_row *row, const struct snapshot_row *other)
{
	return row->began < other->began || (row->began == other->began && row->since < other->since);
}

static void add_row(struct snapshot_table *sums, const struct snapshot_table *from, size_t row)
{
	if (began_before(&from->rows[row], &sums->rows[0])) {
		sums->rows[0].since = from->rows[row].since;
		sums->rows[0].began = from->rows[row].began;
	}
	for (size_t i = 0; i < from->nr_columns; i++) {
		const struct snapshot_cell *cell = snapshot_cell(from, row, i);
		struct snapshot_cell *sum = &sums->cells[i];

		/* A CPU that cannot be read for a while keeps its part: the sum must not decrease. */
		if (__builtin_add_overflow(sum->total, cell->total, &sum->total))
			sum->total = UINT64_MAX;
		if (!cell->measured)
			continue;
		/* Without the rate of one CPU, the sum of the others is not the rate of all. */
		sum->rate = sum->measured ? sum->rate + cell->rate : cell->rate;
		sum->measured = true;
	}
	for (size_t i = 0; i < from->nr_sets; i++) {
		const struct snapshot_times *times = &from->times[row * from->nr_sets + i];

		sums->times[i].enabled += times->enabled;
		sums->times[i].running += times->running;
		sums->times[i].estimated |= times->estimated;
	}
}

/* All CPUs were enabled for the same time, so that the share of all is the mean of their shares. */
static double mean_share(const struct snapshot_table *table, size_t set)
{
	double sum = 0;
	size_t nr = 0;

	for (size_t row = 0; row < table->nr_rows; row++) {
		double share = table->times[row * table->nr_sets + set].share;

		if (isnan(share))
			continue;
		sum += share;
		nr++;
	}
	return nr ? sum / (double)nr : NAN;
}

int snapshot_sum(struct snapshot_table *sums, const struct snapshot_table *from)
{
	sums->columns = from->columns;
	sums->nr_columns = from->nr_columns;
	sums->nr_sets = from->nr_sets;
	sums->rows = calloc(1, sizeof(*sums->rows));
	sums->cells = calloc(from->nr_columns + 1, sizeof(*sums->cells));
	sums->times = calloc(from->nr_sets + 1, sizeof(*sums->times));
	if (!sums->rows || !sums->cells || !sums->times)
		return -ENOMEM;
	if (from->nr_rows == 0)
		return 0;

	sums->nr_rows = 1;
	sums->rows[0] = (struct snapshot_row){
		.cpu = ROW_ALL_CPUS,
		.place = { CPU_NOWHERE, CPU_NOWHERE },
	};
	for (size_t i = 0; i < from->nr_columns; i++) {
		sums->cells[i] = from->sums[i];
		sums->cells[i].rate = NAN;
	}
	sums->rows[0].since = from->rows[0].since;
	sums->rows[0].began = from->rows[0].began;
	for (size_t row = 0; row < from->nr_rows; row++)
		add_row(sums, from, row);
	for (size_t i = 0; i < from->nr_sets; i++)
		sums->times[i].share = mean_share(from, i);
	return 0;
}

void snapshot_sum_release(struct snapshot_table *sums)
{
	free(sums->rows);
	free(sums->cells);
	free(sums->times);
	*sums = (struct snapshot_table){};
}
