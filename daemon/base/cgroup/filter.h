/* SPDX-License-Identifier: MIT */
#pragma once

/* Globs on the labels of cgroups, as [cgroup] include and exclude have them (base/util/glob.h). */

#include <stdbool.h>
#include <stddef.h>

/* Borrowed from the config. */
struct cgroup_filter {
	char *const *include;
	size_t nr_include;
	char *const *exclude;
	size_t nr_exclude;
};

/* Does an include match the label, and no exclude? */
bool cgroup_filter_admits(const struct cgroup_filter *filter, const char *label);
