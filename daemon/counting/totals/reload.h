/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * From one plan's totals to those of the next: an event that stays configured is not reset.
 *
 * Carried are the totals of each event that both count, for each target that both have; rows of CPUs that are not
 * counted now (the caller knows why); rows that linger; and rows of cgroups that are not counted any more, which linger
 * from now on, or are suspended. Rows of cgroups are carried as far as they are of the kind that is made now: per CPU,
 * or not.
 */

#include "counting/totals/rows.h"

/* The next totals_carry() to these suspends rows of cgroups that are not counted any more, and lets none linger. */
void totals_suspend(struct totals *totals);

/* per_cpu: a cgroup has a row for each CPU. cpus: those that are counted now. now: CLOCK_MONOTONIC ns. -ENOMEM: not all
 * was carried. */
int totals_carry(struct totals *to, const struct totals *from, bool per_cpu, const struct cpulist *cpus, uint64_t now);
