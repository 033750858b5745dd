/* SPDX-License-Identifier: MIT */

/* What is said once, however often it is found. */

#include "said.h"
#include "util/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND 1000000000ULL

static void test_said(_unused_ void **state)
{
	struct said said = {};
	uint64_t now = 1000 * SECOND;

	assert_true(said_is_news(&said, "it rains", now));
	/* For an hour. */
	for (int i = 0; i < 360; i++)
		assert_false(said_is_news(&said, "it rains", now += 10 * SECOND));
	assert_true(said_is_news(&said, "it pours", now));
	assert_false(said_is_news(&said, "it pours", now));
	assert_true(said_is_news(&said, "it rains", now));
	assert_false(said_is_news(&said, "it rains", now + SAID_NS - 1));
	assert_true(said_is_news(&said, "it rains", now + 2ULL * SAID_NS));
	said_release(&said);
	assert_null(said.text);
	assert_true(said_is_news(&said, "it rains", now));
	said_release(&said);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_said),
	};

	return cmocka_run_group_tests_name("said", tests, NULL, NULL);
}
