/* SPDX-License-Identifier: MIT */

#include "base/util/slab.h"

#include "base/util/memory.h"

#include <stdalign.h>
#include <string.h>

/* Or as much as one thing needs. Pages get memory when they are first written to. */
#define CHUNK_SIZE (256 * 1024)

/* At the beginning of each chunk. */
struct chunk {
	struct chunk *next;
	size_t size, used; /* bytes, with this */
};

/* In the place of a thing that is free. */
struct free_thing {
	struct free_thing *next;
};

static size_t round_up(size_t size)
{
	return (size + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
}

void slab_init(struct slab *slab, size_t size)
{
	*slab = (struct slab){ .size = round_up(size > sizeof(struct free_thing) ? size : sizeof(struct free_thing)) };
}

void slab_release(struct slab *slab)
{
	struct chunk *next;

	for (struct chunk *chunk = slab->chunks; chunk; chunk = next) {
		next = chunk->next;
		memory_unmap(chunk, chunk->size);
	}
	slab_init(slab, slab->size);
}

static struct chunk *add_chunk(struct slab *slab)
{
	size_t head = round_up(sizeof(struct chunk)), least = head + slab->size;
	size_t size = least > CHUNK_SIZE ? least : CHUNK_SIZE;
	struct chunk *chunk = memory_map_own(size);

	if (chunk) {
		*chunk = (struct chunk){ .next = slab->chunks, .size = size, .used = head };
		slab->chunks = chunk;
	}
	return chunk;
}

void *slab_take(struct slab *slab)
{
	struct free_thing *thing = slab->first_free;
	struct chunk *chunk = slab->chunks;

	if (thing) {
		slab->first_free = thing->next;
		return memset(thing, 0, slab->size);
	}
	if (!chunk || chunk->size - chunk->used < slab->size)
		chunk = add_chunk(slab);
	if (!chunk)
		return NULL;
	chunk->used += slab->size;
	return (char *)chunk + chunk->used - slab->size;
}

void slab_give(struct slab *slab, void *thing)
{
	struct free_thing *freed = thing;

	if (!freed)
		return;
	freed->next = slab->first_free;
	slab->first_free = freed;
}
