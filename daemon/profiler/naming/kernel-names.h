/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Names of the kernel's functions, by the lines of /proc/kallsyms, or of a list that root has saved of it (kallsyms.h):
 * "ADDRESS TYPE NAME[\t[MODULE]]", in any order. The offset of a place is an address.
 *
 * Each line is handed to kernel_names_take(); after the last one, kernel_names_settle() gives each place its nearest
 * symbol below. A function ends where the next symbol begins. Nothing is allocated, and no system call is made.
 */

#include "profiler/naming/function-names.h"

/* Names are copied into room of FUNCTION_NAME_MAX bytes a place. False: the line's address is hidden, as zeroes. */
bool kernel_names_take(struct function_place *places, size_t nr, char (*room)[FUNCTION_NAME_MAX], const char *line,
		       size_t length);
void kernel_names_settle(struct function_place *places, size_t nr, char (*room)[FUNCTION_NAME_MAX]);
