/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The test program's own file, as an ELF file whose functions are known. What fails ends the test.
 */

#include "profiler/naming/function-names.h"
#include "profiler/naming/list-maker.h"

struct own_file {
	char path[512];
	unsigned char *bytes;
	size_t size;
	struct module_key key; /* by its build id */
	struct module_key inode;
};

void own_file_open(struct own_file *own);
void own_file_close(struct own_file *own);

/* Where a function of the program is in the file. */
uint64_t own_file_offset(int (*function)(int n));

/* Waits for the list of a maker that is busy. It is the caller's. */
struct function_list *list_maker_wait(struct list_maker *maker);

/* What the writer has, as a list. NULL: it has failed. */
struct function_list *list_written(struct function_list_writer *writer, enum naming naming);

/* The place in a list: its naming, and the function, whose name is valid until the next call. */
enum naming list_find(const struct function_list *list, uint64_t place, struct function *ret);
