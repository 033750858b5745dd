/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How much an event has counted that is in no sample, although none was lost: by the event's own count, read(2), over
 * its period. A kernel can keep some of what it counts from samples and tracing, as that of some virtual machines does
 * with tasks of the machine's keeper. (Measured on Linux 6.18: the difference was the switches, and the page faults,
 * that process 1 had by /proc.)
 *
 * A count and the samples in the ring are not of one moment. So the count is compared when all records of its time have
 * been taken: with the samples up to a moment shortly after it. Events in between make the difference too small, and a
 * later comparison finds it. The number that is told never falls.
 */

#include <stdint.h>

/* Of an event on one CPU; zeroed at first. Times are CLOCK_MONOTONIC ns. */
struct unsampled {
	uint64_t nr; /* so many periods, at least */
	uint64_t sampled;
	uint64_t due_at; /* the comparison is of samples up to then; 0: no count waits for one */
	uint64_t sampled_later, expected;
};

/* A count was read just before `now`: it makes so many samples, of which so many were lost. Not while another one
 * waits. */
void unsampled_expect(struct unsampled *unsampled, uint64_t counted, uint64_t lost, uint64_t now);
/* A sample was taken out of the ring. */
void unsampled_sample(struct unsampled *unsampled, uint64_t time);
/* All samples until then were taken. */
void unsampled_compare(struct unsampled *unsampled, uint64_t until);
