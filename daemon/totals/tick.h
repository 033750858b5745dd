/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The end of an interval: rates, their averages, and the shares of time that sets ran.
 *
 * Counts of a time in which a set waited for the PMU are added when it has run again (estimate.h); they are no rate of
 * that moment. A row whose sets all wait has no rate until then, and then one over the whole time. While some of its
 * sets count, these stand for the others. Where intervals are too short to tell anything (engine/perf/group.c), the
 * last rate stands until there is another.
 */

#include "totals/totals.h"

/* now: CLOCK_MONOTONIC ns of the reading that ends the interval. */
void totals_tick(struct totals *totals, uint64_t now);
