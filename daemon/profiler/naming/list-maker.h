/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Makes lists of functions (function-list.h), one at a time, in a child process: a file may be hostile, and opening it
 * may hang.
 *
 * The child has the rights of the profiler. It opens the file, wherever it may be (file-candidates.h), and the file of
 * debug symbols that has its build id. Then it executes perfmond anew, which makes the list (list-child.h). A file may
 * also name its file of debug symbols (.gnu_debuglink), but that is not known before the file is read: the list has the
 * name in it, and a second child makes the list anew with that file, if it is there. A child that takes too long is
 * killed.
 */

#include "profiler/naming/jit-files.h"
#include "profiler/naming/list-child.h"
#include "profiler/process/processes.h"

struct list_maker;

/* Folders: "/proc" and "/usr/lib/debug" but in tests. */
struct list_roots {
	const char *proc, *debug;
};

/* -ENOMEM, or the error of epoll_create(2). */
int list_maker_new(struct list_maker **ret, const struct list_roots *roots);
struct list_maker *list_maker_free(struct list_maker *maker);
DEFINE_CLEANUP(struct list_maker *, list_maker_free)

/* Does a child run? */
bool list_maker_is_busy(const struct list_maker *maker);

/* Which functions of a file are asked for. */
struct list_question {
	const char *path; /* an absolute path, or MODULE_VDSO */
	const struct module_key *key;
	struct file_user user; /* a process that has the file mapped; pid 0: none is known */
	bool is_part; /* true: list only functions at the places; false: do so only if all functions take too much */
	uint64_t *places; /* list_maker_start() sorts them */
	size_t nr;
	size_t max; /* bytes of the list */
};

/* Starts a child for a file, or for the kernel's symbols in the first of the files at `paths` that shows addresses. A
 * list that was not taken is dropped. -EBUSY; negative errno of memfd_create(2), write(2) or fork(2). */
int list_maker_start(struct list_maker *maker, const struct list_question *question);
int list_maker_start_kernel(struct list_maker *maker, const char *const *paths, size_t nr, size_t max);

/* Starts a child for the code that a process makes. If nothing has changed since question->seen, the list is without
 * functions. Errors as of list_maker_start(). */
int list_maker_start_jit(struct list_maker *maker, const struct jit_question *question, size_t max);

/* The files as that child has seen them; zeroed: it has not come so far. */
const struct jit_seen *list_maker_seen(const struct list_maker *maker);

/* Readable when list_maker_finish() has something to do. It stays the maker's. */
int list_maker_fd(const struct list_maker *maker);

/* Is the list made? True once. A child that has run for too long is killed. */
bool list_maker_finish(struct list_maker *maker);

/* The list, once after list_maker_finish(); it becomes the caller's. A list without functions says why. NULL: no
 * memory. */
struct function_list *list_maker_take(struct list_maker *maker);

/* CPU time of all children that have ended. */
uint64_t list_maker_cpu_ns(const struct list_maker *maker);
