/* SPDX-License-Identifier: MIT */

/* From one plan to the next: which column and which set goes on as which; and what becomes of a plan's files. */

#include "counting/plan/plan.h"

#include "setup/fake-async-close.h"
#include "setup/made-plan.h"

#include <fcntl.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Tables of events name what differs alone. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

static struct plan *make_plan(const struct made_group *groups)
{
	struct plan *plan = plan_new();

	assert_non_null(plan);
	made_plan_build(plan, SCOPE_CPU, groups);
	return plan;
}

/* --- columns */

static struct event *event_of(struct plan *plan, size_t column)
{
	return &plan->groups[SCOPE_CPU].groups[0].events.events[column];
}

static void rename_event(char **name, const char *new)
{
	free(*name);
	*name = strdup(new);
	assert_non_null(*name);
}

/* By names that are sorted, and one after another where there is no such list. */
static void test_an_equal_column_is_found_among_others(_unused_ void **state)
{
	static const struct made_group groups[] = {
		{ "g", .events = { { "m", HW }, { "b", SW }, { "m", SW }, { "z", HW }, { "a", HW } } },
		{},
	};
	static const struct made_group others[] = { { "g", .events = { { "m", UNCORE }, { "c", HW } } }, {} };
	_cleanup_(plan_unrefp) struct plan *plan = make_plan(groups), *other = make_plan(others);
	struct scope_plan *cpus = &plan->scope[SCOPE_CPU];

	for (int unsorted = 0; unsorted < 2; unsorted++) {
		for (size_t i = 0; i < cpus->nr_columns; i++)
			assert_int_equal(column_find_equal(&cpus->columns[i], cpus), i);
		for (size_t i = 0; i < 2; i++)
			assert_int_equal(column_find_equal(&other->scope[SCOPE_CPU].columns[i], cpus), NO_COLUMN);
		free(cpus->by_name);
		cpus->by_name = NULL;
	}
}

/* A change of the event that the next plan has in the old one's place. */
enum change {
	SAME,
	OTHER_NUMBER, /* as a tracepoint gets whose module is loaded again */
	OTHER_TEXT,
	OTHER_METRIC,
	OTHER_PMU,
	OTHER_SCOPE,
	HIDDEN,
};

static void apply_change(struct plan *plan, enum change change)
{
	struct column *column = &plan->scope[SCOPE_CPU].columns[0];
	struct event *event = event_of(plan, 0);

	if (change == OTHER_NUMBER)
		event->attr.config++;
	else if (change == OTHER_TEXT)
		rename_event(&event->text, "other");
	else if (change == OTHER_METRIC)
		rename_event(&event->metric, "other");
	else if (change == OTHER_PMU)
		rename_event(&event->pmu, "other");
	else if (change == OTHER_SCOPE)
		column->scope = SCOPE_CGROUP;
	else if (change == HIDDEN)
		plan->groups[SCOPE_CPU].groups[0].hidden = true;
}

/* Totals go on in an equal column; where one of both was not counted, also in one that is written and named alike. */
static void test_totals_go_on_in_the_column_that_means_the_same(_unused_ void **state)
{
	static const struct {
		enum change change;
		uint32_t type;
		bool old_uncounted, new_uncounted;
		bool equal, goes_on;
	} cases[] = {
		{ SAME, HW, false, false, true, true },
		{ SAME, HW, true, true, true, true },
		{ OTHER_NUMBER, HW, false, false, false, false },
		{ OTHER_NUMBER, HW, true, false, false, true },
		{ OTHER_NUMBER, HW, false, true, false, true },
		{ OTHER_NUMBER, PERF_TYPE_TRACEPOINT, false, false, false, true },
		/* The text is not what is counted, and has to be the same only where the rest is not. */
		{ OTHER_TEXT, HW, false, false, true, true },
		{ OTHER_METRIC, HW, true, false, false, false },
		{ OTHER_PMU, HW, true, false, false, false },
		{ OTHER_SCOPE, HW, true, false, false, false },
		{ HIDDEN, HW, true, false, false, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct made_group groups[] = { { "g", .events = { { "a", cases[i].type } } }, {} };
		_cleanup_(plan_unrefp) struct plan *old = make_plan(groups), *new = make_plan(groups);
		struct column *column = &new->scope[SCOPE_CPU].columns[0];

		if (cases[i].old_uncounted)
			plan_drop_set(&old->scope[SCOPE_CPU], 0);
		if (cases[i].new_uncounted)
			plan_drop_set(&new->scope[SCOPE_CPU], 0);
		apply_change(new, cases[i].change);
		if ((column_find_equal(column, &old->scope[SCOPE_CPU]) == 0) != cases[i].equal ||
		    (column_find_predecessor(column, &old->scope[SCOPE_CPU]) == 0) != cases[i].goes_on)
			fail_msg("case %zu", i);
	}
	/* Written differently, and not equal. */
	for (int counted = 0; counted < 2; counted++) {
		static const struct made_group groups[] = { { "g", .events = { { "a", HW } } }, {} };
		_cleanup_(plan_unrefp) struct plan *old = make_plan(groups), *new = make_plan(groups);

		if (!counted)
			plan_drop_set(&old->scope[SCOPE_CPU], 0);
		apply_change(new, OTHER_NUMBER);
		apply_change(new, OTHER_TEXT);
		assert_int_equal(column_find_predecessor(&new->scope[SCOPE_CPU].columns[0], &old->scope[SCOPE_CPU]),
				 NO_COLUMN);
	}
}

/* --- sets */

/* The old plan's set that the new plan's first set goes on in: 0 or 1 is its number. */
static void test_a_set_goes_on_as_one_with_equal_columns_in_order(_unused_ void **state)
{
	static const struct {
		struct made_group old[3], new[2];
		size_t equal, alike;
	} cases[] = {
		{ { { "g", .events = { { "a", HW }, { "b", HW } } } },
		  { { "other", .events = { { "a", HW }, { "b", HW } } } },
		  0,
		  0 },
		{ { { "g", .events = { { "c", HW } } }, { "h", .events = { { "a", HW }, { "b", HW } } } },
		  { { "g", .events = { { "a", HW, .cpus = "0" }, { "b", HW, .cpus = "0" } } } },
		  1,
		  1 },
		{ { { "g", .events = { { "b", HW }, { "a", HW } } } },
		  { { "g", .events = { { "a", HW }, { "b", HW } } } },
		  NO_SET,
		  NO_SET },
		{ { { "g", .events = { { "a", HW }, { "b", HW }, { "c", HW } } } },
		  { { "g", .events = { { "a", HW }, { "b", HW } } } },
		  NO_SET,
		  NO_SET },
		{ { { "g", .events = { { "a", HW } } } },
		  { { "g", .events = { { "a", HW }, { "b", HW } } } },
		  NO_SET,
		  NO_SET },
		{ { { "g", .events = { { "a", HW, .pinned = true } } } },
		  { { "g", .events = { { "a", HW } } } },
		  NO_SET,
		  NO_SET },
		{ { { "g", .hidden = true, .events = { { "a", HW }, { "b", HW } } } },
		  { { "g", .events = { { "a", HW }, { "b", HW } } } },
		  NO_SET,
		  0 },
		/* The same event is there twice, shown and hidden, in different sets. */
		{ { { "g", .events = { { "a", HW } } },
		    { "h", .hidden = true, .events = { { "a", HW }, { "b", HW } } } },
		  { { "g", .events = { { "a", HW }, { "b", HW } } } },
		  NO_SET,
		  1 },
		{ { { "g", .events = { { "a", HW }, { "b", HW } } },
		    { "h", .hidden = true, .events = { { "a", HW } } } },
		  { { "g", .events = { { "a", HW } } } },
		  NO_SET,
		  1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(plan_unrefp) struct plan *old = make_plan(cases[i].old), *new = make_plan(cases[i].new);
		const struct scope_plan *from = &old->scope[SCOPE_CPU], *to = &new->scope[SCOPE_CPU];

		if (set_find_equal(to, &to->sets[0], from) != cases[i].equal ||
		    set_find_alike(to, &to->sets[0], from) != cases[i].alike)
			fail_msg("case %zu", i);
	}
}

static void test_a_column_is_open_with_its_set(_unused_ void **state)
{
	static const struct made_group groups[] = { { "g", .events = { { "a", HW }, { "b", PERF_TYPE_RAW } } }, {} };
	_cleanup_(plan_unrefp) struct plan *plan = make_plan(groups);
	struct scope_plan *cpus = &plan->scope[SCOPE_CPU];

	assert_true(set_is_open(cpus, 1) && column_is_open(cpus, 1));
	cpus->sets[1].closed = true;
	assert_false(set_is_open(cpus, 1) || column_is_open(cpus, 1));
	assert_true(column_is_open(cpus, 0));
	plan_drop_set(cpus, 0);
	assert_false(column_is_open(cpus, 0));
	assert_false(column_is_open(cpus, NO_COLUMN) || set_is_open(cpus, NO_SET));
}

/* A hidden column is none that people count, and yet it may be tried again. */
static void test_hidden_columns_are_not_among_the_counted(_unused_ void **state)
{
	static const struct made_group groups[] = {
		{ "g", .events = { { "a", HW }, { "b", SW } } },
		{ "h", .hidden = true, .events = { { "c", HW } } },
		{},
	};
	_cleanup_(plan_unrefp) struct plan *plan = make_plan(groups);
	struct scope_plan *cpus = &plan->scope[SCOPE_CPU];

	assert_int_equal(plan_nr_shown(cpus), 2);
	assert_int_equal(plan_nr_counted(plan), 2);
	assert_false(plan_may_recover(plan));
	cpus->columns[2].may_recover = true;
	assert_true(plan_may_recover(plan));
	plan_drop_set(cpus, 0);
	assert_int_equal(plan_nr_counted(plan), 0);
}

/* --- files */

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void give_files(struct plan *plan, int fds[static 3])
{
	for (size_t i = 0; i < 3; i++) {
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		assert_true(fds[i] >= 0);
	}
	plan->scope[SCOPE_CPU].columns[1].retained_fd = fds[0];
	plan->tried.fds = malloc(2 * sizeof(*plan->tried.fds));
	assert_non_null(plan->tried.fds);
	memcpy(plan->tried.fds, &fds[1], 2 * sizeof(*fds));
	plan->tried.nr = 2;
}

/* Tried events are closed members first, by the closer; those that keep a number when the plan lets go. */
static void test_files_go_to_the_closer(_unused_ void **state)
{
	static const struct made_group groups[] = { { "g", .events = { { "a", HW }, { "b", HW } } }, {} };
	struct plan *plan = make_plan(groups);
	int fds[3];

	give_files(plan, fds);
	assert_int_equal(plan_nr_retained(plan), 1);
	plan_end_tries(plan, &slow);
	assert_int_equal(slow.nr, 2);
	assert_int_equal(slow.fds[0], fds[2]);
	assert_int_equal(slow.fds[1], fds[1]);
	plan_end_tries(plan, &slow);
	assert_int_equal(slow.nr, 2);
	assert_int_equal(plan_nr_retained(plan), 1);
	plan_let_go(plan, &slow);
	assert_int_equal(slow.nr, 3);
	assert_int_equal(slow.fds[2], fds[0]);
	assert_int_equal(plan_nr_retained(plan), 0);
	close_slow();

	/* Without a closer they are closed at once. */
	give_files(plan, fds);
	plan_end_tries(plan, NULL);
	assert_true(is_open(fds[0]) && !is_open(fds[1]) && !is_open(fds[2]));
	plan_let_go(plan, NULL);
	assert_false(is_open(fds[0]));
	plan_unref(plan);
}

static void test_the_last_reference_closes_what_is_left(_unused_ void **state)
{
	static const struct made_group groups[] = { { "g", .events = { { "a", HW }, { "b", HW } } }, {} };
	struct plan *plan = make_plan(groups);
	int fds[3];

	give_files(plan, fds);
	assert_ptr_equal(plan_ref(plan), plan);
	assert_null(plan_unref(plan));
	for (size_t i = 0; i < 3; i++)
		assert_true(is_open(fds[i]));
	assert_null(plan_unref(plan));
	for (size_t i = 0; i < 3; i++)
		assert_false(is_open(fds[i]));
	assert_null(plan_unref(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_equal_column_is_found_among_others),
		cmocka_unit_test(test_totals_go_on_in_the_column_that_means_the_same),
		cmocka_unit_test(test_a_set_goes_on_as_one_with_equal_columns_in_order),
		cmocka_unit_test(test_a_column_is_open_with_its_set),
		cmocka_unit_test(test_hidden_columns_are_not_among_the_counted),
		cmocka_unit_test(test_files_go_to_the_closer),
		cmocka_unit_test(test_the_last_reference_closes_what_is_left),
	};

	return cmocka_run_group_tests_name("columns", tests, NULL, NULL);
}
