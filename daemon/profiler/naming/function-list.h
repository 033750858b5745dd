/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A packed list of all functions of a file or of the kernel, by place. The list of a kernel with 122,000 functions
 * takes 1 MB, and finding a function in it about 30 µs.
 *
 * A list is made by a sealed child (list-child.h), which writes it into a file in memory. The file is foreign bytes:
 * function_list_read() checks its header and the order of its blocks, and function_list_find() each block that it
 * unpacks. In the worst case names are wrong.
 *
 * Places are offsets in a file, or addresses of the kernel. A list has entries, sorted by place. An entry is valid up
 * to the next one, and stands for a named function, a function of which only the bounds are known, or no function.
 * Entries stand in blocks, which are compressed one by one.
 */

#include "base/util/buf.h"
#include "base/util/cleanup.h"
#include "profiler/naming/naming.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FUNCTION_NAME_MAX 1024 /* bytes, with the NUL */

/* Bytes of an unpacked block. */
#define FUNCTION_BLOCK_BYTES ((size_t)48 << 10)

/* --- in the profiler */

struct function_list;

/* Reads a list from a file in memory. -EBADMSG: it is malformed; -EFBIG: it takes more than max bytes; -ENOMEM;
 * negative errno of pread(2). */
int function_list_read(struct function_list **ret, int fd, size_t max);
/* A list without functions, and the reason (function_list_naming()). NULL: no memory. */
struct function_list *function_list_empty(enum naming naming);
struct function_list *function_list_free(struct function_list *list);
DEFINE_CLEANUP(struct function_list *, function_list_free)

/* Children that this process forks do not get the memory of its lists. From now on they get the memory of this list. */
void function_list_share(struct function_list *list);

/* All memory of the list, in bytes. */
size_t function_list_bytes(const struct function_list *list);
/* Why a place has no name. NAMING_NO_SYMBOL: names were there. Never NAMING_NAMED. */
enum naming function_list_naming(const struct function_list *list);
/* The list has only the functions at the places that were asked for, since all functions take too much memory. */
bool function_list_is_part(const struct function_list *list);
/* The name in the .gnu_debuglink of the file: that file of debug symbols might have more names. "": there is none, or
 * all symbols were found. */
const char *function_list_link(const struct function_list *list);

/* An unpacked block. Zeroed, it is empty. Before its list is freed, `list` has to be NULL. */
struct function_block {
	const struct function_list *list;
	uint32_t number;
	size_t size;
	unsigned char bytes[FUNCTION_BLOCK_BYTES];
};

struct function {
	uint64_t start, end; /* the function's part with the place; without a name, from the function's beginning */
	/* Plain text of fewer than FUNCTION_NAME_MAX bytes, in the block. */
	const char *name;   /* as people write it; NULL: it has none */
	const char *symbol; /* as its file has it; NULL: equal to the name */
};

/* The function at a place; false: none is known. The block of the last call is used again if it has the place: asking
 * for places in their order saves time. */
bool function_list_find(const struct function_list *list, uint64_t place, struct function_block *block,
			struct function *ret);

/* --- in the child */

/* Zeroed, it is ready. */
struct function_list_writer {
	size_t max; /* bytes that the list may have; 0: any number */
	struct buf blocks, data;
	struct buf raw; /* the block that is being filled */
	struct buf demangled;
	uint64_t first, last;
	unsigned nr; /* entries in the block that is being filled */
	uint64_t pending_place, pending_start;
	const char *pending_name, *written_name; /* borrowed */
	uint64_t written_start;
	bool has_pending, has_written;
	void *deflater;
	bool failed, is_full;
};

/* Adds an entry for the places from `place` on: the function with that name. name NULL: the function that begins at
 * `start` and has no name; or no function, if start is FUNCTION_NONE. Names are borrowed: the names of the last two
 * entries have to stay. Places ascend; of several entries for one place, the last one counts. */
#define FUNCTION_NONE UINT64_MAX
void function_list_add(struct function_list_writer *writer, uint64_t place, const char *name, uint64_t start);

/* Writes the list into an empty file in memory. naming: as of function_list_naming(); link: NULL or a name. -ENOMEM;
 * -EFBIG: the list takes more than max bytes; negative errno of write(2). */
int function_list_write(struct function_list_writer *writer, int fd, enum naming naming, bool is_part,
			const char *link);
/* Frees its memory. It is ready for another list. */
void function_list_writer_release(struct function_list_writer *writer);
