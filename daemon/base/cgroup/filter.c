/* SPDX-License-Identifier: MIT */

#include "base/cgroup/filter.h"

#include "base/util/glob.h"

static bool any_matches(char *const *globs, size_t nr, const char *label)
{
	for (size_t i = 0; i < nr; i++)
		if (glob_match(globs[i], label))
			return true;
	return false;
}

bool cgroup_filter_admits(const struct cgroup_filter *filter, const char *label)
{
	return any_matches(filter->include, filter->nr_include, label) &&
	       !any_matches(filter->exclude, filter->nr_exclude, label);
}
