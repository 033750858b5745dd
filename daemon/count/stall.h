/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A PMU that lies: counters of some virtual machines open and run, and hardly count.
 *
 * Time in which an event ran while its CPUs were busy is held against what it counted. An event that counts
 * all the time on any busy CPU (cycles, instructions: struct event, steady) is stalled where it counted less
 * than once a microsecond over a second of that time. Of any other it is not known how often it happens: it
 * is stalled where it has never counted anything in ten seconds of it. Which may be the truth, but can't be
 * told from a lie. The first count ends that.
 */

#include <stdbool.h>
#include <stdint.h>

struct stall {
	uint64_t busy;	  /* ns, since the last judgement */
	uint64_t counted; /* in that time */
	bool has_counted; /* ever */
	bool stalled;
};

/* Adds an interval. busy: ns in which the event ran and its CPUs were busy; 0 where that is not known. */
void stall_update(struct stall *stall, bool steady, uint64_t counted, uint64_t busy);

/* Would more be known with the busy time of CPUs, which takes some reading? */
bool stall_is_in_doubt(const struct stall *stall, bool steady, uint64_t counted, uint64_t running);
