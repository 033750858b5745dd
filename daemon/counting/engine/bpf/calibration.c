/* SPDX-License-Identifier: MIT */

#include "counting/engine/bpf/calibration.h"

#include <math.h>

/* How far the time of what is coming may be from that of the balance: a part of it. */
#define UNCOVERED 0.01

/* Estimates that are further off than this, all together or one of them, are so by something else than chance. */
#define LEAST_FACTOR 0.5
#define MOST_FACTOR 2.0

/* After so long without any comparison, a new balance begins. */
#define PATIENCE_NS 10000000000U

static struct bpf_calibration *find(const struct bpf_engine *engine, uint32_t cpu, size_t set)
{
	const struct bpf_kernel *kernel = engine->kernel;

	return &kernel->calibrations[(size_t)cpu * kernel->sizes.events + engine->sets[set].first_event];
}

static size_t count_events(const struct bpf_engine *engine, size_t set)
{
	return bpf_plan(engine)->sets[set].nr;
}

static double rise(uint64_t from, uint64_t to)
{
	return to > from ? (double)(to - from) : 0;
}

/* From now on the balance is what is coming: there is no difference. */
static void settle(struct bpf_calibration *calibration)
{
	calibration->owed = calibration->exact + calibration->estimated;
}

/* The same for all events of the set, and for its time. */
static void settle_set(struct bpf_engine *engine, uint32_t cpu, size_t set)
{
	struct bpf_calibration *calibration = find(engine, cpu, set);

	for (size_t i = 0; i < count_events(engine, set); i++)
		settle(&calibration[i]);
	calibration->owed_ns = calibration->coming_ns;
	calibration->settled_at = calibration->elapsed;
	calibration->unknown = false;
}

/* What the CPU has counted since the reading before. Where its events are multiplexed and did not run since, that is
 * not known yet. */
static void charge(struct bpf_engine *engine, uint32_t cpu, size_t set)
{
	const struct credit_cpu *at = &engine->kernel->cpus[cpu];
	const struct bpf_set *numbers = &engine->sets[set];
	struct bpf_calibration *calibration = find(engine, cpu, set);
	double enabled = rise(calibration->enabled, at->enabled[numbers->number]);
	double running = rise(calibration->running, at->running[numbers->number]);
	double scale = running > 0 ? enabled / running : 1;

	if (running <= 0 && enabled > 0)
		return;
	for (size_t i = 0; i < count_events(engine, set); i++) {
		uint64_t counted = at->counted[numbers->first_event + i];

		calibration[i].owed += rise(calibration[i].counted, counted) * scale;
		calibration[i].counted = counted;
	}
	calibration->owed_ns += rise(calibration->elapsed, at->elapsed);
	calibration->elapsed = at->elapsed;
	calibration->enabled = at->enabled[numbers->number];
	calibration->running = at->running[numbers->number];
}

static bool is_observed_always(const struct bpf_engine *engine, uint32_t cpu, size_t set)
{
	const struct credit_cpu *at = &engine->kernel->cpus[cpu];
	const struct bpf_calibration *calibration = find(engine, cpu, set);
	uint32_t number = engine->sets[set].number;

	return !calibration->unknown && !calibration->pends && !calibration->pauses &&
	       calibration->nr_pauses == at->nr_pauses &&
	       rise(calibration->running, at->running[number]) >= rise(calibration->enabled, at->enabled[number]);
}

bool calibration_begin(struct bpf_engine *engine, uint32_t cpu, size_t set)
{
	const struct credit_cpu *at = &engine->kernel->cpus[cpu];
	struct bpf_calibration *calibration = find(engine, cpu, set);

	calibration->compares = !is_observed_always(engine, cpu, set);
	if (calibration->pauses || at->pauses || calibration->nr_pauses != at->nr_pauses)
		engine->engine.env.health[SCOPE_CGROUP][set].spared = true;
	calibration->nr_pauses = at->nr_pauses;
	calibration->pauses = at->pauses;
	calibration->pends = false;
	calibration->coming_ns = 0;
	charge(engine, cpu, set);
	for (size_t i = 0; i < count_events(engine, set); i++)
		calibration[i].exact = calibration[i].estimated = calibration[i].doubts = calibration[i].rest = 0;
	/* All that is coming is given now, as it was counted. */
	if (!calibration->compares)
		settle_set(engine, cpu, set);
	return calibration->compares;
}

void calibration_add(struct bpf_engine *engine, uint32_t cpu, size_t set, const struct bpf_coming *coming)
{
	struct bpf_calibration *calibration = find(engine, cpu, set);

	calibration->coming_ns += (double)coming->covered;
	calibration->pends |= coming->pending;
	for (size_t i = 0; i < count_events(engine, set); i++) {
		*(coming->doubts ? &calibration[i].estimated : &calibration[i].exact) += (double)coming->counts[i];
		calibration[i].doubts += coming->doubts ? coming->doubts[i] : 0;
	}
}

static void compare(struct bpf_calibration *calibration)
{
	double should = calibration->owed - calibration->exact;

	if (should < LEAST_FACTOR * calibration->estimated || should > MOST_FACTOR * calibration->estimated)
		settle(calibration);
	else if (calibration->doubts > 0)
		calibration->rest = (should - calibration->estimated) / calibration->doubts;
}

void calibration_end(struct bpf_engine *engine, uint32_t cpu, size_t set)
{
	struct bpf_calibration *calibration = find(engine, cpu, set);
	bool whole = fabs(calibration->owed_ns - calibration->coming_ns) <= UNCOVERED * calibration->owed_ns;

	if (calibration->unknown || (!whole && rise(calibration->settled_at, calibration->elapsed) > PATIENCE_NS)) {
		settle_set(engine, cpu, set);
		return;
	}
	if (!whole)
		return;
	for (size_t i = 0; i < count_events(engine, set); i++)
		compare(&calibration[i]);
	calibration->settled_at = calibration->elapsed;
}

void calibration_note(struct bpf_engine *engine, uint32_t cpu, size_t set, const uint64_t *counts, uint64_t covered)
{
	struct bpf_calibration *calibration = find(engine, cpu, set);

	if (bpf_plan(engine)->sets[set].exact)
		return;
	calibration->owed_ns -= (double)covered;
	for (size_t i = 0; i < count_events(engine, set); i++)
		calibration[i].owed -= (double)counts[i];
}

void calibration_apply(struct bpf_engine *engine, uint32_t cpu, size_t set, uint64_t *counts, const double *doubts,
		       uint64_t covered)
{
	const struct bpf_calibration *calibration = find(engine, cpu, set);

	if (!calibration->compares)
		return;
	for (size_t i = 0; doubts && i < count_events(engine, set); i++) {
		double count = (double)counts[i], should = count + calibration[i].rest * doubts[i];

		counts[i] = (uint64_t)llround(fmin(fmax(should, LEAST_FACTOR * count), MOST_FACTOR * count));
	}
	calibration_note(engine, cpu, set, counts, covered);
}

void calibration_reset(struct bpf_engine *engine, size_t set)
{
	for (uint32_t cpu = 0; cpu < engine->kernel->sizes.cpus; cpu++)
		*find(engine, cpu, set) = (struct bpf_calibration){ .unknown = true };
}
