/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The labels of cgroups by id, for samples, which have the id alone. The daemon tells those of its tree; the kernel's
 * records name new ones sooner, and those that are gone before the tree is looked at. Names of cgroups that have gone
 * are kept, since samples of them may come later; their number is bounded, and those that went first are forgotten
 * first.
 */

#include "base/cgroup/filter.h"
#include "base/util/cleanup.h"

#include <stdint.h>

/* Of cgroups that are gone, or that the tree is not known to have. */
#define CGROUP_NAMES_MAX 8192

struct cgroup_names;

struct cgroup_name {
	const char *path; /* the label */
	bool hidden;	  /* the filter does not admit it */
};

/* -ENOMEM. */
int cgroup_names_new(struct cgroup_names **ret);
struct cgroup_names *cgroup_names_free(struct cgroup_names *names);
DEFINE_CLEANUP(struct cgroup_names *, cgroup_names_free)

/* The tree has it; it has it no more. */
void cgroup_names_put(struct cgroup_names *names, uint64_t id, const char *path);
void cgroup_names_end(struct cgroup_names *names, uint64_t id);
void cgroup_names_end_all(struct cgroup_names *names);

/* Notes what the kernel's record tells: a path from the hierarchy's root. */
void cgroup_names_note(struct cgroup_names *names, uint64_t id, const char *path);

/* Looks an id up; false: it is not known. The answer is valid until the next call. */
bool cgroup_names_find(const struct cgroup_names *names, const struct cgroup_filter *filter, uint64_t id,
		       struct cgroup_name *ret);

/* The filter is another. */
void cgroup_names_forget_verdicts(struct cgroup_names *names);
/* The tree is another. */
void cgroup_names_forget(struct cgroup_names *names);
