/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The end of an interval: rates, their averages, and the shares of time that sets ran.
 *
 * Counts of a time in which a set waited for the PMU are added when it has run again (estimate.h); they are no rate of
 * that moment. A row whose sets all wait has no rate until then, and then one over the whole time. While some of its
 * sets count, these stand for the others. Where intervals are too short to tell anything
 * (counting/engine/perf/group.c), the last rate stands until there is another.
 *
 * An interval in which a CPU was not counted all the time (totals_note_gap()), or in which a cell began to be measured,
 * has no rate: its counts are those of a part of it.
 *
 * A row to which nothing has been added in an interval, and whose rates are 0 or not known, is left alone until it
 * changes. Then its averages are brought up to date; meanwhile totals_averages() tells them.
 */

#include "counting/totals/rows.h"

/* With a smaller share of the time counts are estimates; above, the gap is the time it takes to schedule a set in. */
#define FULL_SHARE 0.995

/* now: CLOCK_MONOTONIC ns of the reading that ends the interval. */
void totals_tick(struct totals *totals, uint64_t now);

/* The intervals in which the row was left alone, for totals_averages(). */
struct rate_zeros totals_zeros(const struct totals_row *row);
/* The averages of a column's rate at the end of the last interval. */
struct rate_averages totals_averages(const struct totals_row *row, size_t column, struct rate_zeros *zeros);
