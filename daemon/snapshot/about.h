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
	const struct cpulist *cpus;	       /* online */
};
