/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The paths of files of debug symbols, as gdb and all distributions have them. By a program's build id:
 * .build-id/ab/cdef….debug below a common folder (/usr/lib/debug). By the name in its .gnu_debuglink: in the program's
 * folder, in .debug in that folder, or in a folder of the same path below the common folder.
 */

#include "base/elf/module.h"

#include <limits.h>

#define DEBUG_LINK_PATHS 3

/* "": the key has no build id, or the path is too long. */
void debug_path_by_build_id(char ret[static PATH_MAX], const char *root, const struct module_key *key);

/* The paths for the name in the .gnu_debuglink of a program with an absolute path. "": it is no name of a file, or the
 * path is too long. */
void debug_paths_by_link(char ret[static DEBUG_LINK_PATHS][PATH_MAX], const char *root, const char *program,
			 const char *link);
