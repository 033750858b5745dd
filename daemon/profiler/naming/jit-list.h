/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Lists the functions of code that a program has made at run time, as the program tells them itself, by address:
 *
 * - in a perf map: lines "START SIZE NAME", with two numbers in hex. It grows while the program runs.
 * - in a jitdump: records of functions that were loaded, and moved. Only their names are read, not their code.
 *
 * Code can be put where other code was: a place belongs to the function that was written last. The jitdump counts as
 * written after the perf map. A last line or record that is not whole is still being written, and is left out.
 *
 * The files are foreign bytes. Memory is allocated, and no other system call is made.
 */

#include "base/elf/elf-image.h"
#include "profiler/naming/function-list.h"

/* Functions of both files; of a perf map with more lines, the last ones count. */
#define JIT_ENTRIES_MAX ((size_t)4 << 20)

/* A function, or code without a name. */
struct jit_entry {
	uint64_t start, end;
	const char *name; /* in the file, without a NUL */
	uint32_t length;
	uint32_t age;	/* a larger one was written later */
	uint32_t index; /* in a jitdump: a record that moves the function has this index */
	uint32_t next;	/* number of the entry before with an index in the same slot, plus 1; 0: none */
};

/* Zeroed, it is empty. */
struct jit_entries {
	struct jit_entry *items;
	size_t nr, cap;
	char *names;
	bool failed; /* no memory: some are missing */
};

void jit_entries_release(struct jit_entries *entries);

/* Adds the functions of a perf map. */
void jit_read_map(struct jit_entries *entries, struct elf_bytes file);

/* Adds the functions of a jitdump. False: it is no jitdump in this machine's byte order, or the jitdump of another
 * process. pid: as the process itself sees it. */
bool jit_read_dump(struct jit_entries *entries, struct elf_bytes file, uint32_t pid);

/* Adds all entries to the writer, in order of their addresses, and sorts them. The writer borrows names of the entries
 * until its list is written. False: no memory. */
bool jit_list(struct jit_entries *entries, struct function_list_writer *writer);
