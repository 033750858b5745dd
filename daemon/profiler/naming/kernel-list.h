/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * All functions of the kernel and of its modules, by address: /proc/kallsyms as it was when it was read, or a list that
 * root has saved of it (base/elf/kallsyms.h).
 *
 * A function ends where the next symbol begins. The last one of a module ends with its second page: behind it the
 * kernel may load another module.
 *
 * Reading takes some 100 ms of CPU time for 120,000 functions, so that it is done once. Names are compressed, in
 * blocks: such a list takes 1 MB, and finding a function some 30 µs.
 */

#include "base/elf/kallsyms.h"
#include "base/util/cleanup.h"
#include "profiler/naming/naming.h"

#include <stddef.h>

struct kernel_list;

/* Reads the first of the files that shows addresses. NAMING_NAMED; NAMING_KERNEL: none shows any; NAMING_NO_KALLSYMS:
 * none can be read; NAMING_FAILED: no memory. */
enum naming kernel_list_read(struct kernel_list **ret, const char *const *paths, size_t nr);
struct kernel_list *kernel_list_free(struct kernel_list *list);
DEFINE_CLEANUP(struct kernel_list *, kernel_list_free)

struct kernel_symbol {
	uint64_t start, end;
	char name[KALLSYMS_NAME_MAX];
};

/* The function at an address; false: there is none. */
bool kernel_list_find(const struct kernel_list *list, uint64_t address, struct kernel_symbol *ret);
