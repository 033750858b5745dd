/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The clocks of the daemon, in nanoseconds (clock_gettime(2)). Ages, intervals and the order of events are of the
 * monotonic one, which does not count time in which the machine is suspended; the boot-time clock does. The real-time
 * clock can be set, to and fro: it only names moments for people, and nothing is ordered by it.
 */

#include <stdint.h>
#include <time.h>

struct rusage;

#define NS_PER_US 1000U
#define NS_PER_MS 1000000U
#define NS_PER_S 1000000000U

uint64_t clock_monotonic_ns(void); /* CLOCK_MONOTONIC */
uint64_t clock_boottime_ns(void);  /* CLOCK_BOOTTIME */
uint64_t clock_realtime_ns(void);  /* CLOCK_REALTIME: since 1970 */

/* The three clocks at one moment. */
struct clock_times {
	uint64_t monotonic, boottime, realtime;
};

struct clock_times clock_times_now(void);

uint64_t clock_thread_ns(void); /* CLOCK_THREAD_CPUTIME_ID: what the calling thread has used of a CPU */

/* A time in ns as whole milliseconds, to the nearest. */
static inline uint64_t clock_whole_ms(uint64_t time)
{
	uint64_t whole = time - time % NS_PER_MS;

	return time - whole < NS_PER_MS / 2 || whole > UINT64_MAX - NS_PER_MS ? whole : whole + NS_PER_MS;
}

/* As functions that wait take it. */
struct timespec timespec_of_ns(uint64_t ns);

/* CPU time, of the program and of the kernel for it (getrusage(2)). */
uint64_t rusage_ns(const struct rusage *usage);
