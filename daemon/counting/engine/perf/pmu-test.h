/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How many counters does a core PMU have, and how many of them count? In a virtual machine these are two numbers: the
 * host may show six counters and have five to give. The guest's kernel takes the sixth event too, and gives it its
 * full running time and 0 counts. Nothing in an event's own numbers tells it from one that has nothing to count. Equal
 * events that run together do: they have to agree.
 *
 * So equal events are opened on one CPU, one after the other, until one finds no counter: that many the PMU
 * advertises. They are pinned, since a pinned event runs at once, before all that is not pinned, or is put into error
 * state at once. Then as many are opened as one pinned group, which is read as a whole: all of its counts are of the
 * same stretch of time, also where something else ran on the CPU between two readings. It counts for about a
 * millisecond. The counts, in shares of what a counter that works has counted, add up to the number of usable counters:
 * two events that have shared one counter are one. A PMU that seems to lie is tested a second time and the better
 * result is believed: a counter that somebody else took for a moment should not be lost for good.
 *
 * The event is one that any of the generic counters can count and no fixed one: branches. Intel's PMUs have fixed
 * counters for cycles and instructions, and arm's one for cycles, which a test with those would count as well, as if
 * it could be had for any event. Where branches can't be counted, the others are taken. PMUs that tie each event to
 * certain counters (POWER's, Apple's) show only how many counters that event has.
 *
 * Nothing is run on the CPU: to read an event on another CPU, the kernel interrupts it and executes there the reading
 * itself, which is branches enough. So an idle CPU can be tested, no thread moves, and no CPU is touched but the first
 * one that is counted.
 *
 * While a test runs (a millisecond; at most TEST_MAX_NS, twice where the PMU seems to lie), events that are not
 * pinned, our own too, have no counter on that CPU; that is in their times, as with any multiplexing. A pinned event
 * of a task or a cgroup that gets on the CPU just then finds no counter, and is put into error state: all counters are
 * held for no longer than is needed.
 *
 * Counters that others have pinned (the NMI watchdog has one) are not seen: `advertised` is how many can be had. Our
 * own pinned events hold counters at a reload. So a test never takes back what an earlier one has found: a test that
 * finds fewer counters leaves the number, and tells of those that are free only how many do not count.
 *
 * Others may test at the same time, as two daemons that are started together: then each has some of the counters for
 * some milliseconds. So where nothing is known of a PMU yet, the result is doubted if few counters were free, or more
 * are when they are counted again afterwards. Then the test waits for 5 to 10 ms and is repeated, three times at most
 * in all, and the result with the most counters is believed: a PMU with two or three counters costs a start 30 ms. Of
 * one with no free counter nothing is known, and pmu_counters_describe() says so.
 *
 * Without it, one of six events shows 0 on a PMU that shows six counters and has five, which only such a machine can
 * show: hardware/test_pmu_counters.py, test_as_many_events_as_counters_are_all_counted.
 */

#include "base/util/cpulist.h"
#include "counting/event/env.h"
#include "counting/plan/pmu-counters.h"

/* Tests each core PMU on the first of the CPUs (online, and to be counted) that it has. known: earlier results, kept
 * for a PMU that can't be tested now; or NULL. Also where no hardware event is configured: perfmond_pmu_counters is
 * there where a PMU is. A PMU of which nothing is found out is left out of ret, which is empty at the call, or stands
 * there without a free counter (pmu-counters.h). -ENOMEM. */
int pmu_test_all(struct pmu_counters_list *ret, const struct event_env *env, const struct cpulist *cpus,
		 const struct pmu_counters_list *known);
