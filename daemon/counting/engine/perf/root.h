/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The root cgroup, counted by the CPUs' events (target.h): making its shared sets, and settling them at each reading.
 *
 * Without it, the root is not the sum of the CPUs, and has events of its own: system/test_root.py,
 * test_the_root_is_the_sum_of_the_cpus and test_no_event_is_opened_for_the_root.
 */

#include "counting/engine/perf/target.h"

/* Makes the shared sets of a target that is the root cgroup; does nothing with others. old: the root in the preceding
 * engine, or NULL; its own events, which the CPUs' replace now, are read for the last time and closed. -ENOMEM. */
int root_share_sets(struct perf_engine *engine, struct perf_target *target, struct perf_target *old,
		    const struct engine_target *spec, const struct cpulist *cpus, struct totals_row *const *rows,
		    uint64_t now);

/* Reads the CPUs' events that feed a shared set of the root, before that is ended. */
void root_read_twin(struct perf_engine *engine, size_t set, uint64_t now);

/* Settles the root's rows, after all CPUs have been read. */
void root_decide(struct perf_engine *engine);
