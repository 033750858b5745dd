/* SPDX-License-Identifier: MIT */

/* The list of PMUs and their counters: what is known, and what is said of it. */

#include "counting/plan/pmu-counters.h"

#include "base/util/cleanup.h"
#include "setup/no-memory.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct {
	const char *pmu;
	unsigned advertised, usable;
	bool found, lies, is_problem;
	const char *sentence;
} cases[] = {
	{ "cpu", 6, 6, true, false, false, "PMU cpu: 6 counters, of which 6 count at once" },
	{ "cpu_atom", 6, 5, true, true, true,
	  "PMU cpu_atom: 6 counters, of which only 5 count at once: no group is opened with more hardware events" },
	{ "one", 1, 1, true, false, false, "PMU one: 1 counter, of which 1 counts at once" },
	{ "none", 2, 0, true, true, true,
	  "PMU none: 2 counters, of which only 0 count at once: no group is opened with more hardware events" },
	{ "taken", 0, 0, false, false, true,
	  "PMU taken: none of its counters was free for the test, and nobody knows how many of them count: reload when "
	  "others have ended" },
};

static void add_all(struct pmu_counters_list *list)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char name[16];
		const struct pmu_counters counters = { name, cases[i].advertised, cases[i].usable, 3 };

		/* The name is copied, and nothing is pinned yet. */
		strcpy(name, cases[i].pmu);
		assert_int_equal(pmu_counters_add(list, &counters), 0);
		strcpy(name, "overwritten");
		assert_int_equal(list->pmus[i].pinned, 0);
	}
}

static void test_only_a_pmu_with_free_counters_is_known(_unused_ void **state)
{
	_cleanup_(pmu_counters_list_release) struct pmu_counters_list list = {};

	add_all(&list);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct pmu_counters *counters = pmu_counters_find(&list, cases[i].pmu);

		assert_true(pmu_counters_has(&list, cases[i].pmu));
		assert_ptr_equal(counters, cases[i].found ? &list.pmus[i] : NULL);
		assert_ptr_equal(pmu_counters_find_lying(&list, cases[i].pmu), cases[i].lies ? counters : NULL);
	}
	/* Names are whole; and there may be no list. */
	assert_false(pmu_counters_has(&list, "cpu_"));
	assert_null(pmu_counters_find(&list, "cpu_"));
	assert_false(pmu_counters_has(NULL, "cpu"));
	assert_null(pmu_counters_find(NULL, "cpu"));
	assert_null(pmu_counters_find_lying(NULL, "cpu_atom"));
}

static void test_the_sentence_tells_counters_that_do_not_count(_unused_ void **state)
{
	_cleanup_(pmu_counters_list_release) struct pmu_counters_list list = {};

	add_all(&list);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct reason why;

		assert_int_equal(pmu_counters_describe(&list.pmus[i], &why), cases[i].is_problem);
		assert_string_equal(why.text, cases[i].sentence);
	}
}

static long memory_left;

static bool fails_once(void)
{
	return memory_left-- == 0;
}

static void test_without_memory_the_list_stays_as_it_is(_unused_ void **state)
{
	static char name[] = "cpu";
	static const struct pmu_counters counters = { name, 6, 5, 0 };
	_cleanup_(pmu_counters_list_release) struct pmu_counters_list list = {};
	int r = -ENOMEM;

	add_all(&list);
	for (long left = 0; r < 0; left++) {
		memory_left = left;
		memory_fails = fails_once;
		r = pmu_counters_add(&list, &counters);
		memory_fails = NULL;
		assert_true(r == 0 ? left == 2 : r == -ENOMEM);
		assert_int_equal(list.nr, ARRAY_SIZE(cases) + (r == 0));
		assert_string_equal(list.pmus[4].pmu, "taken");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_a_pmu_with_free_counters_is_known),
		cmocka_unit_test(test_the_sentence_tells_counters_that_do_not_count),
		cmocka_unit_test(test_without_memory_the_list_stays_as_it_is),
	};

	return cmocka_run_group_tests_name("pmu-counters", tests, NULL, NULL);
}
