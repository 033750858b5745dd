/* SPDX-License-Identifier: MIT */
#pragma once

/* The parts of the config that a session counts by, beside its plan. */

#include "base/host/cpu.h"
#include "base/util/async-close.h"

struct session_options {
	bool cgroup_per_cpu;
	uint64_t linger;		     /* ns */
	uint64_t cgroup_max;		     /* cgroups counted at once, and as many linger at most */
	uint64_t switch_budget;		     /* struct engine_env */
	uint64_t fd_reserve;		     /* fds left to the rest of the daemon */
	const char *sysroot;		     /* for the CPUs' highest clocks, or NULL; borrowed */
	const struct cpulist *excluded;	     /* CPUs of which nothing is to be counted, or NULL; borrowed */
	const struct cpu_topology *topology; /* to be kept in images, or NULL; borrowed */
	struct async_close *closer;	     /* of files that are slow to close, or NULL; borrowed */
};
