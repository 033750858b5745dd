/* SPDX-License-Identifier: MIT */

#include "counting/session/measured.h"

/* A CPU that could not be opened is not measured. To one that is offline nothing more can be added: its cells stay
 * measured. */
static void decide_cpu_row(struct totals *totals, struct totals_row *row, const struct engines *engines,
			   const struct cpulist *cpus)
{
	bool open = engines_have(engines, SCOPE_CPU, (uint64_t)row->cpu);

	if (row->excluded || (cpulist_has(cpus, row->cpu) && !open))
		totals_unmeasure(totals, row);
	engines_decide_row(engines, SCOPE_CPU, (uint64_t)row->cpu, row);
}

void decide_rows(struct totals *totals, const struct engines *engines, const struct cpulist *cpus,
		 const struct cpulist *excluded)
{
	struct totals_row *row;

	totals_exclude(totals, excluded);
	TAILQ_FOREACH(row, &totals->rows[SCOPE_CPU], in_totals)
		decide_cpu_row(totals, row, engines, cpus);
	TAILQ_FOREACH(row, &totals->rows[SCOPE_CGROUP], in_totals)
		if (!row->gone_at)
			engines_decide_row(engines, SCOPE_CGROUP, row->identity->id, row);
}
