/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The process that lists the functions of a file or of the kernel (function-list.h): `perfmond --list-functions`, which
 * a list maker starts (list-maker.h). It is executed anew, since it allocates memory.
 *
 * Its open files are a file in memory, and the files that may have names. The file in memory has the question at first
 * (struct list_request), and the list in the end. The process gives up all capabilities, bounds its memory, and is
 * sealed (base/util/helper.h) before it looks at a byte of a file.
 */

#include "base/elf/module.h"
#include "profiler/naming/file-candidates.h"
#include "profiler/naming/function-list.h"

enum list_fd {
	LIST_FD_LIST,
	LIST_FD_FILES, /* candidates, the kernel's lists, or files of jit-files.h */
	LIST_FD_BY_BUILD_ID = LIST_FD_FILES + FILE_CANDIDATES, /* files of debug symbols */
	LIST_FD_BY_LINK,
	LIST_NR_FDS,
};

/* Places that can be asked for at once. */
#define LIST_PLACES 1024

struct list_request {
	struct module_key key;
	uint32_t is_kernel;
	uint32_t jit_pid; /* pid of a process whose files of jit-files.h are listed, as it sees it; 0: none */
	uint32_t is_part; /* 1: list only functions at the places; 0: do so only if all functions take too much */
	uint64_t max;	  /* bytes of the list */
	uint64_t nr;
	uint64_t places[LIST_PLACES]; /* sorted */
};

/* Writes a list without functions. It allocates nothing. */
void list_child_answer(int fd, enum naming naming);

_Noreturn void list_child_run(void);
