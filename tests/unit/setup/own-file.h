/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The test program's own file, as an ELF file whose functions are known. What fails ends the test.
 */

#include "profiler/naming/resolver.h"

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

/* Waits for the answers of a resolver that is busy. */
void resolver_wait(struct resolver *resolver);
