/* SPDX-License-Identifier: MIT */

/* The past of made totals: slots, targets that come and go, plans that change, and the bound of memory. */

#include "counting/history/history.h"
#include "setup/history-world.h"

#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct history_row *find_row(const struct history_world *w, const char *target)
{
	const struct history_row *row;

	HASH_FIND(by_target, w->history.by_target, target, strlen(target), row);
	return row;
}

/* The points of a column, from the oldest slot on; the number of slots. */
static size_t points_of(const struct history_world *w, const struct history_row *row, size_t column,
			float ret[HISTORY_SLOTS])
{
	struct history_slot slots[HISTORY_SLOTS];
	size_t nr = history_slots(&w->history, slots);

	for (size_t i = 0; i < nr; i++)
		ret[i] = history_point(&w->history, row, column, &slots[i]);
	return nr;
}

/* The first reading has nothing before it; later ones give what the totals rose by, and a slot is a second at least. */
static void test_points(_unused_ void **state)
{
	struct history_world *w = history_world_new(MEMORY);
	struct totals_row *row = add_target(w, "/a", false);
	float points[HISTORY_SLOTS];

	row->cells[0].total = 1000;
	take(w);
	assert_int_equal(points_of(w, find_row(w, "-1/a"), 0, points), 0);
	for (uint64_t i = 1; i <= 3; i++) {
		pass(w, SECOND);
		row->cells[0].total += 10 * i;
		take(w);
	}
	/* Too early for another slot. */
	pass(w, SECOND / 2);
	row->cells[0].total += 1;
	take(w);
	assert_int_equal(points_of(w, find_row(w, "-1/a"), 0, points), 3);
	assert_true(points[0] == 10 && points[1] == 20 && points[2] == 30);
	pass(w, SECOND / 2);
	take(w);
	assert_int_equal(points_of(w, find_row(w, "-1/a"), 0, points), 4);
	assert_true(points[3] == 1);
	row->cells[0].measured = false;
	pass(w, SECOND);
	take(w);
	assert_int_equal(points_of(w, find_row(w, "-1/a"), 0, points), 5);
	assert_true(isnan(points[4]) && points[3] == 1);
	history_world_free(w);
}

/* What is not to be believed is not known, and nothing of it is added later. */
static void test_doubts(_unused_ void **state)
{
	struct history_world *w = history_world_new(MEMORY);
	struct totals_row *row = add_target(w, "/a", false);
	float points[HISTORY_SLOTS];

	for (int i = 0; i < 4; i++) {
		take(w);
		pass(w, SECOND);
		w->stalls = i == 1;
		row->cells[0].total += 10;
		row->cells[1].total += 10;
	}
	assert_int_equal(points_of(w, find_row(w, "-1/a"), 0, points), 3);
	assert_true(points[0] == 10 && isnan(points[1]) && points[2] == 10);
	assert_int_equal(points_of(w, find_row(w, "-1/a"), 1, points), 3);
	assert_true(points[0] == 10 && points[1] == 10 && points[2] == 10);
	history_world_free(w);
}

/* An hour and more: each moment is in one slot, and nothing that was counted is missing. */
static void test_slots(_unused_ void **state)
{
	struct history_world *w = history_world_new(MEMORY);
	struct totals_row *row = add_target(w, "/a", false);
	struct history_slot slots[HISTORY_SLOTS];
	float points[HISTORY_SLOTS];
	uint64_t all = 0;
	double sum = 0;
	size_t nr;

	for (unsigned i = 0; i <= 4000; i++) {
		take(w);
		pass(w, SECOND + (i % 7) * 1000000);
		row->cells[0].total += i % 100;
	}
	nr = history_slots(&w->history, slots);
	assert_in_range(nr, HISTORY_FINE + HISTORY_COARSE - 10, HISTORY_SLOTS);
	assert_int_equal(points_of(w, find_row(w, "-1/a"), 0, points), nr);
	for (size_t i = 0; i < nr; i++) {
		if (i)
			assert_int_equal(slots[i].end.realtime - slots[i].length, slots[i - 1].end.realtime);
		assert_false(isnan(points[i]));
		sum += points[i];
		all += slots[i].length;
	}
	assert_in_range(all / SECOND, 3580, 3700);
	assert_int_equal(slots[nr - 1].end.realtime, w->clocks.realtime - SECOND - 4000 % 7 * 1000000);
	assert_in_range(slots[0].length / SECOND, 14, 16);
	assert_int_equal(slots[nr - 1].length / SECOND, 1);
	/* 49.5 in a second, more or less. */
	assert_in_range((uint64_t)sum, 3500 * 49, 3700 * 50);
	history_world_free(w);
}

/* While the machine sleeps nothing is counted: a gap between two slots. */
static void test_suspend(_unused_ void **state)
{
	struct history_world *w = history_world_new(MEMORY);
	struct history_slot slots[HISTORY_SLOTS];

	(void)add_target(w, "/a", false);
	for (int i = 0; i < 3; i++) {
		take(w);
		pass(w, SECOND);
	}
	w->clocks.boottime += 600 * SECOND;
	w->clocks.realtime += 600 * SECOND;
	take(w);
	assert_int_equal(history_slots(&w->history, slots), 3);
	assert_int_equal(slots[2].end.realtime, w->clocks.realtime);
	assert_int_equal(slots[2].length, SECOND);
	assert_int_equal(slots[2].end.realtime - slots[1].end.realtime, 601 * SECOND);
	history_world_free(w);
}

/* A new target has all that it ever counted. One that is gone keeps its past, and goes an hour later; meanwhile the
 * same label can begin anew. */
static void test_targets_come_and_go(_unused_ void **state)
{
	struct history_world *w = history_world_new(MEMORY);
	struct totals_row *row;
	float points[HISTORY_SLOTS];

	(void)add_target(w, NULL, false);
	take(w);
	row = add_target(w, "/a", true);
	row->cells[0].total = 500;
	pass(w, SECOND);
	take(w);
	assert_int_equal(points_of(w, find_row(w, "-1/a"), 0, points), 1);
	assert_true(points[0] == 500);

	totals_drop(w->totals, row);
	pass(w, SECOND);
	take(w);
	assert_int_equal(points_of(w, find_row(w, "-1/a"), 0, points), 2);
	assert_true(points[0] == 500 && isnan(points[1]));
	assert_true(find_row(w, "-1/a")->gone);

	row = add_target(w, "/a", true);
	row->cells[0].total = 800;
	pass(w, SECOND);
	take(w);
	assert_int_equal(points_of(w, find_row(w, "-1/a"), 0, points), 3);
	assert_true(points[0] == 500 && isnan(points[1]) && points[2] == 800);
	assert_int_equal(w->history.nr_rows, 2);

	totals_drop(w->totals, row);
	for (int i = 0; i < 3700; i++) {
		pass(w, SECOND);
		take(w);
		if (i == 3500)
			assert_non_null(find_row(w, "-1/a"));
	}
	assert_null(find_row(w, "-1/a"));
	assert_int_equal(w->history.nr_rows, 1);
	history_world_free(w);
}

/* A wall clock that is set makes no total a rate, and hides nothing of a target that is new. */
static void test_clock_that_is_set(_unused_ void **state)
{
	static const int64_t steps[] = { -7200, 7200, -5, 5, -20 * 365 * 86400, 20 * 365 * 86400 };

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct history_world *w = history_world_new(MEMORY);
		struct totals_row *old = add_target(w, "/old", false), *new;
		float points[HISTORY_SLOTS];

		old->since = w->clocks.realtime;
		old->cells[0].total = 1000;
		take(w);
		w->clocks.realtime += (uint64_t)(steps[i] * (int64_t)SECOND);
		new = add_target(w, "/new", true);
		new->since = w->clocks.realtime;
		new->cells[0].total = 500;
		for (int k = 0; k < 2; k++) {
			pass(w, SECOND);
			old->cells[0].total += 10;
			take(w);
		}
		assert_int_equal(points_of(w, find_row(w, "-1/old"), 0, points), 2);
		assert_true(points[0] == 10 && points[1] == 10);
		assert_int_equal(points_of(w, find_row(w, "-1/new"), 0, points), 2);
		assert_true(points[0] == 500 && points[1] == 0);
		history_world_free(w);
	}
}

/* Held and excluded targets are not shown, and have no past. */
static void test_not_shown(_unused_ void **state)
{
	struct history_world *w = history_world_new(MEMORY);

	add_target(w, "/a", false)->suspended = true;
	add_target(w, NULL, false)->excluded = true;
	take(w);
	assert_int_equal(w->history.nr_rows, 0);
	history_world_free(w);
}

/* Points of events that both plans have stay. */
static void test_another_plan(_unused_ void **state)
{
	static const struct made_event others[] = {
		{ SCOPE_CGROUP, "b", .text = "page-faults", .set = 0 },
		{ SCOPE_CGROUP, "b", .text = "cycles", .set = 0 },
		{},
	};
	struct history_world *w = history_world_new(MEMORY);
	struct totals_row *row = add_target(w, "/a", false);
	float points[HISTORY_SLOTS];
	uint64_t size;

	(void)add_target(w, NULL, false);
	take(w);
	pass(w, SECOND);
	row->cells[0].total = 40;
	take(w);
	size = history_size(&w->history);

	totals_free(w->totals);
	plan_unref(w->plan);
	w->plan = plan_of(others);
	assert_int_equal(totals_new(&w->totals, w->plan, 10), 0);
	row = add_target(w, "/a", false);
	row->cells[1].total = 42;
	pass(w, SECOND);
	take(w);
	assert_int_equal(points_of(w, find_row(w, "-1/a"), 1, points), 2);
	assert_true(points[0] == 40 && points[1] == 2);
	assert_int_equal(points_of(w, find_row(w, "-1/a"), 0, points), 2);
	assert_true(isnan(points[0]) && isnan(points[1]));
	/* The CPU has no columns any more. */
	assert_true(history_size(&w->history) < size);
	history_world_free(w);
}

/* What is gone makes room; then new ones are left out, until there is room again. */
static void test_memory(_unused_ void **state)
{
	const uint64_t memory = 10000;
	struct history_world *w = history_world_new(memory);
	struct totals_row *rows[4];
	char path[16];

	for (int i = 0; i < 4; i++) {
		(void)snprintf(path, sizeof(path), "/%d", i);
		rows[i] = add_target(w, path, false);
	}
	take(w);
	assert_int_equal(w->history.nr_rows, 3);
	assert_int_equal(w->history.left_out, 1);
	assert_true(history_size(&w->history) <= memory);
	assert_null(find_row(w, "-1/3"));

	/* It is gone for the history with the reading after that. */
	totals_drop(w->totals, rows[1]);
	pass(w, SECOND);
	take(w);
	assert_int_equal(w->history.left_out, 1);
	pass(w, SECOND);
	take(w);
	assert_int_equal(w->history.left_out, 0);
	assert_non_null(find_row(w, "-1/3"));
	assert_null(find_row(w, "-1/1"));

	history_set_max_size(&w->history, 4000);
	assert_int_equal(w->history.nr_rows, 1);
	assert_non_null(find_row(w, "-1/0"));
	history_set_max_size(&w->history, 0);
	assert_int_equal(w->history.nr_rows, 0);
	assert_int_equal(history_size(&w->history), 0);
	pass(w, SECOND);
	take(w);
	assert_int_equal(w->history.nr_rows, 0);
	history_set_max_size(&w->history, MEMORY);
	take(w);
	assert_int_equal(w->history.nr_rows, 3);
	history_world_free(w);
}

/* The bound is true: what the size leaves out of the memory of its rows is nothing, and what it adds is little. All
 * cgroups are gone, and have long names: nobody else has their identities. */
static void test_true_size(_unused_ void **state)
{
	struct history_world *w = history_world_new(MEMORY);
	struct totals_row *rows[100];
	size_t before, heap, nr;
	uint64_t size;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char path[256];

		(void)snprintf(path, sizeof(path),
			       "/kubepods.slice/kubepods-burstable.slice/"
			       "kubepods-burstable-pod0c5a3a6e_3f0e_4e5c_9d0a_%012zu.slice/cri-containerd-"
			       "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope",
			       i);
		rows[i] = add_target(w, path, false);
	}
	take(w);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		totals_drop(w->totals, rows[i]);
	pass(w, SECOND);
	take(w);
	nr = w->history.nr_rows;
	assert_int_equal(nr, ARRAY_SIZE(rows));

	size = history_size(&w->history);
	heap = w->history.heap_size;
	before = mallinfo2().uordblks;
	assert_int_equal(size, heap + nr * 2 * POOL_BLOCK_SIZE);
	history_set_max_size(&w->history, 0);
	assert_null(w->history.pool.base);
	/* A sanitizer's malloc doesn't tell. */
	if (before)
		assert_in_range(before - mallinfo2().uordblks, heap * 9 / 10, heap);
	history_world_free(w);
}

/* Plans of few and of many events, one after the other, while cgroups come and go: the bound holds, and those that are
 * there go on. */
static void test_bound_over_plans(_unused_ void **state)
{
	const uint64_t memory = 40000;
	struct made_event events[6] = {};
	struct history_world *w = history_world_new(memory);
	static const char *const names[] = { "cycles", "e1", "e2", "e3", "e4" };

	for (size_t i = 0; i < 40; i++) {
		size_t nr = 1 + i * 7 % ARRAY_SIZE(names);
		char path[32];

		for (size_t k = 0; k <= nr; k++)
			events[k] = (struct made_event){
				.scope = SCOPE_CGROUP, .group = "a", .text = k < nr ? names[k] : NULL, .set = 0
			};
		totals_free(w->totals);
		plan_unref(w->plan);
		w->plan = plan_of(events);
		assert_int_equal(totals_new(&w->totals, w->plan, 10), 0);
		(void)add_target(w, "/stays", false);
		for (size_t k = 0; k < 10; k++) {
			(void)snprintf(path, sizeof(path), "/%zu/%zu", i, k);
			(void)add_target(w, path, false);
		}
		for (int k = 0; k < 2; k++) {
			pass(w, SECOND);
			take(w);
			assert_in_range(history_size(&w->history), 1, memory);
		}
		assert_true(w->history.pool.top * POOL_BLOCK_SIZE <= memory);
	}
	{
		float points[HISTORY_SLOTS];
		size_t nr = points_of(w, find_row(w, "-1/stays"), 0, points), known = 0;

		/* The first point of a plan's totals is known as well, since the column goes on. */
		for (size_t i = 0; i < nr; i++)
			known += !isnan(points[i]);
		assert_int_equal(known, nr);
	}
	history_world_free(w);
}

/* --- targets that do not change */

#define TARGETS 4

/* The same is done to two worlds. In one of them all targets are said to change in each interval. */
struct two_worlds {
	struct history_world *w[2];
	struct totals_row *rows[2][TARGETS]; /* NULL: gone */
};

static void change_target(struct two_worlds *two, int target, int kind)
{
	char path[16];

	(void)snprintf(path, sizeof(path), "/%d", target);
	for (int k = 0; k < 2; k++) {
		struct totals_row **row = &two->rows[k][target];

		if (!*row || kind == 0) {
			if (*row)
				totals_drop(two->w[k]->totals, *row);
			*row = *row ? NULL : add_target(two->w[k], path, kind % 2);
			continue;
		}
		if (kind == 1)
			(*row)->suspended = !(*row)->suspended;
		else if (kind == 2)
			(*row)->cells[1].measured = !(*row)->cells[1].measured;
		else
			(*row)->cells[0].total += (uint64_t)kind;
		totals_note_change(*row);
	}
}

static void take_both(struct two_worlds *two, uint64_t ns)
{
	for (int k = 0; k < 2; k++) {
		struct totals_row *row;

		TAILQ_FOREACH(row, &two->w[k]->totals->rows[SCOPE_CGROUP], in_totals)
			if (k == 1)
				totals_note_change(row);
		two->w[k]->totals->ticks++;
		pass(two->w[k], ns);
		take(two->w[k]);
	}
}

static void assert_same_past(const struct two_worlds *two)
{
	const struct history_row *row;

	assert_int_equal(two->w[0]->history.nr_rows, two->w[1]->history.nr_rows);
	assert_int_equal(two->w[0]->history.left_out, two->w[1]->history.left_out);
	for (row = two->w[0]->history.by_target; row; row = row->by_target.next) {
		const struct history_row *other = find_row(two->w[1], row->target);

		assert_non_null(other);
		assert_int_equal(row->gone, other->gone);
		for (size_t column = 0; column < 2; column++) {
			float points[HISTORY_SLOTS], others[HISTORY_SLOTS];
			size_t nr = points_of(two->w[0], row, column, points);

			assert_int_equal(nr, points_of(two->w[1], other, column, others));
			assert_int_equal(row->cells[column].at, other->cells[column].at);
			for (size_t i = 0; i < nr; i++)
				if (points[i] != others[i] && !(isnan(points[i]) && isnan(others[i])))
					fail_msg("%s, column %zu, slot %zu of %zu: %g is not %g", row->target, column,
						 i, nr, (double)points[i], (double)others[i]);
		}
	}
}

static void use_another_plan(struct two_worlds *two)
{
	for (int k = 0; k < 2; k++) {
		struct history_world *w = two->w[k];

		totals_free(w->totals);
		plan_unref(w->plan);
		w->plan = plan_of(two_events);
		assert_int_equal(totals_new(&w->totals, w->plan, 10), 0);
		memset(two->rows[k], 0, sizeof(two->rows[k]));
	}
}

/* Points are the same whether a target is looked at in each interval or when it changes: of those that run seldom, come
 * and go, are held, have no room, and of events that stand still for a while. */
static void test_unchanged(_unused_ void **state)
{
	static const uint64_t memories[] = { MEMORY, 10000 };
	uint64_t random = 1, written = 0;

	for (size_t m = 0; m < ARRAY_SIZE(memories); m++) {
		struct two_worlds two = { .w = { history_world_new(memories[m]), history_world_new(memories[m]) } };

		for (unsigned i = 0; i < 60000; i++) {
			random = random * 6364136223846793005U + 1442695040888963407U;
			/* Busy times, and idle ones of up to two hours. */
			if ((random >> 33) % (i / 3000 % 2 ? 4 : 700) == 0)
				change_target(&two, (int)(random >> 40) % TARGETS,
					      (random >> 45) % 8 ? 3 + (int)(random >> 50) % 9 :
								   (int)(random >> 50) % 3);
			if ((random >> 20) % 1500 == 0)
				two.w[0]->stalls = two.w[1]->stalls = !two.w[0]->stalls;
			if ((random >> 10) % 7000 == 0)
				use_another_plan(&two);
			take_both(&two, i % 10 ? SECOND : SECOND / 3);
			for (int k = 0; k < TARGETS && two.rows[0][k]; k++)
				written += two.rows[0][k]->changed + 1 < two.w[0]->totals->ticks;
			if (i % 41 == 0)
				assert_same_past(&two);
		}
		history_world_free(two.w[0]);
		history_world_free(two.w[1]);
	}
	assert_true(written > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_points),
		cmocka_unit_test(test_doubts),
		cmocka_unit_test(test_slots),
		cmocka_unit_test(test_suspend),
		cmocka_unit_test(test_targets_come_and_go),
		cmocka_unit_test(test_clock_that_is_set),
		cmocka_unit_test(test_not_shown),
		cmocka_unit_test(test_another_plan),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_true_size),
		cmocka_unit_test(test_bound_over_plans),
		cmocka_unit_test(test_unchanged),
	};

	return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
