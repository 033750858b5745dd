/* SPDX-License-Identifier: MIT */

#include "setup/cpu-time.h"

#include "util/clock.h"

#include <time.h>

uint64_t thread_cpu_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}
