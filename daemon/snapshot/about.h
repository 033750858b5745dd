/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The machine and the process as found at start: what /api/v1/status shows beside the figures, and what
 * --check prints. All borrowed, from the manager.
 */

#include "count/privilege.h"
#include "event/event.h"
#include "target/cgroup.h"

struct about {
	const char *version;
	const char *engine;		       /* "perf-cgroup": the kernel's per-cgroup events */
	const struct privilege *privilege;
	const struct event_env *env;	       /* PMUs with their problems; tracefs */
	const struct cgroup_mount *mount;      /* NULL: none */
	const char *no_cgroups;		       /* then: the sentence */
	const char *part_of_tree;	       /* the sentence where it shows a part only, or "" */
	const char *cpus_problem;	       /* the sentence where sysfs does not tell which there are, or "" */
	const struct cpulist *cpus;	       /* online */
};
