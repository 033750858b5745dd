/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Where perf's cgroups are: the v1 perf_event hierarchy if one is mounted (the kernel then refuses v2
 * directories), else cgroup2.
 */

#include "util/reason.h"

struct cgroup_mount {
	char *path;  /* "/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/perf_event" */
	int version; /* 1 or 2 */
};

void cgroup_mount_release(struct cgroup_mount *mount);

/*
 * From a mountinfo file ("/proc/self/mountinfo" but in tests). A mount that shows the hierarchy's root
 * ("/") is preferred to one that shows a part of it; a mount point that another file system was mounted
 * over later does not count. -ENOENT with the sentence in why where there is none; what reading the
 * file said; -ENOMEM.
 */
int cgroup_mount_find(struct cgroup_mount *ret, const char *mountinfo, struct reason *why);
