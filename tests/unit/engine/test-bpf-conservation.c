/* SPDX-License-Identifier: MIT */

/* engine/bpf/conservation: what is found, and what is none, with a CPU whose counts the test writes. */

#include "counting/engine/bpf/conservation.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct credit_cpu cpus[2];
static uint64_t found[2];
static struct bpf_kernel kernel = {
	.sizes = { .cpus = 2, .slots = 1, .events = 2, .sets = 1 },
	.cpus = cpus,
	.errors = found,
};
static struct set planned[1] = { { .nr = 2 } };
static struct plan plan = { .scope[SCOPE_CGROUP] = { .sets = planned, .nr_sets = 1 } };
static struct bpf_set sets[1];
static struct bpf_conservation conservations[2];
static struct bpf_engine engine;

static int setup(void **state)
{
	(void)state;
	memset(cpus, 0, sizeof(cpus));
	memset(conservations, 0, sizeof(conservations));
	memset(found, 0, sizeof(found));
	sets[0] = (struct bpf_set){ .used = true };
	engine = (struct bpf_engine){
		.engine.env.plan = &plan,
		.kernel = &kernel,
		.sets = sets,
		.conservations = conservations,
	};
	return 0;
}

/* A reading: so much was counted before the slots were read, is given, and is counted while they are read. */
static void read_all(uint64_t before, uint64_t given, uint64_t meanwhile)
{
	const uint64_t counts[] = { given / 3, given - given / 3 };

	cpus[1].counted[0] += before;
	conservation_begin(&engine);
	conservation_add(&engine, 1, 0, counts);
	cpus[1].counted[1] += meanwhile;
	conservation_end(&engine);
}

static uint64_t errors(void)
{
	assert_int_equal(found[0], 0);
	return found[1];
}

static void test_equal(void **state)
{
	(void)state;
	/* What came before the first reading is nobody's business. */
	read_all(1000, 7, 0);
	for (uint64_t i = 0; i < 100; i++)
		read_all(i, i, 0);
	assert_int_equal(errors(), 0);
}

/* What is counted while slots are read may be given in this reading or in the next one. */
static void test_meanwhile(void **state)
{
	(void)state;
	read_all(5, 5, 3);
	read_all(10, 10 + 3, 4);
	read_all(10, 10 + 4 + 2, 2);
	read_all(0, 0, 0);
	read_all(0, 0, 0);
	assert_int_equal(errors(), 0);
}

static void test_too_few(void **state)
{
	(void)state;
	read_all(0, 0, 0);
	read_all(10, 9, 0);
	/* Perhaps it comes with the next reading. */
	assert_int_equal(errors(), 0);
	read_all(5, 5, 0);
	assert_int_equal(errors(), 1);
	/* It is counted once. */
	read_all(5, 5, 0);
	read_all(5, 5, 0);
	assert_int_equal(errors(), 1);
}

static void test_late(void **state)
{
	(void)state;
	read_all(0, 0, 0);
	read_all(10, 9, 0);
	read_all(5, 6, 0);
	read_all(5, 5, 0);
	assert_int_equal(errors(), 0);
}

static void test_too_many(void **state)
{
	(void)state;
	read_all(0, 0, 0);
	read_all(10, 14, 1);
	read_all(5, 5, 0);
	assert_int_equal(errors(), 3);
}

/* One event is not seen while the CPU is busy, and is found when it rests. */
static void test_busy(void **state)
{
	(void)state;
	read_all(0, 0, 0);
	read_all(100, 100, 50);
	read_all(100, 149, 50);
	assert_int_equal(errors(), 0);
	read_all(0, 50, 0);
	read_all(0, 0, 0);
	assert_int_equal(errors(), 1);
}

static void test_estimated(void **state)
{
	(void)state;
	read_all(0, 0, 0);
	conservation_estimated(&engine, 1, 0);
	read_all(100, 30, 0);
	read_all(10, 10, 0);
	read_all(10, 10, 0);
	assert_int_equal(errors(), 0);
	read_all(10, 9, 0);
	read_all(10, 10, 0);
	assert_int_equal(errors(), 1);
}

/* A program has counted, and has not told yet whose that is, when a comparison begins or ends. */
static void test_half_way(void **state)
{
	(void)state;
	cpus[1].busy = 1;
	read_all(100, 30, 0);
	cpus[1].busy = 0;
	read_all(10, 80, 0);
	read_all(10, 10, 0);
	read_all(10, 10, 0);
	assert_int_equal(errors(), 0);
	cpus[1].busy = 1;
	read_all(10, 0, 0);
	cpus[1].busy = 0;
	read_all(10, 20, 0);
	read_all(10, 10, 0);
	assert_int_equal(errors(), 0);
	read_all(10, 9, 0);
	read_all(10, 10, 0);
	assert_int_equal(errors(), 1);
}

static void test_reset(void **state)
{
	(void)state;
	read_all(0, 0, 0);
	read_all(10, 9, 0);
	conservation_reset(&engine, 0);
	read_all(50, 20, 0);
	read_all(10, 10, 0);
	assert_int_equal(errors(), 0);
	sets[0].used = false;
	read_all(10, 0, 0);
	read_all(10, 0, 0);
	assert_int_equal(errors(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_equal, setup),     cmocka_unit_test_setup(test_meanwhile, setup),
		cmocka_unit_test_setup(test_too_few, setup),   cmocka_unit_test_setup(test_late, setup),
		cmocka_unit_test_setup(test_too_many, setup),  cmocka_unit_test_setup(test_busy, setup),
		cmocka_unit_test_setup(test_estimated, setup), cmocka_unit_test_setup(test_half_way, setup),
		cmocka_unit_test_setup(test_reset, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
