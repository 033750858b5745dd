/* SPDX-License-Identifier: MIT */

#include "counting/totals/rate-averages.h"

#include "base/util/cleanup.h"

#include <math.h>

#define BIN_NS 12000000000U

static const double time_constants[_RATE_MAX] = { [RATE_1M] = 60, [RATE_5M] = 300 };

static void set_length(struct rate_step *step, uint64_t ns)
{
	step->ns = ns;
	step->seconds = (double)ns / 1e9;
	for (unsigned i = 0; i < _RATE_MAX; i++)
		step->weight[i] = -expm1(-step->seconds / time_constants[i]);
}

/* Without length. */
static struct rate_step step_of_bins(uint64_t last, uint64_t now)
{
	struct rate_step step = { .seconds = NAN, .bin = (unsigned)(now / BIN_NS % RATE_BINS) };
	uint64_t bins = now / BIN_NS - last / BIN_NS;

	if (last > 0 && now > last)
		step.fresh = bins < RATE_BINS ? (unsigned)bins : RATE_BINS;
	return step;
}

struct rate_step rate_step_of(uint64_t last, uint64_t now)
{
	struct rate_step step = step_of_bins(last, now);

	if (last > 0 && now > last)
		set_length(&step, now - last);
	return step;
}

struct rate_step rate_step_longer(const struct rate_step *step, uint64_t by)
{
	struct rate_step longer = *step;

	if (step->ns && by)
		set_length(&longer, step->ns + by);
	return longer;
}

void rate_averages_forget(struct rate_averages *averages)
{
	*averages = (struct rate_averages){ .average = { NAN, NAN } };
	for (unsigned i = 0; i < RATE_BINS; i++)
		averages->highest[i] = NAN;
}

/* The first value is the average. Later ones count by their part of the known time, until that is longer than the
 * average reaches back. */
static void add_to_averages(struct rate_averages *averages, const struct rate_step *step, double rate)
{
	averages->known += (float)step->seconds;
	for (unsigned i = 0; i < _RATE_MAX; i++) {
		double average = isnan(averages->average[i]) ? 0 : (double)averages->average[i];
		double weight = fmin(1, fmax(step->weight[i], step->seconds / (double)averages->known));

		averages->average[i] = (float)(average + weight * (rate - average));
	}
}

void rate_averages_wait(struct rate_averages *averages, const struct rate_step *step)
{
	for (unsigned i = 0; i < step->fresh; i++)
		averages->highest[(step->bin + RATE_BINS - i) % RATE_BINS] = NAN;
}

void rate_averages_add(struct rate_averages *averages, const struct rate_step *step, double rate)
{
	rate_averages_wait(averages, step);
	if (isnan(rate)) {
		averages->average[RATE_1M] = averages->average[RATE_5M] = NAN;
		averages->known = 0;
		return;
	}
	add_to_averages(averages, step, rate);
	averages->highest[step->bin] = fmaxf(averages->highest[step->bin], (float)rate);
}

struct rate_zeros rate_zeros_of(uint64_t last, uint64_t now, double interval)
{
	struct rate_zeros zeros = { .all = step_of_bins(last, now), .interval = interval, .known = NAN };

	zeros.all.seconds = (double)(now - last) / 1e9;
	return zeros;
}

/* The part of an average that is left. Of the intervals, the first count by their part of the known time, as long as
 * that is more than their weight (add_to_averages()). */
static double part_left(const struct rate_zeros *zeros, double constant)
{
	double interval = zeros->interval, known = zeros->known, most, mean = 0;

	if (known == 0)
		return 0;
	if (known < constant) {
		most = interval / -expm1(-interval / constant);
		mean = fmin(zeros->all.seconds, fmax(0, floor((most - known) / interval)) * interval);
	}
	return known / (known + mean) * exp(-(zeros->all.seconds - mean) / constant);
}

void rate_averages_add_zeros(struct rate_averages *averages, struct rate_zeros *zeros)
{
	rate_averages_wait(averages, &zeros->all);
	averages->highest[zeros->all.bin] = fmaxf(averages->highest[zeros->all.bin], 0);
	if (zeros->known != (double)averages->known) {
		zeros->known = (double)averages->known;
		for (unsigned i = 0; i < _RATE_MAX; i++)
			zeros->factor[i] = part_left(zeros, time_constants[i]);
	}
	for (unsigned i = 0; i < _RATE_MAX; i++)
		averages->average[i] =
			isnan(averages->average[i]) ? 0 : (float)((double)averages->average[i] * zeros->factor[i]);
	averages->known += (float)zeros->all.seconds;
}

float rate_averages_highest(const struct rate_averages *averages)
{
	float highest = NAN;

	for (unsigned i = 0; i < RATE_BINS; i++)
		highest = fmaxf(highest, averages->highest[i]);
	return highest;
}
