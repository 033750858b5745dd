/* SPDX-License-Identifier: MIT */

/* util/slab: things stay where they are, and their memory is used again; children do not get it. */

#include "base/util/slab.h"

#include "base/util/cleanup.h"
#include "base/util/memory.h"

#include <signal.h>
#include <stdalign.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* More than fit in a chunk. */
#define THINGS 10000

void *__real_memory_map_own(size_t size);
void *__wrap_memory_map_own(size_t size);

static bool is_short;
static size_t nr_mapped;

void *__wrap_memory_map_own(size_t size)
{
	if (is_short)
		return NULL;
	nr_mapped++;
	return __real_memory_map_own(size);
}

static bool is_zero(const unsigned char *thing, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (thing[i] != 0)
			return false;
	return true;
}

/* All have a content of their own, which tells whether any two overlap. */
static void fill(void *things[THINGS], size_t size)
{
	for (size_t i = 0; i < THINGS; i++)
		memset(things[i], (int)(i % 251), size);
	for (size_t i = 0; i < THINGS; i++)
		for (size_t k = 0; k < size; k++)
			assert_int_equal(((const unsigned char *)things[i])[k], i % 251);
}

static void check_size(size_t size)
{
	static void *things[THINGS];
	_cleanup_(slab_release) struct slab slab;
	size_t before;

	slab_init(&slab, size);
	for (size_t i = 0; i < THINGS; i++) {
		things[i] = slab_take(&slab);
		assert_non_null(things[i]);
		assert_int_equal((uintptr_t)things[i] % alignof(max_align_t), 0);
		assert_true(is_zero(things[i], size));
	}
	fill(things, size);

	/* As many again, and no more memory. */
	before = nr_mapped;
	for (size_t i = 0; i < THINGS; i += 3)
		slab_give(&slab, things[i]);
	for (size_t i = 0; i < THINGS; i += 3) {
		things[i] = slab_take(&slab);
		assert_true(is_zero(things[i], size));
	}
	fill(things, size);
	assert_int_equal(nr_mapped, before);
}

static void test_sizes(_unused_ void **state)
{
	check_size(1);
	check_size(136);
	check_size(1000);
}

/* Each has a chunk of its own. */
static void test_large(_unused_ void **state)
{
	_cleanup_(slab_release) struct slab slab;
	size_t size = 1 << 20;
	void *first, *second;

	slab_init(&slab, size);
	first = slab_take(&slab);
	second = slab_take(&slab);
	assert_non_null(first);
	assert_non_null(second);
	memset(first, 1, size);
	assert_true(is_zero(second, size));
	slab_give(&slab, first);
	assert_ptr_equal(slab_take(&slab), first);
	assert_true(is_zero(first, size));
}

static void test_no_memory(_unused_ void **state)
{
	_cleanup_(slab_release) struct slab slab;

	slab_init(&slab, 100);
	is_short = true;
	assert_null(slab_take(&slab));
	is_short = false;
	assert_non_null(slab_take(&slab));
	slab_give(&slab, NULL);
}

static void test_children(_unused_ void **state)
{
	_cleanup_(slab_release) struct slab slab;
	volatile char *thing;
	int status;
	pid_t pid;

	slab_init(&slab, 100);
	thing = slab_take(&slab);
	*thing = 1;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)signal(SIGSEGV, SIG_DFL);
		*thing = 2;
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	assert_int_equal(*thing, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_children),
	};

	return cmocka_run_group_tests_name("slab", tests, NULL, NULL);
}
