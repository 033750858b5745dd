/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A clock in each kernel group of a cgroup's set that can be multiplexed: how long the group has really run.
 *
 * The kernel's own time_running of cgroup events is false where groups take turns (seen on 6.18: of five groups that
 * ran 800 ms each it said 228 to 2,016 ms). Since Linux 6.2 a turn begins and ends without the cgroup's time having
 * been brought up to date: perf_rotate_context() updates the context's time, and a cgroup has its own. The time goes
 * to whichever group has its turn when that is done next, at a switch or a reading.
 *
 * PERF_COUNT_SW_CPU_CLOCK reads the CPU's clock when it is scheduled in and out with its group, so that it counts the
 * group's turns and nothing else. (task-clock does not: it counts the context's time.) It needs no counter of the PMU.
 * It is a member that no column shows: the last in the arrays of a group, but opened right behind the leader, as the
 * kernel stops members in this order: what takes time to stop is not counted as running.
 *
 * time_enabled is needed too, and is the kernel's: it adds up the cgroup's time from one end to the other, and so loses
 * nothing on any kernel. But it lags at a reading while the group does not have its turn. Then the group may
 * have run for longer than it was enabled, and the reading has to wait (counting/totals/estimate.h).
 *
 * CPUs, and the root cgroup, which is counted as they are, need no clock: their times are right.
 *
 * Without it, totals of nested cgroups that share the PMU are wrong by up to 41 % on Linux 6.12: guest/test_nested.py,
 * test_long_loops, in a guest with that kernel. With Linux 6.1 test_bursts shows it: levels.h needs the clock.
 */

#include "counting/plan/plan.h"

bool set_has_run_clock(const struct scope_plan *plan, const struct set *set);

/* The events that each group of the set is opened with: its members, and the clock. */
size_t set_nr_events(const struct scope_plan *plan, const struct set *set);

/* The event with the number `at` of those that are opened, and its attributes. They are opened in the order of
 * set_nth_opened(): the leader, the clock, the other members. */
size_t set_nth_opened(const struct scope_plan *plan, const struct set *set, size_t nth);
const struct event *set_event(const struct scope_plan *plan, const struct set *set, size_t at,
			      struct perf_event_attr *ret_attr);
