/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The names of the functions at places in a program or a shared library (ELF).
 *
 * Symbols are looked for in .symtab, else in that of a file of debug symbols, else in compressed ones (.gnu_debugdata)
 * and .dynsym. A function has as many bytes as its symbol says: the symbol below a place is not taken for its name if
 * the place is behind its end, since in stripped files it would mostly be wrong. A place without a name has the bounds
 * of its function if the table for unwinding has them (unwind-table.h), so that places of one function can be told to
 * be that.
 *
 * The files are foreign bytes, and may be hostile: nothing is allocated and no system call is made, so that the search
 * can run where none is allowed (resolver.h).
 */

#include "base/elf/elf-image.h"
#include "profiler/naming/naming.h"

#define FUNCTION_NAME_MAX 1024 /* bytes, with the NUL; longer ones are cut */

/* Bytes of memory for compressed symbols; pages that are not needed are not touched. */
#define FUNCTION_NAMES_ROOM ((size_t)144 << 20)

struct function_place {
	uint64_t offset;  /* in: in the file, or the kernel's address */
	uint64_t address; /* as the file's symbols have it; the search's own */
	enum naming naming;
	const char *name;    /* in a file's bytes or the room, with a NUL behind it there; NULL: none */
	uint64_t start, end; /* of the function, in the unit of offset; both 0: not known */
};

/* Where the names are. Of no size, or NULL: there is none of this. */
struct function_sources {
	struct elf_bytes file;	      /* the program or library itself */
	struct elf_bytes by_build_id; /* files of debug symbols that may be its: of its build id, … */
	struct elf_bytes by_link;     /* … and of the name in its .gnu_debuglink */
	unsigned char *room;	      /* FUNCTION_NAMES_ROOM bytes */
};

/* Names the places, which are sorted by offset. If the key has a build id, the file must have the same. True: all
 * symbols were there (a .symtab); false: a file of debug symbols might have more. */
bool function_names_find(struct function_place *places, size_t nr, const struct function_sources *sources,
			 const struct module_key *key);

/* Is that the file of the key, by its build id, if that has one? */
bool function_names_is_file(struct elf_bytes file, const struct module_key *key);
