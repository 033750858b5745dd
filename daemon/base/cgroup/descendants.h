/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How many of some cgroups lie below each of them, at whatever depth. A cgroup's numbers hold those of the cgroups
 * below it, so that of a list of the largest only those with none below them, the leaves, say something new.
 */

#include <stddef.h>

/* Takes labels of cgroup_identity, and sets as many numbers. Equal labels are one cgroup, and get the same number.
 * -ENOMEM. */
int descendants_count(const char *const *labels, size_t nr, size_t *ret);
