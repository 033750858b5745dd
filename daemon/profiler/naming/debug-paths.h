/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Where files of debug symbols are, as gdb and all distributions have it: below a folder for all (/usr/lib/debug) by
 * build id, as .build-id/ab/cdef….debug, or by the name in a program's .gnu_debuglink: beside the program, in .debug
 * beside it, or in the program's folder below the folder for all.
 */

#include "base/elf/module.h"

#include <limits.h>

#define DEBUG_LINK_PATHS 3

/* "": there is none, since the key has no build id, or the path is too long. */
void debug_path_by_build_id(char ret[static PATH_MAX], const char *root, const struct module_key *key);

/* The paths for a link of a program, which has an absolute path. "" as above, also for a link that is no name of a
 * file. */
void debug_paths_by_link(char ret[static DEBUG_LINK_PATHS][PATH_MAX], const char *root, const char *program,
			 const char *link);
