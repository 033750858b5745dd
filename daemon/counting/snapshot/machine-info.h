/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The machine and the privileges of the process, as found at the start and at each reload: shown by /api/v1/status. The
 * world fills it in when it has looked at the machine. All members are borrowed from the world, and change with its
 * next reload.
 */

#include "base/cgroup/tree.h"
#include "base/host/host-identity.h"
#include "base/host/privilege.h"
#include "counting/event/env.h"

struct machine_info {
	const char *version; /* of the daemon */
	const char *engine;  /* names of the engines that count, with ", " between them */
	const struct host_identity *identity;
	size_t online;			   /* number of CPUs that are online, counted or not */
	const struct privilege *privilege; /* of the process */
	const struct event_env *env;	   /* PMUs and their problems; tracefs */
	const struct cgroup_mount *mount;  /* NULL: no cgroups are counted */
	const char *no_cgroups;		   /* why not, if mount is NULL */
	const char *part_of_tree;	   /* why the mount shows only a part of the tree; "": it shows all */
	const char *no_crediting;   /* why cgroups are not counted by crediting, where that was asked for; or "" */
	const char *cpus_problem;   /* why the CPUs may be incomplete: sysfs does not tell; "": they are not */
	const char *no_names;	    /* why some containers have no names; or "" */
	const struct cpulist *cpus; /* that are counted */
};
