/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Where perf's cgroups are: the v1 perf_event hierarchy if one is mounted (the kernel then refuses v2
 * directories), else cgroup2.
 *
 * Of several mounts the one is chosen that shows most of the tree, by its root as mountinfo has it: in a cgroup
 * namespace of its own a process sees its own part as "/", and what is above it as "/..", "/../..", …: the more of
 * these, the nearer to the machine's root. Only the machine's root has inode 1: any other top directory shows a part.
 */

#include "util/reason.h"

#include <stdbool.h>
#include <stdint.h>

struct cgroup_mount {
	char *path;   /* "/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/perf_event" */
	int version;  /* 1 or 2 */
	uint64_t top; /* the top directory's inode; 0: it has not been looked at */
	uint64_t id;  /* the kernel's, of the mount (statx(2)); 0: not known */
};

void cgroup_mount_release(struct cgroup_mount *mount);

/* Does it show a part of the tree only? */
bool cgroup_mount_is_part(const struct cgroup_mount *mount);

/* Do both show the same cgroups under the same labels, at whatever paths? Two without a path do not. */
bool cgroup_mount_same_tree(const struct cgroup_mount *a, const struct cgroup_mount *b);

/*
 * By the text of a mountinfo file alone. A mount point that another file system was mounted over later does not count.
 * -ENOENT with the sentence in why where there is none; what reading the file said; -ENOMEM.
 */
int cgroup_mount_find(struct cgroup_mount *ret, const char *mountinfo, struct reason *why);

/*
 * The one of this process's own mounts (OWN_MOUNTINFO), looked at as it stands there now; or what path names ("": none
 * is named), which has to be a directory of such a hierarchy. procfs tells whether perf_event is with cgroup2 at all.
 * -ENOENT, or what opening path said, with the sentence in why; -ENOMEM.
 */
int cgroup_mount_choose(struct cgroup_mount *ret, const char *procfs, const char *path, struct reason *why);

/* Is it still what stands at its path? */
bool cgroup_mount_is_there(const struct cgroup_mount *mount);

/* The number of the v1 hierarchy that perf_event is in, from procfs's list of controllers; 0: it is with cgroup2; -1:
 * that is not known. */
int cgroup_perf_hierarchy(const char *procfs);
