/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The machine's CPUs, from /sys/devices/system/cpu: which are online, and where each sits.
 *
 * A device's event is counted on one CPU that stands for its package or die. Which CPU that is says little,
 * and can change with hotplug: the place is what such a count is told apart by.
 */

#include "util/cpulist.h"
#include "util/reason.h"

/* Reads sysroot/devices/system/cpu/online (sysroot is "/sys" but in tests). Negative errno with the
 * sentence, which names the file, in why. */
int cpu_online(struct cpulist *ret, const char *sysroot, struct reason *why);

/* Where there is no such file: the CPUs of procroot/stat, or else as many as the C library says, from 0 on. *source
 * (constant) says which. -ENOMEM; -ENOENT. */
int cpu_online_otherwise(struct cpulist *ret, const char *procroot, const char **source);

/* The same of another of the kernel's lists beside it: "isolated", "nohz_full". -ENOENT: this kernel has no such
 * list. */
int cpu_list_read(struct cpulist *ret, const char *sysroot, const char *name, struct reason *why);

/*
 * Has the list of CPUs that are online changed? Neither inotify nor poll tells, and uevents need a kind of socket that
 * sandboxes do not give: the file is kept open and its text compared, which costs a microsecond or two.
 */
struct cpu_watch {
	int fd; /* -1: it can't be opened, and nothing ever changes */
	char text[4096];
};

void cpu_watch_open(struct cpu_watch *ret, const char *sysroot);
void cpu_watch_close(struct cpu_watch *watch);
/* Since it was opened, or asked the last time. */
bool cpu_watch_has_changed(struct cpu_watch *watch);

#define CPU_NOWHERE (-1)

/* CPU_NOWHERE: the kernel doesn't say, as in many virtual machines. */
struct cpu_place {
	int package;
	int die; /* only where the package has several */
};

/* The kernel tells the place of CPUs that are online alone. A CPU does not move, though, and a place is a label of
 * series: what was known once stays known. */
struct cpu_topology {
	struct cpu_place *places; /* [cpu] */
	int *dies;		  /* [cpu], also where the package has no other, as far as is known */
	size_t nr;
};

/* Of nr CPUs, of none of which anything is known. -ENOMEM. */
int cpu_topology_new(struct cpu_topology *ret, size_t nr);
void cpu_topology_release(struct cpu_topology *topology);

/* Reads sysroot/devices/system/cpu/cpuN/topology of those CPUs; of others, and of what is missing there or makes no
 * sense, `known` tells (NULL: nothing), as of an earlier reading. -ENOMEM. */
int cpu_topology_read(struct cpu_topology *ret, const char *sysroot, const struct cpulist *cpus,
		      const struct cpu_topology *known);

/* Settles which packages have several dies, after places and dies were set. */
void cpu_topology_settle(struct cpu_topology *topology);

/* CPU_NOWHERE for a CPU that was not read, and where topology is NULL. */
struct cpu_place cpu_topology_find(const struct cpu_topology *topology, int cpu);
