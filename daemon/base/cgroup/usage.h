/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The CPU time of cgroups, as the kernel accounts it: cpu.stat of cgroup2, which every cgroup has, whatever controllers
 * are enabled. It distinguishes busy from idle cgroups before anything is counted in them.
 */

#include "base/cgroup/tree.h"

/*
 * The CPU time of the cgroup and all in it so far, in µs. -ENOENT if it is gone, also if another cgroup has its path
 * now; -EOPNOTSUPP if no cgroup of the hierarchy has such a file (version 1); -EBADMSG if the file has another format;
 * else the error of opening or reading it.
 */
int cgroup_usage(const struct cgroup_tree *tree, const struct cgroup *cgroup, uint64_t *ret_usec);

/* Finds "usage_usec 123" in the file's text, among lines of that kind in any order. -EBADMSG. */
int cgroup_usage_parse(const char *text, uint64_t *ret_usec);
