/* SPDX-License-Identifier: MIT */

#include "engine/bpf/calibration.h"

#include <math.h>

/* How far the time that was covered may be from that which has passed: a part of it. */
#define UNCOVERED 0.01

/* A factor beyond these comes from something else than chance. */
#define LEAST_FACTOR 0.5
#define MOST_FACTOR 2.0

/* A comparison that takes longer is given up. */
#define PATIENCE_NS 10000000000U

static struct bpf_calibration *find(const struct bpf_engine *engine, uint32_t cpu, size_t set)
{
	const struct bpf_kernel *kernel = engine->kernel;

	return &kernel->calibrations[(size_t)cpu * kernel->sizes.events + engine->sets[set].first_event];
}

static double rise(uint64_t from, uint64_t to)
{
	return to > from ? (double)(to - from) : 0;
}

/* The next comparison begins here. What was given before is not part of it, and what is pending was counted before. */
static void start(struct bpf_engine *engine, uint32_t cpu, size_t set)
{
	const struct credit_cpu *at = &engine->kernel->cpus[cpu];
	const struct bpf_set *numbers = &engine->sets[set];
	struct bpf_calibration *calibration = find(engine, cpu, set);

	for (size_t i = 0; i < bpf_plan(engine)->sets[set].nr; i++) {
		double factor = calibration[i].factor > 0 ? calibration[i].factor : 1;

		calibration[i].counted = at->counted[numbers->first_event + i];
		calibration[i].given = -calibration[i].pending * factor;
	}
	calibration->elapsed = at->elapsed;
	calibration->enabled = at->enabled[numbers->number];
	calibration->running = at->running[numbers->number];
	calibration->nr_pauses = at->nr_pauses;
	calibration->pauses = at->pauses;
	calibration->covered = -calibration->pends;
	calibration->owes = calibration->pends > 0;
}

bool calibration_begin(struct bpf_engine *engine, uint32_t cpu, size_t set)
{
	const struct credit_cpu *at = &engine->kernel->cpus[cpu];
	uint32_t number = engine->sets[set].number;
	struct bpf_calibration *calibration = find(engine, cpu, set);

	for (size_t i = 0; i < bpf_plan(engine)->sets[set].nr; i++)
		calibration[i].exact = calibration[i].estimated = calibration[i].pending = calibration[i].factor = 0;
	calibration->covers = calibration->pends = 0;
	if (calibration->owes || calibration->pauses || calibration->nr_pauses != at->nr_pauses ||
	    rise(calibration->running, at->running[number]) < rise(calibration->enabled, at->enabled[number]))
		return true;
	start(engine, cpu, set);
	return false;
}

void calibration_add(struct bpf_engine *engine, uint32_t cpu, size_t set, const uint64_t *counts, uint64_t covered,
		     bool scaled)
{
	struct bpf_calibration *calibration = find(engine, cpu, set);

	calibration->covers += (double)covered;
	for (size_t i = 0; i < bpf_plan(engine)->sets[set].nr; i++)
		*(scaled ? &calibration[i].estimated : &calibration[i].exact) += (double)counts[i];
}

void calibration_pend(struct bpf_engine *engine, uint32_t cpu, size_t set, const uint64_t *counts, uint64_t covered)
{
	struct bpf_calibration *calibration = find(engine, cpu, set);

	calibration->pends += (double)covered;
	for (size_t i = 0; i < bpf_plan(engine)->sets[set].nr; i++)
		calibration[i].pending += (double)counts[i];
}

void calibration_note(struct bpf_engine *engine, uint32_t cpu, size_t set, const uint64_t *counts, uint64_t covered)
{
	struct bpf_calibration *calibration = find(engine, cpu, set);

	if (bpf_plan(engine)->sets[set].exact)
		return;
	calibration->covered += (double)covered;
	for (size_t i = 0; i < bpf_plan(engine)->sets[set].nr; i++)
		calibration[i].given += (double)counts[i];
}

static void compare(struct bpf_engine *engine, uint32_t cpu, size_t set)
{
	const struct credit_cpu *at = &engine->kernel->cpus[cpu];
	const struct bpf_set *numbers = &engine->sets[set];
	struct bpf_calibration *calibration = find(engine, cpu, set);
	double running = rise(calibration->running, at->running[numbers->number]);
	double scale = running > 0 ? rise(calibration->enabled, at->enabled[numbers->number]) / running : 0;

	for (size_t i = 0; i < bpf_plan(engine)->sets[set].nr; i++) {
		double counted = rise(calibration[i].counted, at->counted[numbers->first_event + i]) * scale;
		double estimated = calibration[i].estimated + calibration[i].pending;
		double factor = (counted - calibration[i].given - calibration[i].exact) / estimated;

		if (estimated > 0 && factor >= LEAST_FACTOR && factor <= MOST_FACTOR)
			calibration[i].factor = factor;
	}
}

void calibration_end(struct bpf_engine *engine, uint32_t cpu, size_t set)
{
	struct bpf_calibration *calibration = find(engine, cpu, set);
	double time = rise(calibration->elapsed, engine->kernel->cpus[cpu].elapsed);
	double covered = calibration->covered + calibration->covers + calibration->pends;
	bool whole = fabs(covered - time) <= UNCOVERED * time;

	if (whole)
		compare(engine, cpu, set);
	if (whole || time > PATIENCE_NS) {
		start(engine, cpu, set);
		return;
	}
	for (size_t i = 0; i < bpf_plan(engine)->sets[set].nr; i++)
		calibration[i].given += calibration[i].exact + calibration[i].estimated;
	calibration->covered += calibration->covers;
}

void calibration_apply(const struct bpf_engine *engine, uint32_t cpu, size_t set, uint64_t *counts)
{
	const struct bpf_calibration *calibration = find(engine, cpu, set);

	for (size_t i = 0; i < bpf_plan(engine)->sets[set].nr; i++)
		if (calibration[i].factor > 0)
			counts[i] = (uint64_t)llround((double)counts[i] * calibration[i].factor);
}
