/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Lists the functions of a program or a shared library (ELF).
 *
 * Symbols are looked for in .symtab, else in that of a file of debug symbols. Where both are missing, three sources
 * count together: the table of Go's runtime (go-functions.h), compressed symbols (.gnu_debugdata), and .dynsym.
 *
 * A function has as many bytes as its symbol says. A place behind its end does not get its name: in stripped files that
 * would mostly be wrong. Where functions overlap, a place has the name of the one that begins last (the innermost); of
 * several that begin together, the one whose symbol was found first. A place without a name has the bounds of its
 * function if the table for unwinding has them (unwind-table.h), so that all places in that function are shown as one.
 *
 * The files are foreign bytes, and may be hostile. Memory is allocated, and no other system call is made.
 */

#include "base/elf/elf-image.h"
#include "profiler/naming/function-list.h"

/* Bytes of memory for compressed symbols; pages that are not needed are not touched. */
#define FUNCTION_NAMES_ROOM ((size_t)144 << 20)

/* Where the names are. Of no size, or NULL: there is none of this. */
struct function_sources {
	struct elf_bytes file;	      /* the program or library itself */
	struct elf_bytes by_build_id; /* files of debug symbols that may be its: of its build id, … */
	struct elf_bytes by_link;     /* … and of the name in its .gnu_debuglink */
	unsigned char *room;	      /* FUNCTION_NAMES_ROOM bytes */
};

/* Offsets in the file, sorted: only functions that have one of them are listed. */
struct function_places {
	const uint64_t *offsets;
	size_t nr; /* 0: all functions are listed */
};

/*
 * Adds the functions to the writer, in order of their offsets in the file; the names are in the sources. If the key has
 * a build id, the file must have the same. Returns why places have no name (function_list_naming()). *ret_has_all: all
 * symbols were there (a .symtab); false: a file of debug symbols might have more.
 */
enum naming function_names_list(struct function_list_writer *writer, const struct function_sources *sources,
				const struct module_key *key, const struct function_places *places, bool *ret_has_all);

/* Is that the file of the key, by its build id, if that has one? */
bool function_names_is_file(struct elf_bytes file, const struct module_key *key);
