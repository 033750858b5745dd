/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Gaps: a CPU was online in an interval, and was not counted for a part of it. So it is when a CPU comes online, until
 * its events are open, and when it has been offline: its events count no more. Counts of the interval are then those
 * of a part of it, of the CPU and of all cgroups, and there is no rate (totals_note_gap()).
 *
 * A CPU that is offline has no gap: nothing happens there.
 */

#include "counting/session/cpu-canary.h"
#include "counting/session/engines.h"

/* The CPUs of a session, as gaps_note() asks for them. All borrowed. */
struct gaps_cpus {
	const struct cpulist *counted;
	const struct cpulist *excluded; /* nothing of them is to be counted; NULL: none */
	const struct cpulist *online;	/* NULL: not known, and all may be */
};

/* After the last reading of an interval: notes the gaps that readings and canaries show, and those of CPUs that are
 * online and not counted yet. */
void gaps_note(struct totals *totals, const struct engines *engines, const struct cpu_canaries *canaries,
	       const struct gaps_cpus *cpus);

/* At the end of a takeover: notes those of the counted CPUs that were not counted before, or were lost. */
void gaps_note_opened(struct totals *totals, const struct cpulist *counted, const struct cpulist *before,
		      const struct cpulist *lost);
