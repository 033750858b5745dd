/* SPDX-License-Identifier: MIT */

/* The values of captures: made totals and their history, ids, and the bound of their number. */

#include "counting/alarm/capture-values.h"
#include "setup/history-world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MAX_SECONDS 40

struct fixture {
	struct history_world *w;
	struct totals_row *a, *b, *cpu;
	struct capture_values_list list;
	uint64_t start; /* CLOCK_MONOTONIC ns, the first reading */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->w = history_world_new(MEMORY);
	f->a = add_target(f->w, "/a", false);
	f->b = add_target(f->w, "/b", false);
	f->cpu = add_target(f->w, NULL, false);
	take(f->w);
	f->start = f->w->clocks.monotonic;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	capture_values_release(&f->list);
	history_world_free(f->w);
	free(f);
	return 0;
}

static void go_on(struct fixture *f, uint64_t ns)
{
	pass(f->w, ns);
	take(f->w);
	capture_values_take(&f->list, &f->w->history);
}

/* Seconds in each of which /a has 1e9, 2e9, … cycles, /b ten times as many, and the CPU a hundred times. */
static void run(struct fixture *f, unsigned seconds)
{
	for (unsigned i = 0; i < seconds; i++) {
		uint64_t number = (f->w->clocks.monotonic - f->start) / SECOND + 1;

		f->a->cells[0].total += number * SECOND;
		f->b->cells[0].total += number * 10 * SECOND;
		f->cpu->cells[0].total += number * 100 * SECOND;
		/* 0.25 CPUs. */
		f->a->cells[1].total += SECOND / 4;
		go_on(f, SECOND);
	}
}

static const struct capture_values *find_values(const struct fixture *f, const char *id)
{
	const struct capture_values *values;

	for (size_t i = 0; (values = capture_values_at(&f->list, i)); i++)
		if (strcmp(values->id, id) == 0)
			return values;
	return NULL;
}

/* from, to: seconds since the first reading. */
static const struct capture_values *add(struct fixture *f, const char *cgroup, const char *counter, uint64_t from,
					uint64_t to)
{
	char id[32];
	const struct capture_values capture = {
		.id = id,
		.cgroup = cgroup,
		.counter = counter,
		.from = f->start + from * SECOND,
		.to = f->start + to * SECOND,
	};

	(void)snprintf(id, sizeof(id), "busy-%d", (int)f->list.ever);
	assert_int_equal(capture_values_add(&f->list, &capture), 0);
	return find_values(f, id);
}

static void expect_points(const struct capture_values *values, size_t nr, double first, double step)
{
	assert_int_equal(values->nr_points, nr);
	for (size_t i = 0; i < nr; i++)
		assert_true(fabs(values->points[i].rate - first - (double)i * step) < 1e-6 * (first + 1));
}

/* The slots of the stretch so far, and no others; none is added when the history has passed its end. */
static void test_stretch(void **state)
{
	struct fixture *f = *state;
	const struct capture_values *a, *b, *cpu, *clock;

	run(f, 5);
	a = add(f, "/a", "cycles", 3, 8);
	b = add(f, "/b", "cycles", 3, 8);
	cpu = add(f, NULL, "cycles", 3, 8);
	clock = add(f, "/a", "task-clock", 0, 6);
	assert_int_equal(a->nr_points, 0);
	capture_values_take(&f->list, &f->w->history);
	expect_points(a, 2, 4e9, 1e9);
	assert_int_equal(a->points[0].end, NOW + 4 * SECOND);
	run(f, 2);
	expect_points(a, 4, 4e9, 1e9);
	run(f, 10);
	expect_points(a, 5, 4e9, 1e9);
	expect_points(b, 5, 40e9, 10e9);
	expect_points(cpu, 5, 400e9, 100e9);
	expect_points(clock, 6, 0.25, 0);
	assert_int_equal(a->points[4].end, NOW + 8 * SECOND);
}

/* Its end is within a slot. An hour later the history has nothing of it. */
static void test_values_stay(void **state)
{
	struct fixture *f = *state;
	const struct capture_values *values = add(f, "/a", "cycles", 0, 2);

	pass(f->w, SECOND / 2);
	run(f, 1);
	run(f, 3);
	assert_int_equal(values->nr_points, 2);
	for (int i = 0; i < 300; i++)
		go_on(f, 15 * SECOND);
	assert_int_equal(values->nr_points, 2);
}

/* Where a CPU was not counted there is no rate, nor where nothing is known; the others are shown. */
static void test_unknown(void **state)
{
	struct fixture *f = *state;
	const struct capture_values *values = add(f, "/a", "cycles", 0, 3);

	run(f, 1);
	f->a->cells[0].measured = false;
	run(f, 1);
	f->a->cells[0].measured = true;
	run(f, 1);
	assert_int_equal(values->nr_points, 3);
	assert_true(values->points[0].rate == 1e9);
	assert_true(isnan(values->points[1].rate));
}

/* A reload takes the counter away: the values up to then stay. */
static void test_counter_is_gone(void **state)
{
	static const struct made_event others[] = { { SCOPE_CGROUP, "a", .text = "faults", .set = 0 }, {} };
	struct fixture *f = *state;
	const struct capture_values *values = add(f, "/a", "cycles", 0, MAX_SECONDS);
	struct plan *before = f->w->history.plan;

	run(f, 3);
	f->w->history.plan = plan_of(others);
	pass(f->w, SECOND);
	f->w->history.times[RING_FINE].last += SECOND;
	capture_values_take(&f->list, &f->w->history);
	plan_unref(f->w->history.plan);
	f->w->history.plan = before;
	expect_points(values, 3, 1e9, 1e9);
}

static void test_ids(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *first = capture_values_new_id(&f->list, "busy-one", UINT64_C(1700000000) * SECOND);
	_cleanup_(freep) char *second = NULL;

	assert_string_equal(first, "busy-one-20231114T221320Z-1");
	(void)add(f, NULL, "cycles", 0, 1);
	second = capture_values_new_id(&f->list, "busy-one", UINT64_C(1700000000) * SECOND);
	assert_string_equal(second, "busy-one-20231114T221320Z-2");
	assert_null(find_values(f, second));
}

static bool is_odd(const void *userdata, const char *id)
{
	assert_string_equal(userdata, "mine");
	return atoi(strrchr(id, '-') + 1) % 2;
}

/* Those of captures that are gone go, and the oldest when there are too many. */
static void test_number(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 5; i++)
		(void)add(f, "/a", "cycles", 0, 1);
	run(f, 1);
	capture_values_trim(&f->list, is_odd, "mine");
	assert_int_equal(f->list.nr, 2);
	assert_null(find_values(f, "busy-0"));
	expect_points(find_values(f, "busy-1"), 1, 1e9, 0);
	expect_points(find_values(f, "busy-3"), 1, 1e9, 0);
	while (f->list.nr < CAPTURE_VALUES_MAX)
		(void)add(f, "/a", "cycles", 0, 1);
	(void)add(f, "/a", "cycles", 0, 1);
	assert_int_equal(f->list.nr, CAPTURE_VALUES_MAX);
	assert_null(find_values(f, "busy-1"));
	assert_int_equal(f->list.ever, CAPTURE_VALUES_MAX + 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_stretch, setup, teardown),
		cmocka_unit_test_setup_teardown(test_values_stay, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unknown, setup, teardown),
		cmocka_unit_test_setup_teardown(test_counter_is_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ids, setup, teardown),
		cmocka_unit_test_setup_teardown(test_number, setup, teardown),
	};

	return cmocka_run_group_tests_name("capture-values", tests, NULL, NULL);
}
