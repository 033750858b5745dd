/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A folder for one test, on a tmpfs where there is one, as its inode numbers are not used again. What
 * can't be made fails the test.
 */

#include <stddef.h>

struct scratch {
	char path[64];
};

void scratch_make(struct scratch *scratch);
/* Removes it with all that is in it, to any depth. */
void scratch_remove(struct scratch *scratch);

/* Below the folder; name may have slashes, and its folders are made. */
void scratch_write(const struct scratch *scratch, const char *name, const char *text, size_t size);
void scratch_text(const struct scratch *scratch, const char *name, const char *text);
void scratch_mkdir(const struct scratch *scratch, const char *name);
void scratch_rmdir(const struct scratch *scratch, const char *name);

/* The path of name, in one of a few static buffers. */
const char *scratch_path(const struct scratch *scratch, const char *name);
