/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Where a file that a process has mapped may be opened: at its path; at that path in the mount namespace of the
 * process; through the mapping (/proc/PID/map_files); and as the program of the process (/proc/PID/exe). The last two
 * lead to the file although it was deleted or replaced, or never had a path.
 *
 * A child opens all of these candidates, and executes perfmond anew. Then it chooses the candidate that is the file of
 * the key: the build id of a file is only known when it is read.
 */

#include "base/elf/elf-image.h"
#include "profiler/naming/naming.h"
#include "profiler/process/processes.h"

#include <limits.h>

#define FILE_CANDIDATES 4
#define FILE_CANDIDATES_AT_PATH 2 /* the first two: if neither is the file, another file has its path */

struct file_candidates {
	char paths[FILE_CANDIDATES][PATH_MAX]; /* "": none */
	struct module_key key;
	bool is_vdso;
	bool is_any; /* any file is right, whatever the key says */
};

/* path: an absolute path, or MODULE_VDSO. user: a process that has the file mapped; pid 0: none is known. */
void file_candidates_set(struct file_candidates *ret, const char *proc, const char *path, const struct module_key *key,
			 const struct file_user *user);

/* Opens the candidates that may be the file: if the key has no build id, the inode has to be equal. ret[i]: -1:
 * candidate i is not open. Returns NAMING_NAMED if one is open, or why none is. Allocates nothing. */
enum naming file_candidates_open(const struct file_candidates *candidates, int ret[static FILE_CANDIDATES]);

/* The bytes of a regular file, for as long as the process lives. data is NULL: the file can't be mapped. */
struct elf_bytes file_candidates_map(int fd);

/* The candidate that is the file of the key; else one at its path, whose content tells what is wrong. data is NULL:
 * there is neither. */
struct elf_bytes file_candidates_choose(const struct elf_bytes candidates[static FILE_CANDIDATES],
					const struct module_key *key);
