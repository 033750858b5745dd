/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * All functions of a file or of the kernel, by place, packed: for 122,000 functions of a kernel it takes 1 MB, and
 * finding one some 30 µs.
 *
 * A list is made by a sealed child (list-child.h), which writes it into a file in memory. The file is foreign bytes:
 * function_list_read() checks its frame, and function_list_find() each block that it unpacks. In the worst case names
 * are wrong.
 *
 * Places are offsets in a file, or addresses of the kernel. The list has entries, sorted by place, each of which holds
 * until the next one: a named function, one of which only the bounds are known, or none. Entries stand in blocks,
 * which are compressed one by one.
 */

#include "base/util/buf.h"
#include "base/util/cleanup.h"
#include "profiler/naming/naming.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FUNCTION_NAME_MAX 1024 /* bytes, with the NUL */

/* Bytes of a block that is unpacked. */
#define FUNCTION_BLOCK_BYTES ((size_t)48 << 10)

/* --- in the profiler */

struct function_list;

/* Reads a list from a file in memory. -EBADMSG: it is malformed; -EFBIG: it takes more than max bytes; -ENOMEM;
 * negative errno of pread(2). */
int function_list_read(struct function_list **ret, int fd, size_t max);
/* A list without any functions: why there are none. NULL: no memory. */
struct function_list *function_list_empty(enum naming naming);
struct function_list *function_list_free(struct function_list *list);
DEFINE_CLEANUP(struct function_list *, function_list_free)

/* Children that this process forks do not have the memory of its lists. From now on they have that of this one. */
void function_list_share(struct function_list *list);

/* Of memory, all of it. */
size_t function_list_bytes(const struct function_list *list);
/* Why a place has no name. NAMING_NO_SYMBOL: names were there. Never NAMING_NAMED. */
enum naming function_list_naming(const struct function_list *list);
/* Only those functions were written that are at the places which were asked for: all of them take too much. */
bool function_list_is_part(const struct function_list *list);
/* The file of debug symbols that the file names, and that was not there: it might have more names. "": none. */
const char *function_list_link(const struct function_list *list);

/* A block that was unpacked. Zeroed, it is none. It is to be zeroed again before a list is freed that it is of. */
struct function_block {
	const struct function_list *list;
	uint32_t number;
	size_t size;
	unsigned char bytes[FUNCTION_BLOCK_BYTES];
};

struct function {
	uint64_t start, end; /* the stretch of it that has the place; of a nameless one, start is its beginning */
	/* Plain text of fewer than FUNCTION_NAME_MAX bytes, in the block. */
	const char *name;   /* as people write it; NULL: it has none */
	const char *symbol; /* as its file has it; NULL: the same */
};

/* The function at a place; false: none is known. The block is that of the last call, or becomes another one: places
 * that are asked for in their order share it. */
bool function_list_find(const struct function_list *list, uint64_t place, struct function_block *block,
			struct function *ret);

/* --- in the child */

/* Zeroed, it is ready. */
struct function_list_writer {
	size_t max; /* bytes of the list; with more it has failed */
	struct buf blocks, data;
	struct buf raw; /* the block that is being filled */
	struct buf demangled;
	uint64_t first, last;
	unsigned nr; /* entries in it */
	uint64_t pending_place, pending_start;
	const char *pending_name, *written_name; /* borrowed */
	uint64_t written_start;
	bool has_pending, has_written;
	void *deflater;
	bool failed, is_full;
};

/* From this place on there is the function of that name, which has to stay; NULL and start: one that begins there and
 * has no name; NULL and UINT64_MAX: none. Places ascend; of entries for one place the last one counts. */
#define FUNCTION_NONE UINT64_MAX
void function_list_add(struct function_list_writer *writer, uint64_t place, const char *name, uint64_t start);

/* Writes the list into a file in memory, in the place of all that is there. naming: as function_list_naming(); link:
 * NULL or a name. -ENOMEM; -EFBIG: it takes more than max bytes; negative errno of write(2). */
int function_list_write(struct function_list_writer *writer, int fd, enum naming naming, bool is_part,
			const char *link);
/* Empties it. */
void function_list_writer_release(struct function_list_writer *writer);
