/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The CPU time of cgroups, as the kernel accounts it: cpu.stat of cgroup2, which each cgroup has, whatever
 * controllers are on. It tells the busy from the idle before anything is counted in them.
 */

#include "target/cgroup.h"

/*
 * What the cgroup and all in it have used so far, in µs. -ENOENT where it is gone, also where another cgroup
 * stands in its place; -EOPNOTSUPP where the hierarchy has no such file, in any of its cgroups (version 1);
 * -EBADMSG where the file is another; what opening or reading it said.
 */
int cgroup_usage(const struct cgroup_tree *tree, const struct cgroup *cgroup, uint64_t *usec);

/* From the file's text, "usage_usec 123" among lines of that kind, in any order; -EBADMSG. */
int cgroup_usage_parse(const char *text, uint64_t *usec);
