/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Memory of equal blocks, in one mapping of its own: whatever comes and goes in it, it can't be fragmented, and it
 * leaves no holes among other allocations. So what it takes is known to the byte: all blocks below `top`.
 *
 * Blocks are known by their numbers, since the mapping can move. A block that is given back is used again before `top`
 * rises. Where many are free for long, the owner of the numbers compacts: it asks for the new number of each block.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POOL_BLOCK_POINTS 300
#define POOL_BLOCK_SIZE (POOL_BLOCK_POINTS * sizeof(float))

#define POOL_NO_BLOCK UINT32_MAX

struct block_pool {
	float *base;	     /* NULL: nothing is mapped yet */
	size_t size;	     /* bytes: of the mapping, or that are to be mapped */
	size_t top, used;    /* blocks: that have memory, and those of them that are taken */
	uint32_t first_free; /* each free block has the number of the next one in its first bytes */
};

/* Takes no memory yet. */
void block_pool_init(struct block_pool *pool, size_t size);
void block_pool_release(struct block_pool *pool);

/* Blocks from `top` on don't fit any more, if it is less than before: for a compacted pool. False: no memory for more;
 * the size stays. */
bool block_pool_resize(struct block_pool *pool, size_t size);

/* The number of a block with any content; POOL_NO_BLOCK: there is no memory. */
uint32_t block_pool_take(struct block_pool *pool);
void block_pool_give(struct block_pool *pool, uint32_t number);

/* Free blocks below `top`. */
static inline size_t block_pool_nr_free(const struct block_pool *pool)
{
	return pool->top - pool->used;
}

static inline float *block_pool_points(const struct block_pool *pool, uint32_t number)
{
	return pool->base + (size_t)number * POOL_BLOCK_POINTS;
}

/* Between begin and end, each block that is taken has to be asked for once, and no other function may be called. */
void block_pool_begin_compaction(struct block_pool *pool);
/* Its new number. */
uint32_t block_pool_compact(struct block_pool *pool, uint32_t number);
void block_pool_end_compaction(struct block_pool *pool);
