/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The machine as found at start, and again on reload: CPUs, PMUs, tracefs, the cgroup mount, and what
 * this process may do. Whatever is missing is a sentence beside it, not an error: events that need it
 * say so in their states.
 */

#include "count/privilege.h"
#include "event/event.h"
#include "target/cgroup.h"
#include "target/cpu.h"

#define PROCFS "/proc"
#define SYSFS "/sys"

struct machine {
	struct privilege privilege;
	struct pmu_catalogue *pmus;
	char *tracefs;		       /* or a list of what is in it (event/tracefs.h); NULL: not mounted */
	struct reason tracefs_problem; /* then */
	struct event_env env;	       /* of the three above, and of kallsyms */
	struct cpulist online;	       /* CPUs */
	struct cpulist excluded;       /* CPUs to be left alone, online or not */
	struct cpulist cpus;	       /* the others of those that are online: what is counted */
	struct cpu_topology topology;  /* of all that are, or were, online */
	bool nmi_watchdog;	       /* kernel.nmi_watchdog is on, and there is a PMU that it may have a counter of */
	struct cgroup_mount mount;     /* path NULL: none */
	struct reason no_cgroups;      /* then */
};

/*
 * exclude: lists of CPUs, and names of the kernel's lists of them (config.h). known: where CPUs were found to be
 * earlier, also those that are offline now; NULL: nothing is known. Raises the limit of open files to the
 * hard one on the way. Fails, with the sentence in why, only where the CPUs can't be found out, or none is left, or
 * for want of memory.
 */
int machine_new(struct machine **ret, char *const *exclude, size_t nr_exclude, const struct cpu_topology *known,
		struct reason *why);
struct machine *machine_free(struct machine *machine);
DEFINE_CLEANUP(struct machine *, machine_free)
