/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Estimates of cgroups, and what their CPU has counted.
 *
 * Where a set was observed for a part of the time only (in a budget's pauses, or since the PMU is multiplexed), each
 * cgroup's counts are scaled by its own running time. The CPU's own events count all the time, or are scaled over all
 * that ran there, so that their sum is known better than its parts. So the estimates of a CPU are multiplied by one
 * factor, with which all cgroups add up to it.
 *
 * Some cgroups' estimates come later, when enough of them was observed. What they would be is pending: it belongs to
 * the comparison, and the next one begins with owing it. The comparison goes over readings, until what was given and is
 * pending covers all the time that has passed. Where that does not come about, nothing is multiplied: what ran without
 * having been observed is nobody's, and its share of the CPU's count is not known.
 */

#include "engine/bpf/target.h"

/* A reading of the set on that CPU begins. False: there is nothing to compare, it was observed all of the time. */
bool calibration_begin(struct bpf_engine *engine, uint32_t cpu, size_t set);
/* What a cgroup is going to be given. covered: ns; scaled: it is an estimate. */
void calibration_add(struct bpf_engine *engine, uint32_t cpu, size_t set, const uint64_t *counts, uint64_t covered,
		     bool scaled);
/* The same of a cgroup that a later reading is going to give it to. */
void calibration_pend(struct bpf_engine *engine, uint32_t cpu, size_t set, const uint64_t *counts, uint64_t covered);
/* What a cgroup is given apart from such a reading. */
void calibration_note(struct bpf_engine *engine, uint32_t cpu, size_t set, const uint64_t *counts, uint64_t covered);
/* All was added. */
void calibration_end(struct bpf_engine *engine, uint32_t cpu, size_t set);

/* Multiplies estimates of this reading by their factors. */
void calibration_apply(const struct bpf_engine *engine, uint32_t cpu, size_t set, uint64_t *counts);
