/* SPDX-License-Identifier: MIT */
#pragma once

/* The names in a folder of sysfs or tracefs, sorted, so that no result depends on the order in which the kernel lists
 * them. */

#include <stddef.h>

struct name_array {
	char **names;
	size_t nr;
};

void name_array_release(struct name_array *array);

/* All names in the folder at path below dirfd (AT_FDCWD: as usual) but those that begin with a dot. The error of
 * opening or reading it, or -ENOMEM. */
int folder_read(int dirfd, const char *path, struct name_array *ret);
