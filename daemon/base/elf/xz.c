/* SPDX-License-Identifier: MIT */

#include "base/elf/xz.h"

#include "base/util/cleanup.h"

#include <lzma.h>

/* Hands out the memory from its start, and takes nothing back. */
struct arena {
	unsigned char *memory;
	size_t used;
};

#define ALIGNMENT 16

bool xz_is_built_in(void)
{
	return true;
}

static void *arena_take(void *userdata, size_t nr, size_t size)
{
	struct arena *arena = userdata;
	size_t bytes, at = arena->used;

	if (__builtin_mul_overflow(nr, size, &bytes) || bytes > XZ_MEMORY - at)
		return NULL;
	bytes = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
	arena->used = bytes > XZ_MEMORY - at ? XZ_MEMORY : at + bytes;
	return arena->memory + at;
}

static void arena_give_back(_unused_ void *userdata, _unused_ void *memory)
{
}

size_t xz_decompress(unsigned char *to, size_t size, const unsigned char *from, size_t from_size,
		     unsigned char memory[static XZ_MEMORY])
{
	struct arena arena = { .memory = memory };
	const lzma_allocator allocator = { .alloc = arena_take, .free = arena_give_back, .opaque = &arena };
	uint64_t limit = XZ_MEMORY;
	size_t in = 0, out = 0;

	return lzma_stream_buffer_decode(&limit, 0, &allocator, from, &in, from_size, to, &out, size) == LZMA_OK ? out :
														   0;
}
