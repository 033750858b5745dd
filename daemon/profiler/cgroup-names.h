/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The paths of cgroups by id, for samples, which have the id alone: from the tree, and from the kernel's records of new
 * cgroups, which also name those that are gone before the tree is looked at. Names are kept for cgroups that have gone,
 * since their samples may come later; the number is bounded, and those met first are forgotten first.
 */

#include "base/cgroup/tree.h"

#define CGROUP_NAMES_MAX 8192

struct cgroup_names;

struct cgroup_name {
	const char *path; /* below the mount, as bytes */
	bool hidden;	  /* the filter does not admit it */
};

/* -ENOMEM. */
int cgroup_names_new(struct cgroup_names **ret);
struct cgroup_names *cgroup_names_free(struct cgroup_names *names);
DEFINE_CLEANUP(struct cgroup_names *, cgroup_names_free)

/* Notes what the kernel's record tells: a path from the hierarchy's root. */
void cgroup_names_note(struct cgroup_names *names, uint64_t id, const char *path);

/* Looks an id up, also in the tree (or NULL); false: it is not known. The answer is valid until the next call. */
bool cgroup_names_find(struct cgroup_names *names, const struct cgroup_tree *tree, const struct cgroup_filter *filter,
		       uint64_t id, struct cgroup_name *ret);

/* With another tree or another filter, nothing that was known holds. */
void cgroup_names_forget(struct cgroup_names *names);
