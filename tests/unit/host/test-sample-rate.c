/* SPDX-License-Identifier: MIT */

/* Which kernels can hang when they pause a clock, and what that leaves. */

#include "base/host/sample-rate.h"

#include "setup/scratch.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct sample_rate rate_of(const char *release, const char *max)
{
	struct scratch scratch;
	struct sample_rate rate;

	scratch_make(&scratch);
	if (release)
		scratch_text(&scratch, "sys/kernel/osrelease", release);
	if (max)
		scratch_text(&scratch, "sys/kernel/perf_event_max_sample_rate", max);
	sample_rate_read(&rate, scratch.path);
	scratch_remove(&scratch);
	return rate;
}

static void test_kernels(void **state)
{
	static const struct {
		const char *release;
		bool hangs;
	} kernels[] = {
		{ "6.15.11\n", false },		{ "6.16.0\n", true },
		{ "6.16.12-200.fc42\n", true }, { "6.16\n", true },
		{ "6.17.7-arch1-1\n", true },	{ "6.17.8-300.fc43\n", false },
		{ "6.17.0-7-generic\n", true }, { "6.18.0\n", false },
		{ "5.16.3\n", false },		{ "7.16.1\n", false },
		{ "6.1.0-18-amd64\n", false },	{ "6.160.1\n", false },
		{ "not a version\n", false },	{ "", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(kernels); i++)
		assert_int_equal(rate_of(kernels[i].release, "100000\n").hangs, kernels[i].hangs);
	assert_false(rate_of(NULL, "100000\n").hangs);
}

static void test_limit(void **state)
{
	struct sample_rate rate = rate_of("6.1.0\n", "100000\n");
	struct reason why;

	(void)state;
	assert_int_equal(sample_rate_limit(&rate), 100000);
	rate = rate_of("6.17.3\n", "100000\n");
	assert_int_equal(sample_rate_limit(&rate), 10000);
	assert_int_equal(sample_rate_check(&rate, &why), 0);
	rate = rate_of("6.17.3\n", "9999\n");
	assert_int_equal(sample_rate_check(&rate, &why), -EOPNOTSUPP);
	assert_string_equal(why.text, "Linux 6.17.3 can hang when it pauses cpu-clock, which it may since "
				      "kernel.perf_event_max_sample_rate is 9999: set it to 100000, or use Linux "
				      "6.17.8 or later");
	rate = rate_of("6.17.8\n", "1\n");
	assert_int_equal(sample_rate_check(&rate, &why), 0);
	assert_int_equal(sample_rate_limit(&rate), 1);
}

/* Without the file, or with nonsense in it, nothing is known. */
static void test_unknown(void **state)
{
	static const char *const texts[] = { NULL, "", "0\n", "many\n", "-1\n" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const struct sample_rate rate = rate_of("6.17.3\n", texts[i]);

		assert_true(rate.max == UINT64_MAX);
		assert_true(sample_rate_limit(&rate) == UINT64_MAX);
		assert_int_equal(sample_rate_check(&rate, NULL), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernels),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_unknown),
	};

	return cmocka_run_group_tests_name("sample-rate", tests, NULL, NULL);
}
