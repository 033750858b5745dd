/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What this process uses, as it is now.
 */

#include <stdint.h>

/* Not known. */
#define USAGE_UNKNOWN UINT64_MAX

struct process_usage {
	uint64_t cpu_ns; /* user and system */
	uint64_t resident_bytes, virtual_bytes;
	uint64_t open_fds; /* USAGE_UNKNOWN: only counting them one by one would tell, and there are too many */
};

/* at_least: so many files are open. */
struct process_usage process_usage_read(uint64_t at_least);
