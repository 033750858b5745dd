/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Functions of the kernel that were looked up, by address, so that other places in them need not be: the kernel's list
 * has a hundred thousand symbols, and reading it takes tens of milliseconds. Bounded: when it is full, it begins anew.
 */

#include "base/util/cleanup.h"
#include "profiler/naming/naming.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERNEL_FUNCTIONS_MAX 8192

struct kernel_function {
	uint64_t start, end;
	char *name;
};

struct kernel_functions {
	struct kernel_function *items; /* by start; none overlaps another */
	size_t nr, cap;
	enum naming hidden; /* why the kernel's list can't be used; 0: it can */
};

/* Zeroed, it is empty. */
void kernel_functions_forget(struct kernel_functions *functions);

/* The function at an address, or NULL. */
const struct kernel_function *kernel_functions_find(const struct kernel_functions *functions, uint64_t address);

/* Takes the place of those it overlaps. Without memory, or with an end before its start, it is left out. */
void kernel_functions_put(struct kernel_functions *functions, uint64_t start, uint64_t end, const char *name);
/* Removes what is in [start, end). */
void kernel_functions_remove(struct kernel_functions *functions, uint64_t start, uint64_t end);
