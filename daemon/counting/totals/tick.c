/* SPDX-License-Identifier: MIT */

#include "counting/totals/tick.h"

#include <math.h>

/* A rate is held for less than this time while nothing newer can be told: at most for two intervals that are each
 * too brief to tell a share of the PMU. */
#define HOLD_NS 100000000U

/* part: the part of the added counts that belongs to this interval. gap: they do not cover it. */
static void cell_tick(const struct totals_cell *cell, struct totals_rate *rate, const struct rate_step *step,
		      double part, bool gap, uint64_t *counted)
{
	uint64_t risen = cell->total - rate->at_tick;
	bool covered = rate->begun && !gap;

	*counted += risen;
	rate->rate = cell->measured && covered ? part * (double)risen / step->seconds : NAN;
	rate->held = false;
	rate->begun = cell->measured;
	rate->at_tick = cell->total;
	if (cell->measured && !covered)
		rate_averages_wait(&rate->averages, step);
	else
		rate_averages_add(&rate->averages, step, rate->rate);
}

static void rate_wait(struct totals_rate *rate, const struct rate_step *step, bool hold)
{
	rate->held = hold && !isnan(rate->rate);
	if (!hold)
		rate->rate = NAN;
	rate_averages_wait(&rate->averages, step);
}

/* On some of a row's CPUs the set may wait while it counts on others. So the added counts may cover more time than
 * the interval, or less. */
static void set_tick(struct totals_row *row, const struct set *set, struct totals_times *times,
		     const struct rate_step *step, uint64_t *counted)
{
	uint64_t enabled = times->enabled - times->enabled_at_tick;
	uint64_t running = times->running - times->running_at_tick;
	bool counts = set->exact || times->covered, waits = enabled && !counts;
	const struct rate_step whole = rate_step_longer(step, counts ? times->waited : 0);
	double part = set->exact || times->waited || !counts ? 1 : (double)enabled / (double)times->covered;

	for (size_t i = 0; i < set->nr; i++) {
		size_t column = set->columns[i];

		if (waits && row->cells[column].measured)
			rate_wait(&row->rates[column], step, times->waited + step->ns < HOLD_NS);
		else
			cell_tick(&row->cells[column], &row->rates[column], &whole, part, times->gap, &counted[column]);
	}
	times->gap &= waits;
	times->waited = waits ? times->waited + step->ns : counts ? 0 : times->waited;
	times->covered = 0;
	times->share = enabled ? fmin(1, (double)running / (double)enabled) : NAN;
	if (enabled)
		times->estimated = !set->exact && times->running && times->share < FULL_SHARE;
	times->enabled_at_tick = times->enabled;
	times->running_at_tick = times->running;
}

static void row_tick(struct totals_row *row, const struct scope_plan *plan, const struct rate_step *step,
		     uint64_t *counted)
{
	for (size_t i = 0; i < plan->nr_sets; i++)
		set_tick(row, &plan->sets[i], &row->times[i], step, counted);
	for (size_t i = 0; i < plan->nr_columns; i++)
		if (plan->columns[i].set == NO_SET)
			cell_tick(&row->cells[i], &row->rates[i], step, 1, false, &counted[i]);
}

static void sum_add(struct totals_sum *sum, const struct rate_step *step, double rate)
{
	const struct rate_step whole = rate_step_longer(step, sum->waited);

	rate_averages_add(&sum->averages, &whole, rate);
	sum->waited = 0;
}

static void sum_wait(struct totals_sum *sum, const struct rate_step *step)
{
	rate_averages_wait(&sum->averages, step);
	sum->waited += step->ns;
}

/* CPUs that are not measured for now, or wait, leave a sum of those that are. One that was counted for a part of the
 * interval leaves none. */
static void sum_tick(struct totals *totals, const struct rate_step *step)
{
	for (size_t i = 0; i < totals->plan->scope[SCOPE_CPU].nr_columns; i++) {
		double rate = NAN;
		bool measured = false, told = false;
		const struct totals_row *row;

		TAILQ_FOREACH(row, &totals->rows[SCOPE_CPU], in_totals) {
			measured |= row->cells[i].measured;
			told |= !isnan(row->rates[i].rate) && !row->rates[i].held;
			if (!isnan(row->rates[i].rate))
				rate = isnan(rate) ? row->rates[i].rate : rate + row->rates[i].rate;
		}
		if (measured && (totals->gap || !told))
			sum_wait(&totals->all_cpus[i], step);
		else
			sum_add(&totals->all_cpus[i], step, rate);
	}
}

void totals_tick(struct totals *totals, uint64_t now)
{
	/* The first tick ends no interval: counting started somewhere within it. */
	const struct rate_step step = rate_step_of(totals->last_tick, now);

	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		const struct scope_plan *plan = &totals->plan->scope[scope];
		struct totals_row *row;

		TAILQ_FOREACH(row, &totals->rows[scope], in_totals)
			row_tick(row, plan, &step, totals->counted[scope]);
	}
	sum_tick(totals, &step);
	totals->gap_at = totals->gap ? now : totals->gap_at;
	totals->gap = false;
	totals->last_tick = now;
}
