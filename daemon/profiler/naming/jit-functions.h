/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Functions of code that programs make at run time, by process. A program may write their names to files (jit-files.h),
 * which a child lists (list-maker.h), one process at a time. Code may be moved or replaced, so that an address is in
 * another function later. Therefore
 *
 * - if a sampled address is in the list, its place stands for the function, and has the name at once. The place is the
 *   same wherever a function of that name is;
 * - if it is not, its place is the address in that process. The place waits until the files were looked at again. After
 *   each new list, the same address becomes another place: a name that the old place got is not taken for new code.
 *
 * The files of a sampled process are looked at every two seconds, and after one second where places wait. Until then,
 * new code may have the name of the code that it has replaced. A process without such files is looked at ever less
 * often.
 *
 * Processes, lists, and names are bounded: the process that was not sampled for the longest time is forgotten, and is a
 * new one when it is sampled again.
 */

#include "base/elf/module.h"
#include "profiler/naming/list-maker.h"
#include "profiler/process/processes.h"

#define JIT_PROCESSES_MAX 256

/* Bytes of all lists; a list has at most half of them. */
#define JIT_LISTS_LIMIT ((size_t)16 << 20)

/* Functions with names that were found, in all processes together. If there are more, all are forgotten, and looked up
 * again. */
#define JIT_FOUND_MAX 8192

struct jit_functions;

struct jit_functions_stats {
	size_t processes, bytes;    /* now; bytes: of lists */
	uint64_t looks, lists_made; /* ever */
	uint64_t cpu_ns;	    /* of the children that have ended */
};

/* procfs: "/proc" but in tests. -ENOMEM, or the error of epoll_create(2). */
int jit_functions_new(struct jit_functions **ret, const char *procfs);
struct jit_functions *jit_functions_free(struct jit_functions *functions);
DEFINE_CLEANUP(struct jit_functions *, jit_functions_free)

/* A place in code that a process has made. All places with a name have one module; places without a name have a module
 * of their process. Borrowed until the next turn. */
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
