/* SPDX-License-Identifier: MIT */

/* Samples of a clock that the kernel pauses: together they weigh the time that was used, as far as it can be known. */

#include "profiler/sample/pause.h"

#include "base/util/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PERIOD 1000

static void test_weights(void **state)
{
	static const struct {
		const char *what;
		/* 't' at which it is paused, 'u' at which it goes on, 's': a sample; 0: the end. */
		struct {
			char kind;
			uint64_t time;
		} records[8];
		uint64_t expected; /* the weight of all */
	} cases[] = {
		{ "never paused", { { 's', 1000 }, { 's', 2000 }, { 's', 7000 } }, 3000 },
		{ "busy", { { 't', 1000 }, { 's', 1000 }, { 'u', 1700 }, { 's', 2700 } }, 2700 },
		{ "busy, paused at each",
		  { { 't', 1000 },
		    { 's', 1001 },
		    { 'u', 1700 },
		    { 't', 2700 },
		    { 's', 2701 },
		    { 'u', 3400 },
		    { 's', 4401 } },
		  4400 },
		{ "idle after it", { { 't', 1000 }, { 's', 1001 }, { 'u', 1700 }, { 's', 4700 } }, 2000 },
		{ "idle at first, then paused again",
		  { { 't', 1000 },
		    { 's', 1001 },
		    { 'u', 1700 },
		    { 's', 4700 },
		    { 't', 4700 },
		    { 'u', 5000 },
		    { 's', 6000 } },
		  3300 },
		{ "its beginning was lost", { { 's', 1000 }, { 'u', 1700 }, { 's', 2700 } }, 2000 },
		{ "its end was lost", { { 't', 1000 }, { 's', 1001 }, { 's', 2700 }, { 's', 3700 } }, 3000 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct pause pause = {};
		uint64_t sum = 0;

		for (size_t k = 0; cases[i].records[k].kind; k++) {
			uint64_t time = cases[i].records[k].time;

			if (cases[i].records[k].kind == 't')
				pause_begin(&pause, time);
			else if (cases[i].records[k].kind == 'u')
				pause_end(&pause, time);
			else
				sum += PERIOD + pause_take(&pause, time, PERIOD);
		}
		if (sum != cases[i].expected)
			fail_msg("%s: %llu, not %llu", cases[i].what, (unsigned long long)sum,
				 (unsigned long long)cases[i].expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_weights),
	};

	return cmocka_run_group_tests_name("pause", tests, NULL, NULL);
}
