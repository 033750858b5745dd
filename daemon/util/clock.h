/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The two clocks of the daemon, in nanoseconds (clock_gettime(2)). Ages and intervals are of the monotonic one, which
 * does not count time in which the machine is suspended; moments that people read are of the real-time one.
 */

#include <stdint.h>

#define NS_PER_US 1000U
#define NS_PER_MS 1000000U
#define NS_PER_S 1000000000U

uint64_t clock_monotonic_ns(void); /* CLOCK_MONOTONIC */
uint64_t clock_realtime_ns(void);  /* CLOCK_REALTIME: since 1970 */
