/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How many hardware counters the core PMUs have, as a test has shown (counting/engine/perf/pmu-test.h). A PMU that
 * could not be tested is not in the list: nothing is known of it. Nor is anything of one that had no free counter,
 * which is in the list to be described, but is not found.
 */

#include "base/util/reason.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pmu_counters {
	char *pmu;
	/* Equal events that the kernel runs at once on a CPU. 0: none was free, and nothing is known. */
	unsigned advertised;
	unsigned usable; /* how many of them count; at most advertised */
	unsigned pinned; /* of a plan: how many of these its pinned sets hold at all times, of a PMU that lies */
};

struct pmu_counters_list {
	struct pmu_counters *pmus;
	size_t nr;
	uint64_t still; /* counters that did not count beside equal ones, in the tests for this list */
};

/* Is the PMU in the list? list can be NULL, here and below. */
bool pmu_counters_has(const struct pmu_counters_list *list, const char *pmu);
/* The PMU's entry, or NULL if nothing is known of it. */
const struct pmu_counters *pmu_counters_find(const struct pmu_counters_list *list, const char *pmu);

/* The same if not all of its counters count: only then do they bound a set. What fits the others, the kernel knows
 * better, since some counters are for some events only. */
const struct pmu_counters *pmu_counters_find_lying(const struct pmu_counters_list *list, const char *pmu);

/* The numbers in a sentence. Is it a problem, because not all of them count, or nobody knows? */
bool pmu_counters_describe(const struct pmu_counters *counters, struct reason *ret);

/* Copies the name of an entry whose PMU is not in the list; nothing is pinned yet. -ENOMEM. */
int pmu_counters_add(struct pmu_counters_list *list, const struct pmu_counters *counters);
void pmu_counters_list_release(struct pmu_counters_list *list);
