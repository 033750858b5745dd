/* SPDX-License-Identifier: MIT */

/* PMUs that lie, by the busy time of CPUs. */

#include "base/util/cleanup.h"
#include "counting/session/stall.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MS 1000000U
#define SECOND (1000 * (uint64_t)MS)

static void test_steady(_unused_ void **state)
{
	struct stall stall = {};

	/* A second of busy time is gathered before anything is said. */
	stall_update(&stall, true, 0, 600 * MS);
	assert_false(stall.stalled);
	stall_update(&stall, true, 1, 600 * MS);
	assert_true(stall.stalled);
	/* One good second ends it, and it can come back. */
	stall_update(&stall, true, 3000000, SECOND);
	assert_false(stall.stalled);
	stall_update(&stall, true, 999999, SECOND);
	assert_true(stall.stalled);
	/* Idle time, or time that is not known, says nothing. */
	for (int i = 0; i < 100; i++)
		stall_update(&stall, true, 0, 0);
	assert_true(stall.stalled);
	stall = (struct stall){};
	for (int i = 0; i < 100; i++)
		stall_update(&stall, true, 0, 0);
	assert_false(stall.stalled);
	/* A window's counts are its own. */
	stall_update(&stall, true, UINT64_MAX / 2, SECOND);
	stall_update(&stall, true, 0, SECOND);
	assert_true(stall.stalled);
}

static void test_others(_unused_ void **state)
{
	struct stall stall = {};

	for (int i = 0; i < 9; i++)
		stall_update(&stall, false, 0, SECOND);
	assert_false(stall.stalled);
	stall_update(&stall, false, 0, SECOND);
	assert_true(stall.stalled);
	/* One count shows that it counts, for good. */
	stall_update(&stall, false, 1, 0);
	assert_false(stall.stalled);
	for (int i = 0; i < 100; i++)
		stall_update(&stall, false, 0, SECOND);
	assert_false(stall.stalled);
}

static void test_doubt(_unused_ void **state)
{
	struct stall stall = {};

	assert_true(stall_is_in_doubt(&stall, true, 999, MS));
	assert_false(stall_is_in_doubt(&stall, true, 1000, MS));
	assert_true(stall_is_in_doubt(&stall, false, 0, 1));
	/* Of one that does not run nothing more could be known. */
	assert_false(stall_is_in_doubt(&stall, false, 0, 0));
	assert_false(stall_is_in_doubt(&stall, true, 0, 0));
	stall_update(&stall, false, 1, 0);
	assert_false(stall_is_in_doubt(&stall, false, 0, SECOND));
	/* What is stalled is watched until it is not. */
	stall_update(&stall, true, 0, SECOND);
	assert_true(stall_is_in_doubt(&stall, true, 5000, MS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steady),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_doubt),
	};

	return cmocka_run_group_tests_name("stall", tests, NULL, NULL);
}
