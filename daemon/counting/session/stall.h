/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A PMU that lies: in some virtual machines, counters open and run, and hardly count.
 *
 * The judgement compares an event's count with the time in which it ran while its CPUs were busy. Events that count all
 * the time on any busy CPU (cycles, instructions: struct event, steady) are stalled where they count less than once a
 * microsecond over a second of that time. Nobody knows how often other events happen: they are stalled where they have
 * never counted anything in ten seconds of it. That may be the truth, but nothing tells it from a lie. The first count
 * ends the state.
 *
 * Without it, an event that the PMU does not count is shown as 0: guest/test_pmu.py, test_an_event_that_counts_nothing.
 */

#include <stdbool.h>
#include <stdint.h>

struct stall {
	uint64_t busy;	  /* ns, since the last judgement */
	uint64_t counted; /* in that time */
	bool has_counted; /* ever */
	bool stalled;
};

/* Adds an interval. busy: ns in which the event ran and its CPUs were busy; 0: not known. */
void stall_update(struct stall *stall, bool steady, uint64_t counted, uint64_t busy);

/* Would the CPUs' busy time, which costs some reading, tell more? */
bool stall_is_in_doubt(const struct stall *stall, bool steady, uint64_t counted, uint64_t running);
