/* SPDX-License-Identifier: MIT */

#include "base/util/clock.h"

#include <sys/resource.h>

/* Three clocks are read at once if it takes no longer than this; after so many attempts, the shortest one counts. */
#define CLOCK_AT_ONCE_NS (100 * NS_PER_US)
#define CLOCK_READINGS 10

static uint64_t clock_read(clockid_t clock)
{
	struct timespec ts;

	(void)clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t clock_monotonic_ns(void)
{
	return clock_read(CLOCK_MONOTONIC);
}

uint64_t clock_boottime_ns(void)
{
	return clock_read(CLOCK_BOOTTIME);
}

uint64_t clock_realtime_ns(void)
{
	return clock_read(CLOCK_REALTIME);
}

struct clock_times clock_times_now(void)
{
	struct clock_times best = {};
	uint64_t least = UINT64_MAX;

	/* A thread that loses its CPU between two of the calls sees clocks that disagree: the shortest counts. */
	for (int i = 0; i < CLOCK_READINGS && least > CLOCK_AT_ONCE_NS; i++) {
		uint64_t before = clock_monotonic_ns();
		const struct clock_times now = { before, clock_boottime_ns(), clock_realtime_ns() };
		uint64_t took = clock_monotonic_ns() - before;

		if (took >= least)
			continue;
		least = took;
		best = now;
	}
	return best;
}

uint64_t clock_thread_ns(void)
{
	return clock_read(CLOCK_THREAD_CPUTIME_ID);
}

struct timespec timespec_of_ns(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S) };
}

uint64_t rusage_ns(const struct rusage *usage)
{
	return (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * NS_PER_S +
	       (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * NS_PER_US;
}
