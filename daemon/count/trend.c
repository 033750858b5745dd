/* SPDX-License-Identifier: MIT */

#include "count/trend.h"

#include "util/cleanup.h"

#include <math.h>

#define BIN_NS 12000000000U

static const double time_constants[_TREND_MAX] = { [TREND_1M] = 60, [TREND_5M] = 300 };

static void set_length(struct trend_step *step, uint64_t ns)
{
	step->ns = ns;
	step->seconds = (double)ns / 1e9;
	for (unsigned i = 0; i < _TREND_MAX; i++)
		step->weight[i] = -expm1(-step->seconds / time_constants[i]);
}

struct trend_step trend_step_of(uint64_t last, uint64_t now)
{
	struct trend_step step = { .seconds = NAN, .bin = (unsigned)(now / BIN_NS % TREND_BINS) };
	uint64_t bins = now / BIN_NS - last / BIN_NS;

	if (last == 0 || now <= last)
		return step;
	step.fresh = bins < TREND_BINS ? (unsigned)bins : TREND_BINS;
	set_length(&step, now - last);
	return step;
}

struct trend_step trend_step_longer(const struct trend_step *step, uint64_t by)
{
	struct trend_step longer = *step;

	if (step->ns && by)
		set_length(&longer, step->ns + by);
	return longer;
}

void trend_forget(struct trend *trend)
{
	*trend = (struct trend){ .average = { NAN, NAN } };
	for (unsigned i = 0; i < TREND_BINS; i++)
		trend->highest[i] = NAN;
}

/* The first value is the average; then each counts by its part of the time known, until that is longer than what the
 * average goes back. */
static void add_to_averages(struct trend *trend, const struct trend_step *step, double rate)
{
	trend->known += (float)step->seconds;
	for (unsigned i = 0; i < _TREND_MAX; i++) {
		double average = isnan(trend->average[i]) ? 0 : (double)trend->average[i];
		double weight = fmin(1, fmax(step->weight[i], step->seconds / (double)trend->known));

		trend->average[i] = (float)(average + weight * (rate - average));
	}
}

void trend_wait(struct trend *trend, const struct trend_step *step)
{
	for (unsigned i = 0; i < step->fresh; i++)
		trend->highest[(step->bin + TREND_BINS - i) % TREND_BINS] = NAN;
}

void trend_add(struct trend *trend, const struct trend_step *step, double rate)
{
	trend_wait(trend, step);
	if (isnan(rate)) {
		trend->average[TREND_1M] = trend->average[TREND_5M] = NAN;
		trend->known = 0;
		return;
	}
	add_to_averages(trend, step, rate);
	trend->highest[step->bin] = fmaxf(trend->highest[step->bin], (float)rate);
}

float trend_highest(const struct trend *trend)
{
	float highest = NAN;

	for (unsigned i = 0; i < TREND_BINS; i++)
		highest = fmaxf(highest, trend->highest[i]);
	return highest;
}
