/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Lists all functions of the kernel and of its modules, by address: /proc/kallsyms as it is when it is read, or a list
 * that root has saved of it (base/elf/kallsyms.h).
 *
 * A function ends where the next symbol begins. The last one of a module ends with its second page: behind it the
 * kernel may load another module.
 *
 * Reading takes some 100 ms of CPU time for 120,000 functions.
 */

#include "base/elf/kallsyms.h"
#include "profiler/naming/function-list.h"

#include <stdio.h>

/* Reads the first of the files that shows addresses (NULL: it is not there), and writes the list into a file in memory.
 * NAMING_NAMED; NAMING_KERNEL: none shows any; NAMING_NO_KALLSYMS: none can be read; NAMING_FAILED: no memory, or it
 * takes too much. */
enum naming kernel_list_write(struct function_list_writer *writer, FILE *const *files, size_t nr, int fd);
