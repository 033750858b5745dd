/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The levels of the tree of cgroups against each other, to find out whether estimates can be true.
 *
 * The kernel gives levels their turns on the PMU by its timer, of 4 ms, and at switches from one cgroup to another it
 * begins with the same one again. Where a load switches more often than that, or in time with it, a level sees some of
 * its phases more than others, and the estimate is wrong although all times are right. No number of a level by itself
 * shows it. But levels see different moments of the same tasks: they take turns. So if all of them come to the same
 * counts, none has seen anything special, and if they do not, nobody can tell which of them is right.
 *
 * A cgroup has what the cgroups below it have, and what its own tasks have. How much time those take, the enabled times
 * tell, which are exact. After each reading, each cgroup's counts of one event (level.h) are compared with the sum of
 * its children's: it can't have less, and if it has no tasks of its own, it can't have more. Where one cgroup of a tree
 * (below the root) is contradicted by its children, no estimate of the tree is shown. Nor is one of which too little
 * was observed to compare it. Nothing is taken from totals, nor withheld from them.
 *
 * A CPU's own group runs all of the time while no counted cgroup does, and by turns else: in an interval with both, its
 * share is that of neither. So CPUs, and the root cgroup, are compared with the cgroups below the root, and are not
 * shown where they have less.
 *
 * All of this is said of the last minutes, because rates are taken of totals: days of agreement may not hide an hour
 * of false estimates, nor may an old contradiction hide what has been right since. When half a minute has passed and
 * enough of both sides of a comparison was observed, both are halved (level.h). Each stretch of time between two
 * halvings has half of the weight of the next one. An estimate that becomes wrong by a third is absent after a quarter
 * of a stretch at the latest, and is shown again when it has been right for three or four. Where less is observed, a
 * stretch is longer: 100 s if one CPU is busy and each level runs for a twentieth of the time. A tree that does not
 * run stays as it was compared last.
 *
 * What has run all of the time is no estimate, and is shown in any case. A cgroup of the highest level without any
 * below it has nothing to be compared with.
 *
 * Without it, estimates are shown that are wrong by a quarter: guest/test_nested.py, test_bursts and
 * test_loops_of_different_kinds. Without the comparison of CPUs, one that idles now and then shows half of its
 * counts: test_a_cpu_that_idles_between.
 */

#include "counting/engine/perf/target.h"

/* Compares all levels of all sets, after all have been read. now: CLOCK_MONOTONIC ns of that reading. */
void perf_levels_compare(struct perf_engine *engine, uint64_t now);
