/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The names in a folder of sysfs or tracefs, sorted, so that what is made of them does not depend on the
 * order in which the kernel lists them.
 */

#include <stddef.h>

struct name_array {
	char **names;
	size_t nr;
};

void name_array_release(struct name_array *array);

/* All names in the folder at path below dirfd (AT_FDCWD: as usual) but those that begin with a dot. What
 * opening or reading it said, or -ENOMEM; *ret is untouched on failure. */
int folder_read(int dirfd, const char *path, struct name_array *ret);
