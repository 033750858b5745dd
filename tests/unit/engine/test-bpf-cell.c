/* SPDX-License-Identifier: MIT */

/* engine/bpf/cell: copies of a cell that a thread credits all the time, as the programs do. */

#include "counting/engine/bpf/cell.h"

#include <pthread.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define NR_COPIES 200000
#define CELL 1U
#define OTHER 2U
#define WORDS CREDIT_CELL_WORDS(2, 3)

static struct credit_cpu cpu;
static uint64_t cells[3 * WORDS], copy[WORDS];
static uint64_t unsaved[CREDIT_MARK_WORDS(3)];
static struct bpf_chunk chunk = { .memory = cells };
static struct bpf_kernel kernel = {
	.sizes = { .cpus = 1, .slots = 3, .events = 3, .sets = 2 },
	.cpus = &cpu,
	.cells = &chunk,
	.cell = copy,
	.unsaved = unsaved,
};

static void put(credit_word *at, credit_word value)
{
	__atomic_store_n(at, value, __ATOMIC_SEQ_CST);
}

/* Each word of the cell grows by one, in turn. */
static void credit(uint32_t cell)
{
	for (size_t i = 0; i < WORDS; i++)
		__atomic_fetch_add(&cells[cell * WORDS + i], 1, __ATOMIC_SEQ_CST);
}

static void *credit_in_turn(void *ends)
{
	uint32_t cell = CELL;

	put(&cpu.cell, cell);
	while (!__atomic_load_n((bool *)ends, __ATOMIC_SEQ_CST)) {
		put(&cpu.busy, 1);
		credit(cell);
		cell = cell == CELL ? OTHER : CELL;
		put(&cpu.cell, cell);
		put(&cpu.busy, 0);
	}
	return NULL;
}

static void test_copies_are_whole(void **state)
{
	bool ends = false;
	pthread_t thread;
	uint64_t copied = 0, torn = 0;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, credit_in_turn, &ends), 0);
	for (int i = 0; i < NR_COPIES; i++) {
		if (!cell_copy(&kernel, 0, CELL))
			continue;
		copied++;
		for (size_t word = 1; word < WORDS; word++)
			torn += copy[word] != copy[0];
	}
	__atomic_store_n(&ends, true, __ATOMIC_SEQ_CST);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(torn, 0);
	assert_true(copied > NR_COPIES / 2);
}

/* A program that does not come to its end is waited for, and not for ever. One in another cell does not matter. */
static void test_at_work(void **state)
{
	(void)state;
	cpu = (struct credit_cpu){ .busy = 1, .cell = CELL };
	assert_false(cell_wait(&kernel, 0));
	assert_false(cell_copy(&kernel, 0, CELL));
	assert_true(cell_copy(&kernel, 0, OTHER));
	cpu.busy = 0;
	assert_true(cell_wait(&kernel, 0));
	assert_true(cell_copy(&kernel, 0, CELL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copies_are_whole),
		cmocka_unit_test(test_at_work),
	};

	return cmocka_run_group_tests_name("bpf-cell", tests, NULL, NULL);
}
