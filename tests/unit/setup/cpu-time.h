/* SPDX-License-Identifier: MIT */
#pragma once

/* What a test of costs measures: time of the CPU, which others on the machine hardly change. */

#include <stdint.h>

/* That this thread has used, in nanoseconds. */
uint64_t thread_cpu_ns(void);
