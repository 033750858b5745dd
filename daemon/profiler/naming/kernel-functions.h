/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Finds the function of the kernel at an address: first among functions that were found before, and code that the
 * kernel has reported since reading of the list began (BPF programs); then in the list of all functions. A child makes
 * the list (list-maker.h), and a child makes a new list when modules have come or gone. The old list is used until the
 * new one is there.
 */

#include "base/util/cleanup.h"
#include "profiler/naming/list-maker.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Functions that were found or reported. When there are so many, all are forgotten. */
#define KERNEL_FUNCTIONS_MAX 8192

struct kernel_function {
	uint64_t start, end;
	char *name;
	bool is_reported; /* by the kernel, since reading of the list began */
};

struct kernel_functions {
	struct list_maker *maker;
	struct function_block *block;  /* the last block of the list that was unpacked */
	struct kernel_function *items; /* by start; none overlaps another */
	size_t nr, cap;
	struct function_list *list; /* NULL: there is none; `unnamed` tells why */
	enum naming unnamed;	    /* why other code has no name; NAMING_UNTRIED: no list was read yet */
	unsigned long modules;	    /* checksum of the modules that were loaded when reading began */
	bool is_stale;		    /* the list lacks code, or could not be read */
	unsigned failures;	    /* of reading, one after the other; at most AGAIN_DOUBLINGS */
	uint64_t again_at;	    /* CLOCK_MONOTONIC ns: the list is not read again before, unless modules change */
};

/* Makes it empty. The epoll wakes up when kernel_functions_turn() has something to do. -ENOMEM, or the error of
 * epoll_create(2) or epoll_ctl(2). */
int kernel_functions_init(struct kernel_functions *functions, int epoll_fd);
void kernel_functions_release(struct kernel_functions *functions);

/* Empties it. */
void kernel_functions_forget(struct kernel_functions *functions);

/* Begins to read the list anew. procfs: "/proc" but in tests; saved: the path of a list that root has saved, which is
 * used if procfs shows no addresses; or NULL. */
void kernel_functions_read(struct kernel_functions *functions, const char *procfs, const char *saved);
/* Calls kernel_functions_read() if modules have come or gone, or if a stale list is to be read again. */
void kernel_functions_follow(struct kernel_functions *functions, const char *procfs, const char *saved);

/* Takes a list that was read. True: the list, or the reason for none, is another one. */
bool kernel_functions_turn(struct kernel_functions *functions);

/* NAMING_NAMED with the function at an address, until the next call; NAMING_NO_SYMBOL: the list has none; or why there
 * is no list. */
enum naming kernel_functions_find(struct kernel_functions *functions, uint64_t address,
				  const struct kernel_function **ret);

struct kernel_functions_stats {
	uint64_t cpu_ns; /* of all children that have ended */
	size_t bytes;	 /* of the list */
};

struct kernel_functions_stats kernel_functions_stats(const struct kernel_functions *functions);

/* Puts a function that the kernel has reported in the place of all functions that it overlaps. Without memory, or with
 * an end before its start, it is left out. */
void kernel_functions_put(struct kernel_functions *functions, uint64_t start, uint64_t end, const char *name);
/* Removes the functions in [start, end). */
void kernel_functions_remove(struct kernel_functions *functions, uint64_t start, uint64_t end);
