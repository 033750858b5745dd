/* SPDX-License-Identifier: MIT */

/* A recurring message is logged once. */

#include "base/util/log-once.h"

#include "base/util/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND 1000000000ULL

static void test_said(_unused_ void **state)
{
	struct log_once once = {};
	uint64_t now = 1000 * SECOND;

	assert_true(log_once_is_news(&once, "it rains", now));
	/* For an hour. */
	for (int i = 0; i < 360; i++)
		assert_false(log_once_is_news(&once, "it rains", now += 10 * SECOND));
	assert_true(log_once_is_news(&once, "it pours", now));
	assert_false(log_once_is_news(&once, "it pours", now));
	assert_true(log_once_is_news(&once, "it rains", now));
	assert_false(log_once_is_news(&once, "it rains", now + LOG_ONCE_NS - 1));
	assert_true(log_once_is_news(&once, "it rains", now + 2ULL * LOG_ONCE_NS));
	log_once_release(&once);
	assert_null(once.text);
	assert_true(log_once_is_news(&once, "it rains", now));
	log_once_release(&once);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_said),
	};

	return cmocka_run_group_tests_name("said", tests, NULL, NULL);
}
