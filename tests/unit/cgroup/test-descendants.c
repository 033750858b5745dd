/* SPDX-License-Identifier: MIT */

/* Which of some cgroups are leaves, and how many others are below the rest. */

#include "base/cgroup/descendants.h"
#include "base/util/cleanup.h"

#include <stdio.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct expected {
	const char *path;
	size_t descendants;
};

/* Each label once, or several times, as if for so many CPUs. */
static void check(const struct expected *expected, size_t nr, size_t times)
{
	const char *labels[64] = {};
	size_t numbers[64];

	for (size_t i = 0; i < nr * times; i++)
		labels[i] = expected[i / times].path;
	assert_int_equal(descendants_count(labels, nr * times, numbers), 0);
	for (size_t i = 0; i < nr * times; i++) {
		if (numbers[i] != expected[i / times].descendants)
			print_error("%s\n", labels[i]);
		assert_int_equal(numbers[i], expected[i / times].descendants);
	}
}

/* Names that begin alike stand between a cgroup and what is below it, if they are sorted by their bytes alone. */
static void test_tree(_unused_ void **state)
{
	static const struct expected all[] = {
		{ "/a/b", 2 }, { "/", 10 },    { "/a-b", 0 }, { "/a", 3 },     { "/a/b/c", 0 },	   { "/a!", 1 },
		{ "/ab", 0 },  { "/a!/x", 0 }, { "/z/y", 0 }, { "/a/b/d", 0 }, { "/\xc3\xa4", 0 },
	};

	check(all, ARRAY_SIZE(all), 1);
	check(all, ARRAY_SIZE(all), 3);
}

/* The nearest one that is shown counts, however deep it is; and the top of a part is above all. */
static void test_part(_unused_ void **state)
{
	static const struct expected gaps[] = { { "/a/b/c/d", 0 }, { "/a", 2 }, { "/a/b/c", 1 }, { "/b/c", 0 } };
	static const struct expected part[] = { { "/a", 1 }, { "/.", 2 }, { "/a/.b", 0 } };

	check(gaps, ARRAY_SIZE(gaps), 1);
	check(part, ARRAY_SIZE(part), 1);
	check(part, 0, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_part),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
