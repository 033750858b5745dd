/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * For the planner (engine_ops): which events and sets can be counted here. Each event is opened once by itself, and
 * each set once as the group that it will be, before anything is counted.
 *
 * Where the kernel refuses a part of what an event's text asks for (precise_ip, being pinned or exclusive, leaving out
 * the hypervisor, idle time, or guests that the text does not name), the event is counted without it. As little as
 * possible is given up, and the column's reason says what. A part that would make the event's name untrue is never
 * given up: an event named `_user` leaves out the kernel or is not counted.
 *
 * Some events exist only behind a certain leader (Intel's topdown-*, behind slots): an event that is refused alone is
 * tried in the group that it was written in.
 *
 * Does a set fit the PMU at once? Some PMUs refuse the member that is too many; others take it and never run the group.
 * So the set is run once, pinned: a pinned group goes before all others, and either runs in that moment or is put into
 * error state (perf_event_open(2), "pinned"). Sets that are to be pinned are open meanwhile, since they will have
 * their counters before the others.
 *
 * A PMU that lies about its counters (pmu-test.h) would run a group with more hardware events than count, and one of
 * them would read 0: on such a PMU no set has more of them, with those that pinned sets hold beside it.
 *
 * Tried events that are slow to close (event_is_slow_to_close()) stay open, in `tried`: closing a thousand tracepoints
 * would take half a minute. Where files are short they are closed all the same.
 *
 * Without the run of sets, a group that does not fit is never counted: guest/test_pmu.py,
 * test_a_group_that_is_too_large_is_split and test_a_group_beside_pinned_ones.
 */

#include "counting/engine/engine.h"

int probe_column(struct scope_plan *plan, size_t column, const struct engine_probe *probe);
int probe_set(struct scope_plan *plan, size_t set, const struct engine_probe *probe, size_t *ret);
int probe_open_set(const struct scope_plan *plan, size_t set, const struct engine_probe *probe, struct tried *tried);
bool probe_recovers(const struct column *column, const struct engine_probe *probe);
