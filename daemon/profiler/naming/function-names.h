/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Lists the functions of a program or a shared library (ELF).
 *
 * Symbols are looked for in .symtab, or else in the .symtab of a file of debug symbols. If both are missing, three
 * sources are used together: the table of Go's runtime (go-functions.h), compressed symbols (.gnu_debugdata), and
 * .dynsym.
 *
 * A function has as many bytes as its symbol says. A place behind its end does not get its name: in stripped files that
 * would mostly be wrong. Where functions overlap, a place has the name of the function that begins last (the
 * innermost); of several that begin together, of the function whose symbol was found first. A place without a name has
 * the bounds of its function if the table for unwinding has them (unwind-table.h), so that all places in that function
 * are shown as one.
 *
 * The files are foreign bytes, and may be hostile. Reading them allocates memory, and makes no other system call.
 */

#include "base/elf/elf-image.h"
#include "profiler/naming/function-list.h"

/* Bytes of memory for compressed symbols; pages that are not needed are not touched. */
#define FUNCTION_NAMES_ROOM ((size_t)144 << 20)

/* The files that may have names. Size 0, or NULL: this one is missing. */
struct function_sources {
	struct elf_bytes file;	      /* the program or library itself */
	struct elf_bytes by_build_id; /* a file of debug symbols at the path of its build id, … */
	struct elf_bytes by_link;     /* … and one at a path of its .gnu_debuglink; both are checked */
	unsigned char *room;	      /* FUNCTION_NAMES_ROOM bytes */
};

/* Sorted offsets in the file: only functions at one of these are listed. */
struct function_places {
	const uint64_t *offsets;
	size_t nr; /* 0: all functions are listed */
};

/*
 * Adds the functions to the writer, in order of their offsets in the file. Their names are borrowed from the sources.
 * If the key has a build id, the file must have this build id. Returns why places have no name
 * (function_list_naming()). *ret_has_all: true: all symbols were found (a .symtab); false: a file of debug symbols
 * might have more.
 */
enum naming function_names_list(struct function_list_writer *writer, const struct function_sources *sources,
				const struct module_key *key, const struct function_places *places, bool *ret_has_all);

/* Is this an ELF file with the build id of the key? If the key has none, any ELF file is right. */
bool function_names_is_file(struct elf_bytes file, const struct module_key *key);
