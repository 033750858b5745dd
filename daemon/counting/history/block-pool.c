/* SPDX-License-Identifier: MIT */

#include "counting/history/block-pool.h"

#include "base/util/memory.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void block_pool_init(struct block_pool *pool, size_t size)
{
	*pool = (struct block_pool){ .size = size, .first_free = POOL_NO_BLOCK };
}

void block_pool_release(struct block_pool *pool)
{
	memory_unmap(pool->base, pool->size);
	block_pool_init(pool, pool->size);
}

bool block_pool_resize(struct block_pool *pool, size_t size)
{
	void *base;

	assert(pool->top * POOL_BLOCK_SIZE <= size);
	if (pool->base && pool->top == 0)
		block_pool_release(pool);
	if (pool->base) {
		base = mremap(pool->base, pool->size, size, MREMAP_MAYMOVE);
		if (base == MAP_FAILED)
			return false;
		pool->base = base;
	}
	pool->size = size;
	return true;
}

/* --- taking and giving */

static uint32_t next_free(const struct block_pool *pool, uint32_t number)
{
	uint32_t next;

	memcpy(&next, block_pool_points(pool, number), sizeof(next));
	return next;
}

static void add_free(struct block_pool *pool, uint32_t number)
{
	memcpy(block_pool_points(pool, number), &pool->first_free, sizeof(pool->first_free));
	pool->first_free = number;
}

static uint32_t take_free(struct block_pool *pool)
{
	uint32_t number = pool->first_free;

	if (number != POOL_NO_BLOCK)
		pool->first_free = next_free(pool, number);
	return number;
}

uint32_t block_pool_take(struct block_pool *pool)
{
	uint32_t number;

	/* A bound that is never reached costs nothing. */
	if (!pool->base)
		pool->base = memory_map_own(pool->size);
	if (!pool->base)
		return POOL_NO_BLOCK;
	number = take_free(pool);
	if (number == POOL_NO_BLOCK) {
		if ((pool->top + 1) * POOL_BLOCK_SIZE > pool->size)
			return POOL_NO_BLOCK;
		number = (uint32_t)pool->top++;
	}
	pool->used++;
	return number;
}

void block_pool_give(struct block_pool *pool, uint32_t number)
{
	assert(number < pool->top && pool->used > 0);
	pool->used--;
	add_free(pool, number);
}

/* --- compaction: the blocks beyond the first `used` move to free ones among these */

void block_pool_begin_compaction(struct block_pool *pool)
{
	uint32_t number = pool->first_free, next;

	pool->first_free = POOL_NO_BLOCK;
	for (; number != POOL_NO_BLOCK; number = next) {
		next = next_free(pool, number);
		if (number < pool->used)
			add_free(pool, number);
	}
}

uint32_t block_pool_compact(struct block_pool *pool, uint32_t number)
{
	uint32_t to;

	if (number < pool->used)
		return number;
	to = take_free(pool);
	assert(to != POOL_NO_BLOCK);
	memcpy(block_pool_points(pool, to), block_pool_points(pool, number), POOL_BLOCK_SIZE);
	return to;
}

void block_pool_end_compaction(struct block_pool *pool)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), kept;

	assert(pool->first_free == POOL_NO_BLOCK);
	pool->top = pool->used;
	kept = (pool->top * POOL_BLOCK_SIZE + page - 1) / page * page;
	if (pool->base && kept < pool->size)
		(void)madvise((char *)pool->base + kept, pool->size - kept, MADV_DONTNEED);
}
