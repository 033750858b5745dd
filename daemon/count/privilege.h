/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What this process may do with perf events: kernel.perf_event_paranoid, its effective capabilities
 * (capabilities(7)) and its limit of open files.
 */

#include <stdbool.h>
#include <stdint.h>

struct privilege {
	int paranoid;	   /* kernel.perf_event_paranoid; PARANOID_UNKNOWN where it can't be read */
	bool cap_perfmon;  /* Linux 5.8 */
	bool cap_sys_admin;
	uint64_t effective; /* the whole set, as CapEff of /proc/self/status */
	uint64_t fd_limit;  /* RLIMIT_NOFILE's soft limit */
};

#define PARANOID_UNKNOWN 999

/* procroot is "/proc" but in tests. Never fails: what can't be read is unknown, or missing. */
void privilege_read(struct privilege *ret, const char *procroot);

/* May it open system-wide events? CAP_PERFMON or CAP_SYS_ADMIN, or paranoid <= 0. */
bool privilege_may_count_cpus(const struct privilege *privilege);

/* Raises RLIMIT_NOFILE's soft limit to the hard one and puts it into privilege; negative errno. */
int privilege_raise_fd_limit(struct privilege *privilege);
