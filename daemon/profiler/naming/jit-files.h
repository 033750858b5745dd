/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The files in which a process tells the names of code that it has made at run time: /tmp/perf-PID.map in its own tree
 * of files, and the jitdump jit-PID.dump that it has mapped. PID is its pid in its own namespace.
 *
 * Anybody can make a file of such a name. It counts if it is a regular file that belongs to the process's user and was
 * written to since the program began. No symbolic link is followed, so that the path does not leave the process's tree.
 *
 * This runs in a child, and allocates nothing.
 */

#include "profiler/naming/naming.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* Bytes of a file. A larger one is not read. */
#define JIT_FILE_MAX ((uint64_t)256 << 20)

/* Jitdumps of a process that are looked at; others are ignored. */
#define JIT_DUMPS_MAX 4

enum jit_file {
	JIT_MAP,
	JIT_DUMP,
	JIT_NR_FILES,
};

/* A file that has changed differs in one of these. Zeroed: there is no file. */
struct jit_file_state {
	uint64_t device, inode, size;
	int64_t seconds, nanoseconds;
};

/* A process and its files, as one look has found them. */
struct jit_seen {
	uint64_t started; /* start of the process, in ticks since the machine's start; 0: the process is gone */
	struct jit_file_state files[JIT_NR_FILES];
	uint32_t pid; /* as the process itself sees it */
	bool is_same; /* nothing has changed since the look before */
};

struct jit_question {
	uint32_t pid;
	uint64_t executed_at; /* CLOCK_MONOTONIC ns; 0: the program is taken to be as old as the process */
	/* Jitdumps that it has mapped, as absolute paths; "": none. After a fork, some are those of its ancestors. */
	char dumps[JIT_DUMPS_MAX][PATH_MAX];
	struct jit_seen seen; /* by the last look; zeroed: there was none */
};

/* Opens the files, and says what was seen of them. ret[i]: -1: file i is not open. NAMING_NAMED: something has changed,
 * and a file is open; NAMING_NO_SYMBOL: nothing has changed (is_same), and no file is open; NAMING_NO_MAP: no file
 * counts. */
enum naming jit_files_open(const char *proc, const struct jit_question *question, int ret[static JIT_NR_FILES],
			   struct jit_seen *ret_seen);
