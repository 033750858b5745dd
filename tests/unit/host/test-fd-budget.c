/* SPDX-License-Identifier: MIT */

/* How the limit of open files is divided between events, connections and the rest. */

#include "base/host/fd-budget.h"

#include "base/util/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_high_limit(_unused_ void **state)
{
	assert_int_equal(fd_budget_reserve(UINT64_MAX, 64), 128 + 64);
	assert_int_equal(fd_budget_reserve(1048576, 64), 128 + 64);
	assert_int_equal(fd_budget_connections(1048576, 64), 64);
	assert_int_equal(fd_budget_connections(UINT64_MAX, 10000), 10000);
	/* The lowest limit under which all fit. */
	assert_int_equal(fd_budget_reserve(2 * (128 + 64), 64), 128 + 64);
}

/* Half of a low limit stays with the events; the other half is halved again where it holds all connections no more. */
static void test_low_limit(_unused_ void **state)
{
	assert_int_equal(fd_budget_reserve(256, 64), 128);
	assert_int_equal(fd_budget_connections(256, 64), 64);
	assert_int_equal(fd_budget_reserve(100, 64), 50);
	assert_int_equal(fd_budget_connections(100, 64), 25);
	assert_int_equal(fd_budget_reserve(1024, 10000), 512);
	assert_int_equal(fd_budget_connections(1024, 10000), 512 - 128);
}

/* Looking at the machine and answering comes before counting. */
static void test_very_low_limit(_unused_ void **state)
{
	assert_int_equal(fd_budget_reserve(56, 64), 28);
	assert_int_equal(fd_budget_reserve(40, 64), 28);
	assert_int_equal(fd_budget_connections(40, 64), 4);
	assert_int_equal(fd_budget_connections(40, 2), 2);
	assert_int_equal(fd_budget_reserve(28, 64), 28);
	assert_int_equal(fd_budget_reserve(24, 64), 24);
	assert_int_equal(fd_budget_reserve(10, 64), 10);
	assert_int_equal(fd_budget_connections(10, 64), 1);
	assert_int_equal(fd_budget_reserve(0, 64), 0);
	assert_int_equal(fd_budget_connections(0, 64), 1);
}

/* Never more than the limit, and never fewer where the limit is higher. */
static void test_all_limits(_unused_ void **state)
{
	for (uint64_t connections = 1; connections < 1000; connections += 37) {
		size_t reserve_before = 0;
		unsigned fit_before = 0;

		for (uint64_t limit = 0; limit < 3000; limit++) {
			size_t reserve = fd_budget_reserve(limit, connections);
			unsigned fit = fd_budget_connections(limit, connections);

			assert_true(reserve <= limit && reserve >= reserve_before);
			assert_true(fit >= 1 && fit <= connections && fit >= fit_before);
			assert_true(limit < 24 || fit < reserve);
			reserve_before = reserve;
			fit_before = fit;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_high_limit),
		cmocka_unit_test(test_low_limit),
		cmocka_unit_test(test_very_low_limit),
		cmocka_unit_test(test_all_limits),
	};

	return cmocka_run_group_tests_name("fd_budget", tests, NULL, NULL);
}
