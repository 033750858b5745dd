/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Where a file that a process has mapped may be opened: at its path; at that path in the mount namespace of the
 * process; through the mapping (/proc/PID/map_files); and as the program of the process (/proc/PID/exe). By the last
 * two it is found although it was deleted or replaced, or never had a path.
 *
 * A child opens all of them, and executes perfmond anew. Then it chooses the one that is the file of the key: a build
 * id is only known when a file is read.
 */

#include "base/elf/elf-image.h"
#include "profiler/naming/naming.h"
#include "profiler/process/processes.h"

#include <limits.h>

#define FILE_CANDIDATES 4
#define FILE_CANDIDATES_AT_PATH 2 /* the first ones: if they are not the file, another one has its path */

struct file_candidates {
	char paths[FILE_CANDIDATES][PATH_MAX]; /* "": none */
	struct module_key key;
	bool is_vdso;
	bool is_any; /* all files count, whatever the key says */
};

/* path: an absolute one, or MODULE_VDSO. user: a process that has it mapped; without a pid: none. */
void file_candidates_set(struct file_candidates *ret, const char *proc, const char *path, const struct module_key *key,
			 const struct file_user *user);

/* Opens those that may be the file: without a build id it has to be the inode. ret: -1: none. Returns NAMING_NAMED if
 * there is one, or why there is none. It allocates nothing. */
enum naming file_candidates_open(const struct file_candidates *candidates, int ret[static FILE_CANDIDATES]);

/* The bytes of a regular file, for as long as the process lives. data is NULL: it can't be mapped. */
struct elf_bytes file_candidates_map(int fd);

/* The file of the key; else one at its path, which says why it is not. data is NULL: there is none. */
struct elf_bytes file_candidates_choose(const struct elf_bytes candidates[static FILE_CANDIDATES],
					const struct module_key *key);
