/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The mount with the cgroups that perf events can be opened on: the v1 perf_event hierarchy if one is mounted (the
 * kernel then refuses v2 directories), else cgroup2.
 *
 * Of several mounts, the one that shows most of the tree is chosen, by its root in mountinfo: a process in a cgroup
 * namespace sees its own part as "/", and the parts above it as "/..", "/../..", …; the more of these, the nearer to
 * the machine's root. Only the machine's root has inode 1: any other top directory shows a part.
 */

#include "base/util/reason.h"

#include <stdbool.h>
#include <stdint.h>

struct cgroup_mount {
	char *path;   /* "/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/perf_event" */
	int version;  /* 1 or 2 */
	uint64_t top; /* the top directory's inode; 0: not known */
	uint64_t id;  /* the mount's id (statx(2), stx_mnt_id); 0: not known */
};

void cgroup_mount_release(struct cgroup_mount *mount);

/* Does it show a part of the tree only? */
bool cgroup_mount_is_part(const struct cgroup_mount *mount);

/* Do both show the same cgroups under the same labels, at whatever paths? Two without a path do not. */
bool cgroup_mount_same_tree(const struct cgroup_mount *a, const struct cgroup_mount *b);

/*
 * Chooses by the text of a mountinfo file alone. A mount point that was mounted over later does not count. -ENOENT with
 * the sentence in why if there is none; the error of reading the file; -ENOMEM.
 */
int cgroup_mount_find(struct cgroup_mount *ret, const char *mountinfo, struct reason *why);

/*
 * Chooses among this process's own mounts (OWN_MOUNTINFO), and only such as can be seen at their paths now; or takes
 * path ("": none is named), which has to be a directory of such a hierarchy. By procfs, cgroup2 is refused if
 * perf_event is in a v1 hierarchy. -ENOENT, or the error of opening path, with the sentence in why; -ENOMEM.
 */
int cgroup_mount_choose(struct cgroup_mount *ret, const char *procfs, const char *path, struct reason *why);

/* Is the same mount, with the same top directory, still at its path? */
bool cgroup_mount_is_there(const struct cgroup_mount *mount);

/* The number of the v1 hierarchy that perf_event is in, from procfs's list of controllers; 0: it is in cgroup2; -1: not
 * known. */
int cgroup_perf_hierarchy(const char *procfs);
