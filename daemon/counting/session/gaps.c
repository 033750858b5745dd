/* SPDX-License-Identifier: MIT */

#include "counting/session/gaps.h"

/* Did the CPU's events, or its canary, lack time? Forgets it. */
static bool take_missing_time(const struct totals *totals, const struct cpu_canaries *canaries, int cpu)
{
	struct cpu_canary *canary = cpu_canaries_find(canaries, cpu);
	bool missing = totals_take_missing_time(totals, cpu) || (canary && canary->time_missing);

	if (canary)
		canary->time_missing = false;
	return missing;
}

static bool is_online(const struct gaps_cpus *cpus, int cpu)
{
	return !cpus->online || cpulist_has(cpus->online, cpu);
}

void gaps_note(struct totals *totals, const struct engines *engines, const struct cpu_canaries *canaries,
	       const struct gaps_cpus *cpus)
{
	for (size_t i = 0; cpus->online && i < cpus->online->nr; i++) {
		int cpu = cpus->online->cpu[i];

		if (!cpulist_has(cpus->counted, cpu) && !(cpus->excluded && cpulist_has(cpus->excluded, cpu)))
			totals_note_gap(totals, cpu);
	}
	for (size_t i = 0; i < cpus->counted->nr; i++) {
		int cpu = cpus->counted->cpu[i];
		bool missing = take_missing_time(totals, canaries, cpu);

		if ((missing || cpu_has_been_offline(canaries, engines, cpu)) && is_online(cpus, cpu))
			totals_note_gap(totals, cpu);
	}
}

void gaps_note_opened(struct totals *totals, const struct cpulist *counted, const struct cpulist *before,
		      const struct cpulist *lost)
{
	for (size_t i = 0; i < counted->nr; i++)
		if (!cpulist_has(before, counted->cpu[i]) || cpulist_has(lost, counted->cpu[i]))
			totals_note_gap(totals, counted->cpu[i]);
}
