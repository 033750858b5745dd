/* SPDX-License-Identifier: MIT */

/* Numbers and names as text: pure functions below all formats. */

#include "base/util/cleanup.h"
#include "base/util/escape.h"
#include "base/util/number.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* --- numbers */

static char *number_text(uint64_t count, double scale)
{
	struct scale s = scale_of(scale);
	struct buf b = {};

	number_add(&b, count, &s);
	return buf_steal(&b);
}

static void test_numbers(void **state)
{
	static const struct {
		uint64_t count;
		double scale;
		const char *text;
	} cases[] = {
		{ 0, 1, "0" },
		{ 7, 1, "7" },
		{ 10, 1, "10" },
		{ 99, 1, "99" },
		{ 100, 1, "100" },
		{ 1005, 1, "1005" },
		{ UINT64_MAX, 1, "18446744073709551615" },
		{ 10000000000000000000U, 1, "10000000000000000000" },
		{ 3, 64, "192" },
		{ UINT64_MAX, 64, "1.1805916207174113e+21" },
		{ 0, 1e-9, "0" },
		{ 1, 1e-9, "0.000000001" },
		{ 1500000000, 1e-9, "1.5" },
		{ 1000000000, 1e-9, "1" },
		{ 123456789012, 1e-9, "123.456789012" },
		{ UINT64_MAX, 1e-9, "18446744073.709551615" },
		{ UINT64_MAX, 1e-18, "18.446744073709551615" },
		{ 5, 0.1, "0.5" },
		{ 3, 1e-6, "0.000003" },
		{ 1, 0x1p-32, "2.3283064365386963e-10" },
		{ 4294967296, 0x1p-32, "1" },
		{ 3, 2.5, "7.5" },
		{ 3, 0, "0" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *text = number_text(cases[i].count, cases[i].scale);

		assert_string_equal(text, cases[i].text);
	}
}

/* Every number of digits, against printf. */
static void test_numbers_of_all_lengths(void **state)
{
	(void)state;
	for (uint64_t power = 1, i = 0; i < 20; i++, power *= 10)
		for (uint64_t d = 0; d < 13; d++) {
			uint64_t v = power + d * (power / 11) - (d == 12);
			_cleanup_(freep) char *text = number_text(v, 1), *seconds = number_text(v, 1e-9);
			char expected[32];

			(void)snprintf(expected, sizeof(expected), "%" PRIu64, v);
			assert_string_equal(text, expected);
			(void)snprintf(expected, sizeof(expected), "%" PRIu64 ".%09" PRIu64, v / 1000000000,
				       v % 1000000000);
			while (expected[strlen(expected) - 1] == '0')
				expected[strlen(expected) - 1] = '\0';
			if (expected[strlen(expected) - 1] == '.')
				expected[strlen(expected) - 1] = '\0';
			assert_string_equal(seconds, expected);
		}
}

static void test_measures(void **state)
{
	static const struct {
		double v;
		const char *text;
	} cases[] = {
		{ 0, "0" },
		{ 4.5, "4.5" },
		{ 0.1, "0.1" },
		{ 1, "1" },
		{ 1.0 / 3, "0.333333333333" },
		{ 1234567.125, "1234567.125" },
		{ 999999.5, "999999.5" },
		{ 2e-7, "0.0000002" },
		{ 1e-10, "1e-10" },
		{ 1e12, "1000000000000" },
		{ 1e300, "1e+300" },
		{ NAN, "null" },
		{ INFINITY, "null" },
		{ -INFINITY, "null" },
		{ -1.5, "-1.5" },
		{ 0.9999999999999, "1" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(buf_release) struct buf b = {};

		measure_add(&b, cases[i].v);
		buf_char(&b, '\0');
		assert_string_equal(b.data, cases[i].text);
	}
}

/* --- escaping */

static void test_escaping(void **state)
{
	static const struct {
		void (*escape)(struct buf *out, const char *text);
		const char *text, *escaped;
	} cases[] = {
		{ escape_label, "", "" },
		{ escape_label, "/system.slice/a.service", "/system.slice/a.service" },
		{ escape_label, "a\\b\"c\nd", "a\\\\b\\\"c\\nd" },
		{ escape_label, "caf\xc3\xa9 \xf0\x9f\x90\xa7", "caf\xc3\xa9 \xf0\x9f\x90\xa7" },
		{ escape_label, "\xff",
		  "\xef\xbf\xbd"
		  "ff" },
		{ escape_label, "a\xc3",
		  "a\xef\xbf\xbd"
		  "c3" },
		{ escape_label, "\t\r\x01", "\t\r\x01" },
		{ escape_help, "a\\b\"c\nd", "a\\\\b\"c\\nd" },
		{ escape_json, "a\\b\"c\nd\te\x01\x1f/\x7f", "a\\\\b\\\"c\\nd\\te\\u0001\\u001f/\x7f" },
		{ escape_json, "\b\f\r\x0b\x0e", "\\b\\f\\r\\u000b\\u000e" },
		{ escape_json, "\xe2\x82\xac\xe2\x82",
		  "\xe2\x82\xac\xef\xbf\xbd"
		  "e2\xef\xbf\xbd"
		  "82" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(buf_release) struct buf b = {};

		cases[i].escape(&b, cases[i].text);
		buf_char(&b, '\0');
		assert_string_equal(b.data, cases[i].escaped);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_numbers_of_all_lengths),
		cmocka_unit_test(test_measures),
		cmocka_unit_test(test_escaping),
	};

	return cmocka_run_group_tests_name("expose-text", tests, NULL, NULL);
}
