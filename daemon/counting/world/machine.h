/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The machine as found at the start, and again at each reload: CPUs, PMUs, tracefs, the cgroup mount, and the process's
 * privileges. A missing part is not an error: a sentence beside it says why it is missing, and the states of events
 * that need it do too. Only the roots of sysfs and procfs, which the config names, have to exist.
 */

#include "base/cgroup/tree.h"
#include "base/config/config.h"
#include "base/host/cpu.h"
#include "base/host/host-identity.h"
#include "base/host/privilege.h"
#include "counting/event/parse.h"

struct machine {
	struct host_identity identity;
	struct privilege privilege;
	struct pmu_catalogue *pmus;
	char *tracefs; /* its path, or that of a saved list of tracepoints (counting/event/catalog/tracefs.h); … */
	struct reason tracefs_problem; /* … NULL: not mounted, and the reason */
	char *kallsyms;		       /* its path */
	struct event_env env;	       /* of the four above */
	struct cpulist online;	       /* CPUs */
	struct reason cpus_problem;    /* sysfs does not list them; or "" */
	struct cpulist excluded;       /* CPUs not to be counted, online or not */
	struct cpulist cpus;	       /* CPUs to be counted: online and not excluded */
	struct cpu_topology topology;  /* of all CPUs that are, or were, online */
	bool nmi_watchdog;	       /* kernel.nmi_watchdog is on, and there is a PMU whose counter it may use */
	struct cgroup_mount mount;     /* path NULL: none, and … */
	struct reason no_cgroups;      /* … the reason */
	struct reason part_of_tree;    /* the mount shows only part of the tree, and what to do; or "" */
	int perf_hierarchy;	       /* cgroup_perf_hierarchy() */
	bool credits;		       /* cgroups are counted by crediting (engine/bpf), as far as it goes */
	struct reason no_crediting;    /* it was asked for and can't be, for that reason; or "" */
};

/*
 * Uses procfs, sysfs, [cpu] exclude and [cgroup] mount of the config. known: where CPUs were found to be earlier, also
 * those that are offline now; NULL: nothing is known. Raises the soft limit of open files to the hard one. Fails with
 * the sentence in why: procfs or sysfs is no folder (-EINVAL, with FILE:LINE), the CPUs can't be found out, none is
 * left to be counted, -ENOMEM.
 */
int machine_new(struct machine **ret, const struct config *config, const struct cpu_topology *known,
		struct reason *why);
struct machine *machine_free(struct machine *machine);
DEFINE_CLEANUP(struct machine *, machine_free)

/* Are cgroups to be counted by crediting, where it can be had? */
bool machine_is_to_credit(const struct machine *machine, const struct config *config);

/* Puts another mount of the same tree in place; takes over the contents of mount, which is empty then. */
void machine_take_mount(struct machine *machine, struct cgroup_mount *mount);

/* Opens the root of the cgroups' hierarchy; -1 with the sentence in why. */
int machine_open_cgroups(const struct machine *machine, struct reason *why);

/* Number i of the sentences on missing parts, in ret; false after the last. */
bool machine_problem(const struct machine *machine, size_t i, struct reason *ret);
