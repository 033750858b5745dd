/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Functions of code that programs make at run time, by process: a program may tell their names in files (jit-files.h),
 * which a child lists (list-maker.h), one process at a time. Where code was moved or replaced, the same address is
 * another function later. So
 *
 * - a place of a sample that is in the list gets its name at once: as a place it is the function, wherever it is;
 * - a place that is not is one of the process, with its address. It waits until the files were looked at again. With
 *   each new list, such places are others: what one was called before is not taken for what is there later.
 *
 * The files of a process that is sampled are looked at every two seconds, and after a second where places wait. So
 * samples have the name of code that was replaced for that long at most. A process without such files is looked at ever
 * less often.
 *
 * Processes, lists, and names are bounded: the process that was not sampled for the longest time goes, and is met anew.
 */

#include "base/elf/module.h"
#include "profiler/naming/list-maker.h"
#include "profiler/process/processes.h"

#define JIT_PROCESSES_MAX 256

/* Bytes of all lists; one has at most half of it. */
#define JIT_LISTS_LIMIT ((size_t)16 << 20)

/* Functions with names that were found, of all processes. When there are more, all are looked up again. */
#define JIT_FOUND_MAX 8192

struct jit_functions;

struct jit_functions_stats {
	size_t processes, bytes; /* now; bytes: of lists */
	uint64_t looks, lists;	 /* ever */
	uint64_t cpu_ns;	 /* of the children that have ended */
};

/* procfs: "/proc" but in tests. -ENOMEM, or the error of epoll_create(2). */
int jit_functions_new(struct jit_functions **ret, const char *procfs);
struct jit_functions *jit_functions_free(struct jit_functions *functions);
DEFINE_CLEANUP(struct jit_functions *, jit_functions_free)

/* A place in code that a process has made: the module is of the process, or of all if there is a name. Borrowed until
 * the next turn. */
struct jit_place {
	const struct module_key *key;
	uint64_t offset;
	const char *name; /* NULL: not known yet */
};

/* The place at an address of a process. False: no memory. */
bool jit_functions_place(struct jit_functions *functions, const struct process_program *program, uint64_t address,
			 struct jit_place *ret);

/* The naming of a place that had no name, by its module and address. is_new: it is asked for the first time. *ret_name
 * is valid until the next call. NAMING_ASKED: not known yet. */
enum naming jit_functions_name(struct jit_functions *functions, const struct module_key *key, uint64_t address,
			       bool is_new, const char **ret_name);

/* Readable when a child has ended. It stays the functions'. */
int jit_functions_fd(const struct jit_functions *functions);

/* Takes a list that was made, and has the next process looked at. True: places that wait may be asked for again. */
bool jit_functions_turn(struct jit_functions *functions, const struct processes *processes);

/* In a child, which does not have the lists: only names that were found before are known. */
void jit_functions_forget_lists(struct jit_functions *functions);

struct jit_functions_stats jit_functions_stats(const struct jit_functions *functions);
