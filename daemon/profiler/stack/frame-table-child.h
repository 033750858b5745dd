/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The process that makes the table of one file (frame-table.h): `perfmond --make-frame-table`, which a table maker
 * starts (table-maker.h). It is executed anew, since libdw allocates memory.
 *
 * Its open files are a file in memory, and candidates for the program, the library or the image of the vdso
 * (profiler/naming/file-candidates.h). The file in memory has the key (struct module_key) at first. In the end it has
 * the table, or a header with the problem. The process gives up all capabilities, bounds its memory, and is sealed
 * (base/util/helper.h) before it looks at a byte of a candidate.
 */

#include "profiler/naming/file-candidates.h"

enum frame_fd {
	FRAME_FD_TABLE,
	FRAME_FD_FILES,
	FRAME_NR_FDS = FRAME_FD_FILES + FILE_CANDIDATES,
};

/* Why there is no table. */
enum frame_problem {
	FRAME_NO_PROBLEM,
	FRAME_FAILED,	  /* the child did not come to an end: it took too long or too much, or crashed */
	FRAME_STUCK,	  /* the child hangs */
	FRAME_NO_FILE,	  /* the file can't be opened, or is no regular file */
	FRAME_OTHER_FILE, /* another file has its path now */
	FRAME_MALFORMED,  /* the file is no ELF file of this machine's kind */
	FRAME_NO_RULES,	  /* the file has no call-frame information */
	FRAME_TOO_LARGE,
	FRAME_NO_LIBDW, /* perfmond is built without libdw */
	_FRAME_PROBLEM_MAX,
};

/* As a predicate about a file: "has no call-frame information". */
const char *frame_problem_text(enum frame_problem problem);

/* Writes a header with a problem. */
void frame_problem_write(int fd, enum frame_problem problem);

_Noreturn void frame_table_child_run(void);
