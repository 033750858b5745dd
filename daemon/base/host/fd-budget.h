/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How the limit of open files (RLIMIT_NOFILE) is divided. Perf events take nearly all of it; a reserve is kept for
 * connections, and for the files that the daemon opens besides: sysfs, the loop, listening sockets.
 *
 * Pure arithmetic, so that whoever plans events and whoever accepts connections come to the same numbers. The limit
 * may be UINT64_MAX: no limit. connections is the number that the configuration allows, less than 2^32.
 */

#include <stddef.h>
#include <stdint.h>

/* The number of files that are kept from events: half of the limit at most, but at least as many as it takes to look at
 * the machine and to answer a few requests. */
size_t fd_budget_reserve(uint64_t fd_limit, uint64_t connections);

/* The connections, of those allowed, that fit into the reserve. At least one. */
unsigned fd_budget_connections(uint64_t fd_limit, uint64_t connections);
