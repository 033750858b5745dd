/* SPDX-License-Identifier: MIT */

/* The highest value of the last minute. */

#include "base/util/windowed-max.h"

#include "base/util/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND 1000000000U

static void test_longest(_unused_ void **state)
{
	struct windowed_max window = {};

	assert_int_equal(windowed_max_get(&window, 0), 0);
	assert_int_equal(windowed_max_get(&window, 100000ULL * SECOND), 0);
	windowed_max_add(&window, 100001ULL * SECOND, 5);
	windowed_max_add(&window, 100002ULL * SECOND, 3);
	assert_int_equal(windowed_max_get(&window, 100003ULL * SECOND), 5);
	windowed_max_add(&window, 100004ULL * SECOND, 7);
	assert_int_equal(windowed_max_get(&window, 100004ULL * SECOND), 7);
}

/* It is known for a minute at least, and for less than ten seconds more. */
static void test_forgotten(_unused_ void **state)
{
	for (uint64_t start = 0; start < 200; start++) {
		struct windowed_max window = {};

		windowed_max_add(&window, start * SECOND, 9);
		windowed_max_add(&window, (start + 30) * SECOND, 4);
		assert_int_equal(windowed_max_get(&window, (start + 30) * SECOND), 9);
		assert_int_equal(windowed_max_get(&window, (start + 60) * SECOND), 9);
		assert_int_equal(windowed_max_get(&window, (start + 70) * SECOND), 4);
		assert_int_equal(windowed_max_get(&window, (start + 90) * SECOND), 4);
		assert_int_equal(windowed_max_get(&window, (start + 100) * SECOND), 0);
	}
}

/* Whoever looks after a long time finds nothing old, whatever the bins are numbered. */
static void test_long_silence(_unused_ void **state)
{
	for (uint64_t pause = 70; pause < 2000; pause++) {
		struct windowed_max window = {};

		for (uint64_t at = 1000; at < 1100; at += 10)
			windowed_max_add(&window, at * SECOND, 8);
		assert_int_equal(windowed_max_get(&window, (1090 + pause) * SECOND), 0);
		windowed_max_add(&window, (1090 + pause) * SECOND, 2);
		assert_int_equal(windowed_max_get(&window, (1100 + pause) * SECOND), 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_longest),
		cmocka_unit_test(test_forgotten),
		cmocka_unit_test(test_long_silence),
	};

	return cmocka_run_group_tests_name("lag", tests, NULL, NULL);
}
