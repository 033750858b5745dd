/* SPDX-License-Identifier: MIT */

/* How much an event has counted that the kernel made no sample of: by its count, and the samples up to that moment. */

#include "profiler/sample/unsampled.h"

#include "base/util/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)

/* At 10 ms the count is read; samples are taken then, or later. */
static void test_comparisons(void **state)
{
	static const struct {
		const char *what;
		uint64_t counted, lost;
		uint64_t samples[4]; /* ms */
		uint64_t until;	     /* ms */
		uint64_t nr;
	} cases[] = {
		{ "all are there", 3, 0, { 7, 8, 9 }, 12, 0 },
		{ "one is in no sample", 3, 0, { 7, 8 }, 12, 1 },
		{ "… but was lost", 3, 1, { 7, 8 }, 12, 0 },
		{ "samples of later do not count", 3, 0, { 7, 8, 11 }, 12, 1 },
		{ "it is too early to tell", 3, 0, { 7, 8 }, 9, 0 },
		{ "more was lost than was counted", 1, 2, {}, 12, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct unsampled unsampled = {};

		unsampled_expect(&unsampled, cases[i].counted, cases[i].lost, 10 * MS);
		for (size_t k = 0; cases[i].samples[k]; k++)
			unsampled_sample(&unsampled, cases[i].samples[k] * MS);
		unsampled_compare(&unsampled, cases[i].until * MS);
		if (unsampled.nr != cases[i].nr)
			fail_msg("%s: %llu, not %llu", cases[i].what, (unsigned long long)unsampled.nr,
				 (unsigned long long)cases[i].nr);
	}
}

/* A sample of later is of the next comparison, and a smaller difference takes nothing back. */
static void test_one_after_another(void **state)
{
	struct unsampled unsampled = {};

	(void)state;
	unsampled_sample(&unsampled, 5 * MS);
	unsampled_expect(&unsampled, 3, 0, 10 * MS);
	unsampled_sample(&unsampled, 20 * MS);
	unsampled_compare(&unsampled, 20 * MS);
	assert_int_equal(unsampled.nr, 2);
	unsampled_expect(&unsampled, 4, 0, 30 * MS);
	unsampled_compare(&unsampled, 40 * MS);
	assert_int_equal(unsampled.nr, 2);
	unsampled_expect(&unsampled, 3, 0, 50 * MS);
	unsampled_compare(&unsampled, 60 * MS);
	assert_int_equal(unsampled.nr, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_comparisons),
		cmocka_unit_test(test_one_after_another),
	};

	return cmocka_run_group_tests_name("unsampled", tests, NULL, NULL);
}
