/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The machine as found at start, and again on reload: CPUs, PMUs, tracefs, the cgroup mount, and what
 * this process may do. Whatever is missing is a sentence beside it, not an error: events that need it
 * say so in their states.
 *
 * sysfs and procfs are where the config says: what they lack is told and the rest goes on, but the folders have to be
 * there.
 */

#include "config/config.h"
#include "count/privilege.h"
#include "event/event.h"
#include "target/cgroup.h"
#include "target/cpu.h"

/* What is the process's own (its mounts, its memory), or the same in each procfs (boot_id), is read here, whatever
 * [daemon] procfs says: in the procfs of another PID namespace this process may not be. */
#define OWN_PROCFS "/proc"

struct machine {
	struct privilege privilege;
	struct pmu_catalogue *pmus;
	char *tracefs;		       /* or a list of what is in it (event/tracefs.h); NULL: not mounted */
	struct reason tracefs_problem; /* then */
	char *kallsyms;		       /* its path */
	struct event_env env;	       /* of the four above */
	struct cpulist online;	       /* CPUs */
	struct reason cpus_problem;    /* where sysfs does not tell which they are; or "" */
	struct cpulist excluded;       /* CPUs to be left alone, online or not */
	struct cpulist cpus;	       /* the others of those that are online: what is counted */
	struct cpu_topology topology;  /* of all that are, or were, online */
	bool nmi_watchdog;	       /* kernel.nmi_watchdog is on, and there is a PMU that it may have a counter of */
	struct cgroup_mount mount;     /* path NULL: none */
	struct reason no_cgroups;      /* then */
	struct reason part_of_tree;    /* where it shows a part of the tree only: what to do; or "" */
	int perf_hierarchy;	       /* cgroup_perf_hierarchy() */
};

/*
 * Of the config: procfs, sysfs, [cpu] exclude, [cgroup] mount. known: where CPUs were found to be earlier, also those
 * that are offline now; NULL: nothing is known. Raises the limit of open files to the hard one on the way. Fails, with
 * the sentence in why, only where procfs or sysfs is no folder (-EINVAL, with FILE:LINE), where the CPUs can't be found
 * out, or none is left, or for want of memory.
 */
int machine_new(struct machine **ret, const struct config *config, const struct cpu_topology *known,
		struct reason *why);
/* Another mount of the same tree; it is handed over. */
void machine_take_mount(struct machine *machine, struct cgroup_mount *mount);
struct machine *machine_free(struct machine *machine);
DEFINE_CLEANUP(struct machine *, machine_free)
