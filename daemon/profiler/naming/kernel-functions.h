/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which function of the kernel is at an address. Two kinds are looked through first: functions that were found before,
 * and code that the kernel has reported since the list was begun (BPF programs). The list of all functions comes next.
 * A child makes it (list-maker.h), and makes another one when modules have come or gone; the old list counts until that
 * is there.
 */

#include "base/util/cleanup.h"
#include "profiler/naming/list-maker.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* When there are so many, they are forgotten. */
#define KERNEL_FUNCTIONS_MAX 8192

struct kernel_function {
	uint64_t start, end;
	char *name;
	bool is_reported; /* by the kernel, since reading the list has begun */
};

struct kernel_functions {
	struct list_maker *maker;
	struct function_block *block;  /* the last one of the list that was unpacked */
	struct kernel_function *items; /* by start; none overlaps another */
	size_t nr, cap;
	struct function_list *list; /* NULL: there is none; `unnamed` tells why */
	enum naming unnamed;	    /* why other code has no name; NAMING_UNTRIED: no list was read yet */
	unsigned list_changes;	    /* times that the list, or the reason for none, became another one */
	unsigned long modules;	    /* a checksum of the modules that were loaded then */
	bool is_stale;		    /* code that was loaded since is missing */
	unsigned failures;	    /* of reading, one after the other, up to AGAIN_DOUBLINGS */
	uint64_t again_at;	    /* CLOCK_MONOTONIC ns: not before then */
};

/* It is empty. The epoll wakes up when kernel_functions_turn() has something to do. -ENOMEM, or the error of
 * epoll_create(2) or epoll_ctl(2). */
int kernel_functions_init(struct kernel_functions *functions, int epoll_fd);
void kernel_functions_release(struct kernel_functions *functions);

/* Empties it. */
void kernel_functions_forget(struct kernel_functions *functions);

/* Begins to read the list anew. procfs: "/proc" but in tests; saved: a list that root has saved, which counts where
 * that of procfs shows no addresses, or NULL. */
void kernel_functions_read(struct kernel_functions *functions, const char *procfs, const char *saved);
/* The same, if modules have come or gone. */
void kernel_functions_follow(struct kernel_functions *functions, const char *procfs, const char *saved);

/* Takes a list that was read. */
void kernel_functions_turn(struct kernel_functions *functions);

/* The function at an address, until the next call; NULL: there is none. */
const struct kernel_function *kernel_functions_find(struct kernel_functions *functions, uint64_t address);

/* Takes the place of those it overlaps. Without memory, or with an end before its start, it is left out. */
void kernel_functions_put(struct kernel_functions *functions, uint64_t start, uint64_t end, const char *name);
/* Removes what is in [start, end). */
void kernel_functions_remove(struct kernel_functions *functions, uint64_t start, uint64_t end);
