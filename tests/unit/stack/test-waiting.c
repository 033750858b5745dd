/* SPDX-License-Identifier: MIT */

/* Samples that wait: their bounds, and that nothing of a copy stays. */

#include "profiler/stack/waiting.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct world {
	struct waiting *waiting;
	size_t account;
	struct mappings *mappings;
	unsigned char stack[WAITING_COPY_MAX];
	uint64_t chain[4];
};

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	assert_non_null(world);
	assert_int_equal(waiting_new(&world->waiting), 0);
	world->mappings = mappings_new(&world->account);
	assert_non_null(world->mappings);
	memset(world->stack, 0x5a, sizeof(world->stack));
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	waiting_free(world->waiting);
	mappings_unref(world->mappings);
	free(world);
	return 0;
}

static int put(struct world *world, uint64_t time, size_t size)
{
	const struct unwind_registers registers = { .values = { [3] = 0x5a5a } };

	return waiting_put(world->waiting, &(struct waiting_sample){
						   .time = time,
						   .weight = 7,
						   .event = (char[]){ "cpu-clock" },
						   .cgroup = (char[]){ "/a" },
						   .command = (char[]){ "x" },
						   .mappings = world->mappings,
						   .registers = &registers,
						   .copy = { 0x7f00, world->stack, size },
						   .chain = { (unsigned char *)world->chain, 4 },
					   });
}

static void test_copies(void **state)
{
	struct world *world = *state;
	struct waiting_sample *first;
	const unsigned char *place;

	world->chain[0] = world->chain[2] = 42;
	world->chain[1] = (uint64_t)PERF_CONTEXT_USER;
	assert_int_equal(put(world, 1, 5000), 0);
	assert_int_equal(put(world, 2, 1), 0);
	memset(world->stack, 0, sizeof(world->stack));
	world->chain[2] = 0;
	first = waiting_first(world->waiting);
	place = (const unsigned char *)first->place;
	assert_int_equal(first->time, 1);
	assert_string_equal(first->cgroup, "/a");
	assert_int_equal(first->copy.bytes[4999], 0x5a);
	assert_int_equal(record_u64(&first->chain, 0), 42);
	assert_int_equal(record_u64(&first->chain, 1), PERF_CONTEXT_USER);
	/* Children get the chain, but no value that is no address of code. */
	assert_int_equal(record_u64(&first->chain, 2), WAITING_NO_ADDRESS);
	assert_int_equal(first->registers->values[3], 0x5a5a);
	assert_int_equal(waiting_bytes(world->waiting), 8192 + 4096);
	waiting_remove(world->waiting, first);
	for (size_t i = 0; i < sizeof(struct unwind_registers) + 5000; i++)
		assert_int_equal(place[i], 0);
	assert_int_equal(waiting_bytes(world->waiting), 4096);
	assert_int_equal(waiting_first(world->waiting)->time, 2);
}

static void test_bounds(void **state)
{
	struct world *world = *state;
	uint64_t nr = 0;

	while (put(world, nr, WAITING_COPY_MAX) == 0)
		nr++;
	/* The registers take a page more. */
	assert_int_equal(nr, WAITING_BYTES / (WAITING_COPY_MAX + 4096));
	while (waiting_first(world->waiting))
		waiting_remove(world->waiting, waiting_first(world->waiting));
	assert_int_equal(waiting_bytes(world->waiting), 0);
	for (nr = 0; put(world, nr, 8) == 0; nr++)
		;
	assert_int_equal(nr, WAITING_MAX);
	assert_int_equal(put(world, 0, 8), -ENOBUFS);
	assert_int_equal(put(world, 0, WAITING_COPY_MAX + 1), -ENOBUFS);
}

/* A child has neither the copies nor the registers. */
static void test_child(void **state)
{
	struct world *world = *state;
	int status;
	pid_t pid;

	assert_int_equal(put(world, 1, 100), 0);
	pid = fork();
	if (pid == 0) {
		(void)signal(SIGSEGV, SIG_DFL);
		_exit(*(const volatile unsigned char *)waiting_first(world->waiting)->place);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(!WIFEXITED(status) || WEXITSTATUS(status) != 0x5a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_copies, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_child, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
