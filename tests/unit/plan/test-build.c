/* SPDX-License-Identifier: MIT */

/* How columns come into sets, and sets onto counters: by plans that are built by hand, without a kernel. */

#include "counting/plan/build.h"

#include "setup/made-plan.h"
#include "setup/no-memory.h"

#include <errno.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Tables of events name what differs alone. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/* --- sets */

/* Events of one group are one set where the kernel can schedule them together, and where they are one engine's. */
static void test_events_that_differ_stand_in_sets_of_their_own(_unused_ void **state)
{
	static const struct {
		struct made_group groups[3];
		const char *sets;
	} cases[] = {
		{ { { "g", .events = { { "a", HW }, { "b", HW }, { "c", SW } } } }, "a b c" },
		{ { { "g", .events = { { "a", HW } } }, { "h", .events = { { "b", HW } } } }, "a|b" },
		{ { { "g", .alone = true, .events = { { "a", HW }, { "b", SW } } } }, "a|b" },
		{ { { "g", .events = { { "a", HW }, { "b", PERF_TYPE_RAW }, { "c", HW } } } }, "a c|b" },
		{ { { "g", .events = { { "a", SW }, { "b", SW, .engine = ENGINE_B }, { "c", SW } } } }, "a c|b" },
		{ { { "g", .events = { { "a", HW }, { "b", HW, .cpus = "0-1" }, { "c", HW, .cpus = "0-9" } } } },
		  "a c|b" },
		{ { { "g", .events = { { "a", SW }, { "b", UNCORE }, { "c", UNCORE } } } }, "a|b c" },
		/* A hardware event leads, as it is what can be short. */
		{ { { "g", .events = { { "a", SW }, { "b", SW }, { "c", HW }, { "d", HW } } } }, "c b a d" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(plan_unrefp) struct plan *plan = plan_new();

		assert_non_null(plan);
		made_plan_build(plan, SCOPE_CPU, cases[i].groups);
		assert_plan_sets(&plan->scope[SCOPE_CPU], cases[i].sets);
	}
}

/* The kernel knows no pinned or exclusive members: the leader is opened so, for all of them. */
static void test_the_leader_is_pinned_for_its_members(_unused_ void **state)
{
	static const struct {
		struct made_group groups[2];
		bool exact, pinned, exclusive;
	} cases[] = {
		{ { { "g", .events = { { "a", SW }, { "b", SW } } } }, true, false, false },
		{ { { "g", .events = { { "a", HW }, { "b", SW } } } }, false, false, false },
		{ { { "g", .events = { { "a", HW }, { "b", HW, .pinned = true } } } }, false, true, false },
		{ { { "g", .events = { { "a", HW }, { "b", SW, .exclusive = true } } } }, false, false, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(plan_unrefp) struct plan *plan = plan_new();
		const struct scope_plan *cpus = &plan->scope[SCOPE_CPU];

		assert_non_null(plan);
		made_plan_build(plan, SCOPE_CPU, cases[i].groups);
		assert_int_equal(cpus->nr_sets, 1);
		assert_int_equal(cpus->sets[0].exact, cases[i].exact);
		for (size_t member = 0; member < 2; member++) {
			struct perf_event_attr attr = set_attr(cpus, &cpus->sets[0], member);

			assert_int_equal(attr.pinned, member == 0 && cases[i].pinned);
			assert_int_equal(attr.exclusive, member == 0 && cases[i].exclusive);
		}
	}
}

static void test_a_part_comes_next_and_is_exact_by_itself(_unused_ void **state)
{
	static const struct made_group groups[] = {
		{ "g", .events = { { "a", HW }, { "b", SW }, { "c", SW }, { "d", SW } } },
		{ "h", .events = { { "e", SW } } },
		{},
	};
	_cleanup_(plan_unrefp) struct plan *plan = plan_new();
	struct scope_plan *cpus = &plan->scope[SCOPE_CPU];

	assert_non_null(plan);
	made_plan_build(plan, SCOPE_CPU, groups);
	assert_int_equal(plan_split_set(cpus, 0, 1), 0);
	assert_plan_sets(cpus, "a|b c d|e");
	assert_int_equal(plan_split_set(cpus, 1, 2), 0);
	assert_plan_sets(cpus, "a|b c|d|e");
	for (size_t i = 0; i < cpus->nr_sets; i++) {
		assert_int_equal(cpus->sets[i].part, i < 3);
		assert_int_equal(cpus->sets[i].exact, i > 0);
		assert_ptr_equal(cpus->sets[i].group, &plan->groups[SCOPE_CPU].groups[i / 3]);
		assert_ptr_equal(cpus->sets[i].engine, ENGINE_A);
		assert_int_equal(cpus->sets[i].cpus.nr, 3);
	}
	/* Exact parts have the times of the first of them. */
	assert_int_equal(set_with_times(cpus, 0), 0);
	assert_int_equal(set_with_times(cpus, 2), 1);
	assert_int_equal(set_with_times(cpus, 3), 3);
}

static void test_columns_of_a_dropped_set_are_in_none(_unused_ void **state)
{
	static const struct made_group groups[] = {
		{ "g", .events = { { "a", HW } } },
		{ "h", .events = { { "b", HW }, { "c", HW } } },
		{ "i", .events = { { "d", HW } } },
		{},
	};
	_cleanup_(plan_unrefp) struct plan *plan = plan_new();
	struct scope_plan *cpus = &plan->scope[SCOPE_CPU];

	assert_non_null(plan);
	made_plan_build(plan, SCOPE_CPU, groups);
	plan_drop_set(cpus, 1);
	assert_plan_sets(cpus, "a|d");
	assert_true(cpus->columns[1].set == NO_SET && cpus->columns[2].set == NO_SET);
	plan_drop_set(cpus, 1);
	plan_drop_set(cpus, 0);
	assert_plan_sets(cpus, "");
	assert_int_equal(plan_nr_counted(plan), 0);
}

/* --- counters */

/* Only whole sets share counters: the members of one kernel group run at the same time. */
static void test_only_sets_that_are_alike_share_counters(_unused_ void **state)
{
	static const struct {
		struct made_group cpus[3], cgroups[2];
		bool credited;
		size_t nr_counters, twin; /* of the cgroups' first set */
	} cases[] = {
		{ { { "g", .events = { { "a", HW }, { "b", HW } } } },
		  { { "h", .events = { { "a", HW }, { "b", HW } } } },
		  false,
		  2,
		  0 },
		{ { { "f", .events = { { "c", HW } } }, { "g", .events = { { "a", HW } } } },
		  { { "h", .events = { { "a", HW } } } },
		  false,
		  2,
		  1 },
		/* Another order, a part, other CPUs, other attributes. */
		{ { { "g", .events = { { "b", HW }, { "a", HW } } } },
		  { { "h", .events = { { "a", HW }, { "b", HW } } } },
		  false,
		  4,
		  NO_SET },
		{ { { "g", .events = { { "a", HW }, { "b", HW } } } },
		  { { "h", .events = { { "a", HW } } } },
		  false,
		  3,
		  NO_SET },
		{ { { "g", .events = { { "a", HW, .cpus = "0" } } } },
		  { { "h", .events = { { "a", HW } } } },
		  false,
		  2,
		  NO_SET },
		{ { { "g", .events = { { "a", HW, .pinned = true } } } },
		  { { "h", .events = { { "a", HW } } } },
		  false,
		  2,
		  NO_SET },
		/* Another engine's, unless that credits them. */
		{ { { "g", .events = { { "a", HW } } } },
		  { { "h", .events = { { "a", HW, .engine = ENGINE_B } } } },
		  false,
		  2,
		  NO_SET },
		{ { { "g", .events = { { "a", HW } } } },
		  { { "h", .events = { { "a", HW, .engine = ENGINE_B } } } },
		  true,
		  1,
		  0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(plan_unrefp) struct plan *plan = plan_new();

		assert_non_null(plan);
		made_plan_build(plan, SCOPE_CPU, cases[i].cpus);
		made_plan_build(plan, SCOPE_CGROUP, cases[i].cgroups);
		plan->scope[SCOPE_CGROUP].sets[0].credited = cases[i].credited;
		assert_int_equal(plan_add_counters(plan), 0);
		assert_int_equal(plan->nr_counters, cases[i].nr_counters);
		assert_int_equal(set_find_twin(plan, SCOPE_CGROUP, 0), cases[i].twin);
		if (cases[i].twin != NO_SET)
			assert_int_equal(set_find_twin(plan, SCOPE_CPU, cases[i].twin), 0);
		for (size_t k = 0; k < plan->nr_counters; k++)
			for (int scope = 0; scope < _SCOPE_MAX; scope++) {
				size_t column = plan->counters[k].columns[scope];

				if (column != NO_COLUMN)
					assert_int_equal(plan->scope[scope].columns[column].counter, k);
			}
	}
}

/* --- columns */

static void test_an_event_is_counted_on_its_cpus_that_are_online(_unused_ void **state)
{
	static const struct {
		const char *of_event, *online, *both;
	} cases[] = {
		{ "", "0-3", "0-3" }, { "1,3,7", "0-3", "1,3" }, { "7", "0-3", "" },
		{ "", "", "" },	      { "0-9", "5", "5" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(cpulist_release) struct cpulist online = {}, both = {};
		_cleanup_(freep) char *text = NULL;
		struct event event = {};

		assert_int_equal(cpulist_parse(&event.cpus, cases[i].of_event), 0);
		assert_int_equal(cpulist_parse(&online, cases[i].online), 0);
		assert_int_equal(cpulist_of_event(&both, &event, &online), 0);
		text = cpulist_format(&both);
		assert_string_equal(text, cases[i].both);
		cpulist_release(&event.cpus);
	}
}

static long memory_left;

static bool fails_once(void)
{
	return memory_left-- == 0;
}

static void test_a_reason_grows_and_outlives_a_lack_of_memory(_unused_ void **state)
{
	struct column column = { .retained_fd = -1 };

	assert_int_equal(column_add_why(&column, "one"), 0);
	assert_string_equal(column.why, "one");
	assert_int_equal(column_add_why(&column, "two"), 0);
	assert_string_equal(column.why, "one; two");
	memory_fails = fails_once;
	memory_left = 0;
	assert_int_equal(column_add_why(&column, "three"), -ENOMEM);
	memory_left = 0;
	assert_int_equal(column_set_state(&column, EVENT_FAILED, "four"), -ENOMEM);
	memory_fails = NULL;
	assert_int_equal(column.state, EVENT_OK);
	assert_string_equal(column.why, "one; two");
	assert_int_equal(column_set_state(&column, EVENT_DENIED, "five"), 0);
	assert_int_equal(column.state, EVENT_DENIED);
	assert_string_equal(column.why, "five");
	free(column.why);
}

/* Each allocation fails once: the plan says so, and can be released. */
static void test_a_plan_without_memory_is_refused(_unused_ void **state)
{
	static const struct made_group group = { "g", .events = { { "a", HW }, { "b", SW }, { "c", SW } } };
	_cleanup_(cpulist_release) struct cpulist online = {};
	long left = 0;
	int r;

	assert_int_equal(cpulist_parse(&online, "0-1"), 0);
	do {
		_cleanup_(plan_unrefp) struct plan *plan = plan_new();
		struct scope_plan *cpus = &plan->scope[SCOPE_CPU];

		assert_non_null(plan);
		made_plan_group(&plan->groups[SCOPE_CPU], &group);
		memory_left = left++;
		memory_fails = fails_once;
		r = plan_add_columns(cpus, &plan->groups[SCOPE_CPU], SCOPE_CPU);
		for (size_t i = 0; i < 3 && r == 0; i++)
			r = plan_assign_set(cpus, i, ENGINE_A, &online);
		r = r ?: plan_split_set(cpus, 0, 1);
		r = r ?: plan_add_counters(plan);
		memory_fails = NULL;
		assert_true(r == 0 || r == -ENOMEM);
		/* Whatever came of it, sets and columns agree. */
		for (size_t i = 0; r < 0 && i < cpus->nr_sets; i++)
			for (size_t k = 0; k < cpus->sets[i].nr; k++)
				assert_true(cpus->sets[i].columns[k] < cpus->nr_columns);
	} while (r < 0);
	assert_in_range(left, 8, 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events_that_differ_stand_in_sets_of_their_own),
		cmocka_unit_test(test_the_leader_is_pinned_for_its_members),
		cmocka_unit_test(test_a_part_comes_next_and_is_exact_by_itself),
		cmocka_unit_test(test_columns_of_a_dropped_set_are_in_none),
		cmocka_unit_test(test_only_sets_that_are_alike_share_counters),
		cmocka_unit_test(test_an_event_is_counted_on_its_cpus_that_are_online),
		cmocka_unit_test(test_a_reason_grows_and_outlives_a_lack_of_memory),
		cmocka_unit_test(test_a_plan_without_memory_is_refused),
	};

	return cmocka_run_group_tests_name("build", tests, NULL, NULL);
}
