/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The functions of a program in Go, from the table that its runtime prints tracebacks with (pclntab). Stripped programs
 * have it too, since they need it to run. It has the bounds and names of all functions of Go (`main.(*T).method`,
 * `main.generic[...]`), and the number of bytes on the stack at each of their addresses. It does not have C code that
 * is linked to the program.
 *
 * The table begins with a magic number, which tells its layout: there is one for Go 1.2 to 1.15, one for 1.16 and 1.17,
 * one for 1.18 and 1.19, and one from 1.20 on. The table has a section of its own, but C linkers put it into
 * .data.rel.ro of programs that can be loaded anywhere (PIE); it is searched for there. Files without section headers
 * are not searched.
 *
 * From 1.18 on, addresses in the table are relative to the first function of Go, which is not at the beginning of .text
 * if functions of C come first. A pointer to it is in the table, and from 1.26 on in a section of its own (.go.module).
 * A linker may leave the value of the pointer to a relocation. Older tables have absolute addresses; where the linker
 * leaves all of them to relocations (lld, for PIE), no function is found.
 *
 * Foreign bytes: see elf-image.h.
 */

#include "base/elf/elf-image.h"

/* Bytes of the longest name, with its NUL. */
#define GO_NAME_MAX ((size_t)64 << 10)

struct go_layout;

struct go_table {
	const struct go_layout *layout;
	struct elf_bytes bytes; /* up to the end of its section */
	struct elf_bytes names, steps;
	uint64_t functions; /* offset in the bytes */
	uint64_t nr;
	uint64_t text;	 /* the address of the first function; the others are relative to it */
	uint8_t quantum; /* bytes of the shortest instruction */
};

struct go_function {
	uint64_t start, end; /* addresses, which may lie anywhere */
	const char *name;    /* in the table's bytes; NULL: it does not end, or is longer than GO_NAME_MAX */
	uint64_t steps;	     /* offset in the table's steps */
};

/* Is there such a table? */
bool go_table_is_there(const struct elf_image *image);

/* False: there is no table, or none that is understood. */
bool go_table_find(const struct elf_image *image, struct go_table *ret);

/* The next function, from *number on, which is moved behind it. False: there are no more functions. */
bool go_table_next(const struct go_table *table, uint64_t *number, struct go_function *ret);

/* Reads the steps of a function: how many bytes it has on the stack at each of its addresses. */
struct go_steps {
	struct elf_bytes bytes;
	uint64_t at; /* offset in them */
	uint64_t address, end;
	int64_t size;
	uint8_t quantum;
	bool has_begun;
};

/* function: one of this table. */
struct go_steps go_steps_begin(const struct go_table *table, const struct go_function *function);

/* At the function's addresses from *ret_start to before *ret_end, the stack pointer is *ret_size bytes below its value
 * at the function's entry. False: there are no more addresses. */
bool go_steps_next(struct go_steps *steps, uint64_t *ret_start, uint64_t *ret_end, int64_t *ret_size);
