/* SPDX-License-Identifier: MIT */

/* The pool of blocks: memory is used again before more is taken, and is given back by a compaction. */

#include "base/util/cleanup.h"
#include "counting/history/block-pool.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BLOCKS 100
#define SIZE (BLOCKS * POOL_BLOCK_SIZE)

/* What the kernel has given it, in bytes. */
static size_t resident(const struct block_pool *pool)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), nr = (pool->size + page - 1) / page, pages = 0;
	unsigned char *in_core = calloc(nr, 1);

	assert_non_null(in_core);
	assert_int_equal(mincore(pool->base, pool->size, in_core), 0);
	for (size_t i = 0; i < nr; i++)
		pages += in_core[i] & 1;
	free(in_core);
	return pages * page;
}

static void fill(struct block_pool *pool, uint32_t number, float value)
{
	for (size_t i = 0; i < POOL_BLOCK_POINTS; i++)
		block_pool_points(pool, number)[i] = value;
}

static void assert_filled(const struct block_pool *pool, uint32_t number, float value)
{
	for (size_t i = 0; i < POOL_BLOCK_POINTS; i++)
		assert_true(block_pool_points(pool, number)[i] == value);
}

static void take_all(struct block_pool *pool, uint32_t numbers[BLOCKS])
{
	for (size_t i = 0; i < BLOCKS; i++) {
		numbers[i] = block_pool_take(pool);
		assert_int_not_equal(numbers[i], POOL_NO_BLOCK);
		fill(pool, numbers[i], (float)i);
	}
	for (size_t i = 0; i < BLOCKS; i++)
		assert_filled(pool, numbers[i], (float)i);
}

static void test_bound(_unused_ void **state)
{
	_cleanup_(block_pool_release) struct block_pool pool;
	uint32_t numbers[BLOCKS];

	block_pool_init(&pool, SIZE + POOL_BLOCK_SIZE - 1);
	take_all(&pool, numbers);
	assert_int_equal(block_pool_take(&pool), POOL_NO_BLOCK);
	assert_int_equal(pool.top, BLOCKS);
	/* Those that are given back are taken again, before there are more. */
	block_pool_give(&pool, numbers[7]);
	block_pool_give(&pool, numbers[90]);
	assert_int_equal(block_pool_nr_free(&pool), 2);
	assert_int_equal(block_pool_take(&pool), numbers[90]);
	assert_int_equal(block_pool_take(&pool), numbers[7]);
	assert_int_equal(block_pool_take(&pool), POOL_NO_BLOCK);
}

static void test_nothing(_unused_ void **state)
{
	_cleanup_(block_pool_release) struct block_pool pool;

	block_pool_init(&pool, 0);
	assert_int_equal(block_pool_take(&pool), POOL_NO_BLOCK);
	assert_true(block_pool_resize(&pool, POOL_BLOCK_SIZE));
	assert_int_equal(block_pool_take(&pool), 0);
	assert_int_equal(block_pool_take(&pool), POOL_NO_BLOCK);
}

/* Each third block stays, with its content, and the memory of the others goes back to the kernel. */
static void test_compaction(_unused_ void **state)
{
	_cleanup_(block_pool_release) struct block_pool pool;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint32_t numbers[BLOCKS];

	block_pool_init(&pool, SIZE);
	take_all(&pool, numbers);
	assert_true(resident(&pool) >= SIZE);
	for (size_t i = 0; i < BLOCKS; i++)
		if (i % 3)
			block_pool_give(&pool, numbers[i]);
	block_pool_begin_compaction(&pool);
	for (size_t i = 0; i < BLOCKS; i += 3)
		numbers[i] = block_pool_compact(&pool, numbers[i]);
	block_pool_end_compaction(&pool);
	assert_int_equal(pool.top, pool.used);
	assert_int_equal(pool.used, (BLOCKS + 2) / 3);
	assert_in_range(resident(&pool), pool.used * POOL_BLOCK_SIZE, pool.used * POOL_BLOCK_SIZE + page);
	for (size_t i = 0; i < BLOCKS; i += 3) {
		assert_in_range(numbers[i], 0, pool.used - 1);
		assert_filled(&pool, numbers[i], (float)i);
	}
	/* They are on, now below another bound, and then a larger one. */
	assert_true(block_pool_resize(&pool, pool.used * POOL_BLOCK_SIZE));
	assert_int_equal(block_pool_take(&pool), POOL_NO_BLOCK);
	assert_true(block_pool_resize(&pool, 100 * SIZE));
	for (size_t i = 0; i < BLOCKS; i += 3)
		assert_filled(&pool, numbers[i], (float)i);
	fill(&pool, block_pool_take(&pool), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_compaction),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
