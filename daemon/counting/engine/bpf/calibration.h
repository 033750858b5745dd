/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Estimates of cgroups, and what their CPU has counted.
 *
 * Where a set was observed for a part of the time only (in a budget's pauses, or since the PMU is multiplexed), each
 * cgroup's counts are scaled by its own running time. The CPU's own events count all the time, or are scaled over all
 * that ran there, so that their sum is known better than its parts. So a CPU has a balance: what it has counted and no
 * cgroup has been given yet. At each reading, what the cgroups have coming by their estimates is compared with it, and
 * the estimates share the difference.
 *
 * They share it by their doubts: the square of how far each may be off (its variance). A cgroup that was observed in a
 * thousand short stretches is known well, and one that was observed twice may have done anything else meanwhile: the
 * difference comes from that one.
 *
 * Some cgroups are given their counts later, when enough of them was observed. What they would be is pending: it takes
 * part in the comparison, and remains in the balance. The balance has the CPU's time, too. Where the time of all that
 * is coming to cgroups is not that of the balance, nothing is corrected: what ran without anything being known of it is
 * nobody's, and its part of the difference is not known. If that lasts, a new balance begins.
 */

#include "counting/engine/bpf/target.h"

/* What a cgroup has coming. */
struct bpf_coming {
	const uint64_t *counts; /* one an event of the set */
	const double *doubts;	/* …; NULL: these are no estimates */
	uint64_t covered;	/* ns */
	bool pending;		/* it is not given at this reading */
};

/* A reading of the set on that CPU begins. False: there is nothing to compare, it was observed all of the time. */
bool calibration_begin(struct bpf_engine *engine, uint32_t cpu, size_t set);
void calibration_add(struct bpf_engine *engine, uint32_t cpu, size_t set, const struct bpf_coming *coming);
/* All was added. */
void calibration_end(struct bpf_engine *engine, uint32_t cpu, size_t set);

/* A cgroup is given counts at this reading. Estimates (doubts: as in bpf_coming) get their part of the difference. */
void calibration_apply(struct bpf_engine *engine, uint32_t cpu, size_t set, uint64_t *counts, const double *doubts,
		       uint64_t covered);
/* … apart from readings. */
void calibration_note(struct bpf_engine *engine, uint32_t cpu, size_t set, const uint64_t *counts, uint64_t covered);

/* What was counted until now is given to nobody: on all CPUs, a new balance begins with the next reading. */
void calibration_reset(struct bpf_engine *engine, size_t set);
