/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Lists all functions of the kernel and of its modules, by address, from /proc/kallsyms, or from a copy of it that root
 * has saved (base/elf/kallsyms.h).
 *
 * A function ends where the next symbol begins. The last function of a module ends with its second page: the kernel may
 * load another module behind that page.
 *
 * Reading takes some 100 ms of CPU time for 120,000 functions.
 */

#include "base/elf/kallsyms.h"
#include "profiler/naming/function-list.h"

#include <stdio.h>

/* Reads the first of the files that shows addresses (NULL: a missing file), and writes the list into a file in memory.
 * NAMING_NAMED: it is written; NAMING_KERNEL: no file shows addresses; NAMING_NO_KALLSYMS: no file can be read;
 * NAMING_FAILED: no memory, or the list takes too much. */
enum naming kernel_list_write(struct function_list_writer *writer, FILE *const *files, size_t nr, int fd);
