/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The child process of a resolver (resolver.h): what it does from the fork to its end.
 *
 * It opens the files that it is given (regular ones) as the daemon itself might, maps them, and is then sealed
 * (base/util/helper.h), before it looks at a single byte. The answer goes into memory that it shares with the daemon.
 */

#include "profiler/naming/function-names.h"

#include <limits.h>

#define NAMING_PLACES 256

/* Files that may be the one that ran: at its path, and at that path in the process's own tree of files. */
#define NAMING_FILES 2
#define NAMING_LINK_FILES 3

/* Paths; "": none. */
struct naming_files {
	char files[NAMING_FILES][PATH_MAX];
	char by_build_id[PATH_MAX];
	char by_link[NAMING_LINK_FILES][PATH_MAX];
	bool linked; /* by_link are known; without any of them there is nothing to do */
	bool vdso;   /* in place of all files: MODULE_VDSO */
};

/* Shared by the two: the child writes, the daemon reads when the child has ended. */
struct naming_answers {
	uint32_t naming[NAMING_PLACES]; /* enum naming */
	uint64_t start[NAMING_PLACES], end[NAMING_PLACES];
	char names[NAMING_PLACES][FUNCTION_NAME_MAX];
	char link[NAME_MAX + 1]; /* a file of debug symbols, of this name, might have more; "": none */
};

/* Names the places of a file. */
_Noreturn void naming_child_run(struct naming_answers *answers, const struct naming_files *files,
				const struct module_key *key, const uint64_t *offsets, size_t nr);
