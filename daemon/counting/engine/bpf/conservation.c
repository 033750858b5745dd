/* SPDX-License-Identifier: MIT */

#include "counting/engine/bpf/conservation.h"

#include "counting/engine/bpf/cell.h"

#include <errno.h>
#include <stdlib.h>

/* How often a CPU is read on which programs are at work all the time. */
#define READINGS 100

int conservation_open(struct bpf_engine *engine)
{
	free(engine->conservations);
	engine->conservations =
		calloc(engine->kernel->sizes.cpus * bpf_plan(engine)->nr_sets + 1, sizeof(*engine->conservations));
	return engine->conservations ? 0 : -ENOMEM;
}

static struct bpf_conservation *find(const struct bpf_engine *engine, uint32_t cpu, size_t set)
{
	return &engine->conservations[cpu * bpf_plan(engine)->nr_sets + set];
}

static uint64_t counted(const struct bpf_engine *engine, uint32_t cpu, size_t set)
{
	const credit_word *events = engine->kernel->cpus[cpu].counted + engine->sets[set].first_event;
	uint64_t sum = 0;

	for (size_t i = 0; i < bpf_plan(engine)->sets[set].nr; i++)
		sum += *(const volatile credit_word *)&events[i];
	return sum;
}

/* Of all of which the cells are marked. False: that can't be told. */
static bool find_counted(const struct bpf_engine *engine, uint32_t cpu, size_t set, uint64_t *ret)
{
	for (int i = 0; i < READINGS && cell_wait(engine->kernel, cpu); i++) {
		*ret = counted(engine, cpu, set);
		if (!cell_is_busy(engine->kernel, cpu))
			return true;
	}
	return false;
}

void conservation_begin(struct bpf_engine *engine)
{
	for (uint32_t cpu = 0; cpu < engine->kernel->sizes.cpus; cpu++)
		for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++) {
			struct bpf_conservation *at = find(engine, cpu, i);

			if (engine->sets[i].used)
				at->known = find_counted(engine, cpu, i, &at->before);
		}
}

void conservation_add(struct bpf_engine *engine, uint32_t cpu, size_t set, const uint64_t *counts)
{
	for (size_t i = 0; i < bpf_plan(engine)->sets[set].nr; i++)
		find(engine, cpu, set)->given += counts[i];
}

void conservation_estimated(struct bpf_engine *engine, uint32_t cpu, size_t set)
{
	find(engine, cpu, set)->estimated = true;
}

/* The comparison begins here, with the next reading. */
static void start(struct bpf_conservation *at, uint64_t after)
{
	*at = (struct bpf_conservation){
		.begun = true,
		.base_least = at->before,
		.base = after,
	};
}

static uint64_t distance(uint64_t from, uint64_t to)
{
	return to > from ? to - from : 0;
}

/* By how much what was given lies beyond what was counted at least and at most. */
static uint64_t difference(const struct bpf_conservation *at, uint64_t after)
{
	uint64_t least = distance(at->base, at->before), most = distance(at->base_least, after);

	return distance(at->given, least) + distance(most, at->given);
}

/* The error, if it is one. */
static uint64_t compare(const struct bpf_engine *engine, uint32_t cpu, size_t set)
{
	struct bpf_conservation *at = find(engine, cpu, set);
	uint64_t after, error;

	if (!at->known || !find_counted(engine, cpu, set, &after)) {
		at->begun = false;
		return 0;
	}
	if (!at->begun || at->estimated) {
		start(at, after);
		return 0;
	}
	error = difference(at, after);
	if (error == 0 || !at->doubted) {
		at->doubted = error > 0;
		return 0;
	}
	start(at, after);
	return error;
}

void conservation_end(struct bpf_engine *engine)
{
	for (uint32_t cpu = 0; cpu < engine->kernel->sizes.cpus; cpu++)
		for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++)
			if (engine->sets[i].used)
				engine->kernel->errors[cpu] += compare(engine, cpu, i);
}

void conservation_reset(struct bpf_engine *engine, size_t set)
{
	for (uint32_t cpu = 0; cpu < engine->kernel->sizes.cpus; cpu++)
		find(engine, cpu, set)->begun = false;
}
