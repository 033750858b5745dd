/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The machine's CPUs, from /sys/devices/system/cpu: which are online, and in which package and die each is.
 *
 * A device's event is counted on one CPU that stands for its package or die. That CPU can change with hotplug: such a
 * count is identified by the place instead.
 */

#include "base/util/cpulist.h"
#include "base/util/reason.h"

/* Reads sysroot/devices/system/cpu/online (sysroot is "/sys" but in tests). Negative errno with the
 * sentence, which names the file, in why. */
int cpu_online(struct cpulist *ret, const char *sysroot, struct reason *why);

/* If that fails: the CPUs of procroot/stat, or else as many as sysconf(3) counts, from 0 on. *ret_source is a constant
 * string that names the source. -ENOMEM; -ENOENT. */
int cpu_online_otherwise(struct cpulist *ret, const char *procroot, const char **ret_source);

/* Reads another of the kernel's lists beside it: "isolated", "nohz_full". -ENOENT: this kernel has no such list. */
int cpu_list_read(struct cpulist *ret, const char *sysroot, const char *name, struct reason *why);

/*
 * Has the list of online CPUs changed? Neither inotify nor poll report it, and uevents need a kind of socket that
 * sandboxes deny. So the file is kept open and its text compared, which costs a microsecond or two.
 */
struct cpu_watch {
	int fd; /* -1: it can't be opened; no change is ever reported */
	char text[4096];
};

void cpu_watch_open(struct cpu_watch *ret, const char *sysroot);
void cpu_watch_close(struct cpu_watch *watch);
/* Since it was opened, or since the last call. */
bool cpu_watch_has_changed(struct cpu_watch *watch);
/* The list as it was read then, as text. */
const char *cpu_watch_text(const struct cpu_watch *watch);

#define CPU_NOWHERE (-1)

/* CPU_NOWHERE: the kernel does not know, as in many virtual machines. */
struct cpu_place {
	int package;
	int die; /* only where the package has several */
};

/* The kernel has the places of online CPUs only. But a CPU does not move, and its place is a label of series: a place
 * that was known once stays known. */
struct cpu_topology {
	struct cpu_place *places; /* [cpu] */
	int *dies;		  /* [cpu], also if the package has only one; CPU_NOWHERE: not known */
	size_t nr;
};

/* For nr CPUs, at unknown places. -ENOMEM. */
int cpu_topology_new(struct cpu_topology *ret, size_t nr);
void cpu_topology_release(struct cpu_topology *topology);

/* Reads sysroot/devices/system/cpu/cpuN/topology of those CPUs. Other CPUs, and missing or invalid numbers, are taken
 * from `known`, an earlier reading (NULL: none). -ENOMEM. */
int cpu_topology_read(struct cpu_topology *ret, const char *sysroot, const struct cpulist *cpus,
		      const struct cpu_topology *known);

/* Sets the dies in places, for packages that have several; to be called after packages and dies were set. */
void cpu_topology_finish(struct cpu_topology *topology);

/* CPU_NOWHERE for an unknown CPU, and if topology is NULL. */
struct cpu_place cpu_topology_find(const struct cpu_topology *topology, int cpu);
