/* SPDX-License-Identifier: MIT */

#include "counting/totals/tick.h"

#include <math.h>

/* A rate stands for less than this time while nothing newer can be told: at most for two intervals that are each
 * too brief to tell a share of the PMU. */
#define STANDS_NS 100000000U

/* part: the part of the added counts that belongs to this interval. gap: they do not cover it. */
static void cell_tick(const struct totals_cell *cell, struct totals_rate *rate, const struct rate_step *step,
		      double part, bool gap, uint64_t *counted)
{
	uint64_t risen = cell->total - rate->at_tick;
	bool covered = rate->begun && !gap;

	*counted += risen;
	rate->rate = cell->measured && covered ? part * (double)risen / step->seconds : NAN;
	rate->stands = false;
	rate->begun = cell->measured;
	rate->at_tick = cell->total;
	if (cell->measured && !covered)
		rate_averages_wait(&rate->averages, step);
	else
		rate_averages_add(&rate->averages, step, rate->rate);
}

static void rate_wait(struct totals_rate *rate, const struct rate_step *step, bool stands)
{
	rate->stands = stands && !isnan(rate->rate);
	if (!stands)
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
			rate_wait(&row->rates[column], step, times->waited + step->ns < STANDS_NS);
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

struct rate_zeros totals_zeros(const struct totals_row *row)
{
	return rate_zeros_of(row->ticked, row->totals->last_tick, row->totals->interval);
}

static void bring_up(struct rate_averages *averages, const struct totals_rate *rate, struct rate_zeros *zeros)
{
	if (rate->begun)
		rate_averages_add_zeros(averages, zeros);
	else
		rate_averages_wait(averages, &zeros->all);
}

struct rate_averages totals_averages(const struct totals_row *row, size_t column, struct rate_zeros *zeros)
{
	struct rate_averages averages = row->rates[column].averages;

	if (row->ticked != row->totals->last_tick)
		bring_up(&averages, &row->rates[column], zeros);
	return averages;
}

static void row_bring_up(struct totals_row *row, const struct scope_plan *plan)
{
	struct rate_zeros zeros = totals_zeros(row);

	for (size_t i = 0; i < plan->nr_columns; i++)
		bring_up(&row->rates[i].averages, &row->rates[i], &zeros);
}

/* Are all rates 0 that are known, and will be as long as nothing is added? */
static bool is_sure(const struct totals_row *row, const struct scope_plan *plan)
{
	for (size_t i = 0; i < plan->nr_sets; i++)
		if (row->times[i].gap)
			return false;
	for (size_t i = 0; i < plan->nr_columns; i++)
		if (row->rates[i].begun != row->cells[i].measured || (row->rates[i].begun && row->rates[i].rate != 0))
			return false;
	return true;
}

/* A row has to be quiet for an interval before it is left alone. */
static void tick_changed(struct totals *totals, const struct rate_step *step, uint64_t now)
{
	uint64_t tick = totals->ticks++;
	struct totals_row *next;

	for (struct totals_row *row = totals_first_changed(totals, tick ? tick - 1 : 0); row && row->changed <= tick;
	     row = next) {
		const struct scope_plan *plan = &totals->plan->scope[row->scope];

		next = TAILQ_NEXT(row, in_changed);
		if (row->ticked != totals->last_tick)
			row_bring_up(row, plan);
		row_tick(row, plan, step, totals->counted[row->scope]);
		row->ticked = now;
		if (!is_sure(row, plan))
			totals_note_change(row);
	}
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
			told |= !isnan(row->rates[i].rate) && !row->rates[i].stands;
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

	tick_changed(totals, &step, now);
	sum_tick(totals, &step);
	totals->gap_at = totals->gap ? now : totals->gap_at;
	totals->gap = false;
	totals->interval = step.ns ? step.seconds : totals->interval;
	totals->last_tick = now;
}
