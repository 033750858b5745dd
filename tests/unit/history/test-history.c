/* SPDX-License-Identifier: MIT */

/* The past of made totals: slots, targets that come and go, plans that change, and the bound of memory. */

#include "expose/past.h"
#include "history/history.h"
#include "setup/made-snapshot.h"
#include "totals/tick.h"
#include "util/clock.h"

#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND ((uint64_t)NS_PER_S)
/* The epoch of these tests. */
#define NOW (1700000000 * SECOND)
#define MEMORY (1024 * 1024)

struct world {
	struct plan *plan;
	struct totals *totals;
	struct history history;
	struct clock_times clocks;
	struct clock_steps steps; /* of the clocks, up to the last reading */
	bool stalls;		  /* the cgroups' first column */
};

static struct plan *plan_of(const struct made_event *events)
{
	struct snapshot *snapshot = made_snapshot(events);
	struct plan *plan = plan_ref(snapshot->plan);

	snapshot_unref(snapshot);
	return plan;
}

static const struct made_event two_events[] = {
	{ SCOPE_CPU, "a", .text = "cycles", .set = 0 },
	{ SCOPE_CGROUP, "a", .text = "cycles", .set = 0 },
	{ SCOPE_CGROUP, "a", .text = "task-clock", .set = 0, .scale = 1e-9, .unit = EVENT_UNIT_SECONDS },
	{},
};

static struct world *world_new(uint64_t memory)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->plan = plan_of(two_events);
	assert_int_equal(totals_new(&w->totals, w->plan, 10), 0);
	history_init(&w->history, &w->steps, memory);
	w->clocks = (struct clock_times){ 100 * SECOND, 200 * SECOND, NOW };
	return w;
}

static void world_free(struct world *w)
{
	history_release(&w->history);
	totals_free(w->totals);
	plan_unref(w->plan);
	free(w);
}

static void pass(struct world *w, uint64_t ns)
{
	w->clocks.monotonic += ns;
	w->clocks.boottime += ns;
	w->clocks.realtime += ns;
}

static bool is_doubtful(const void *userdata, enum scope scope, size_t column)
{
	const struct world *w = userdata;

	return w->stalls && scope == SCOPE_CGROUP && column == 0;
}

static void take(struct world *w)
{
	clock_steps_note(&w->steps, &w->clocks);
	history_take(&w->history, w->totals, &w->clocks, is_doubtful, w);
}

/* A target that began before the history, or since its last reading; NULL: CPU 0. */
static struct totals_row *add_target(struct world *w, const char *path, bool anew)
{
	_cleanup_(cgroup_identity_unrefp) struct cgroup_identity *identity = NULL;
	struct totals_row *row;

	if (path)
		assert_int_equal(cgroup_identity_new(&identity, 7, path), 0);
	assert_int_equal(
		totals_take(w->totals, path ? SCOPE_CGROUP : SCOPE_CPU, path ? ROW_ALL_CPUS : 0, identity, &row), 0);
	row->began = anew ? w->clocks.monotonic : 1;
	for (size_t i = 0; i < w->plan->scope[row->scope].nr_columns; i++)
		row->cells[i].measured = true;
	return row;
}

static const struct history_row *find_row(const struct world *w, const char *target)
{
	const struct history_row *row;

	HASH_FIND(by_target, w->history.by_target, target, strlen(target), row);
	return row;
}

/* The points of a column, from the oldest slot on; the number of slots. */
static size_t points_of(const struct world *w, const struct history_row *row, size_t column, float ret[HISTORY_SLOTS])
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
	struct world *w = world_new(MEMORY);
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
	world_free(w);
}

/* What is not to be believed is not known, and nothing of it is added later. */
static void test_doubts(_unused_ void **state)
{
	struct world *w = world_new(MEMORY);
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
	world_free(w);
}

/* An hour and more: each moment is in one slot, and nothing that was counted is missing. */
static void test_slots(_unused_ void **state)
{
	struct world *w = world_new(MEMORY);
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
	world_free(w);
}

/* While the machine sleeps nothing is counted: a gap between two slots. */
static void test_suspend(_unused_ void **state)
{
	struct world *w = world_new(MEMORY);
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
	world_free(w);
}

/* A new target has all that it ever counted. One that is gone keeps its past, and goes an hour later; meanwhile the
 * same label can begin anew. */
static void test_targets_come_and_go(_unused_ void **state)
{
	struct world *w = world_new(MEMORY);
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
	assert_true(find_row(w, "-1/a")->seen != w->history.takes);

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
	world_free(w);
}

/* A wall clock that is set makes no total a rate, and hides nothing of a target that is new. */
static void test_clock_that_is_set(_unused_ void **state)
{
	static const int64_t steps[] = { -7200, 7200, -5, 5, -20 * 365 * 86400, 20 * 365 * 86400 };

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct world *w = world_new(MEMORY);
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
		world_free(w);
	}
}

/* Held and excluded targets are not shown, and have no past. */
static void test_not_shown(_unused_ void **state)
{
	struct world *w = world_new(MEMORY);

	add_target(w, "/a", false)->held = true;
	add_target(w, NULL, false)->excluded = true;
	take(w);
	assert_int_equal(w->history.nr_rows, 0);
	world_free(w);
}

/* Points of events that both plans have stay. */
static void test_another_plan(_unused_ void **state)
{
	static const struct made_event others[] = {
		{ SCOPE_CGROUP, "b", .text = "page-faults", .set = 0 },
		{ SCOPE_CGROUP, "b", .text = "cycles", .set = 0 },
		{},
	};
	struct world *w = world_new(MEMORY);
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
	world_free(w);
}

/* What is gone makes room; then new ones are left out, until there is room again. */
static void test_memory(_unused_ void **state)
{
	const uint64_t memory = 10000;
	struct world *w = world_new(memory);
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
	world_free(w);
}

/* The bound is true: what the size leaves out of the memory of its rows is nothing, and what it adds is little. All
 * cgroups are gone, and have long names: nobody else has their identities. */
static void test_true_size(_unused_ void **state)
{
	struct world *w = world_new(MEMORY);
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
	world_free(w);
}

/* Plans of few and of many events, one after the other, while cgroups come and go: the bound holds, and those that are
 * there go on. */
static void test_bound_over_plans(_unused_ void **state)
{
	const uint64_t memory = 40000;
	struct made_event events[6] = {};
	struct world *w = world_new(memory);
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
	world_free(w);
}

/* --- as text */

static const struct snapshot plain = {}, summed = { .options.aggregate = true };

static struct world *small_past(void)
{
	struct world *w = world_new(MEMORY);
	struct totals_row *row = add_target(w, "/a \"b", false), *cpu = add_target(w, NULL, false);

	row->cells[0].total = 100;
	take(w);
	for (uint64_t i = 1; i <= 3; i++) {
		pass(w, 2 * SECOND);
		row->cells[0].total += 10 * i;
		row->cells[1].total += SECOND;
		cpu->cells[0].measured = i > 2;
		take(w);
	}
	return w;
}

#define WHERE ", counted while tasks of the cgroup or of one below it ran (in /, the idle tasks too).\n"
#define HELP_CYCLES "# HELP perf_cgroup_cycles Event cycles of group a" WHERE
#define HELP_CLOCK "# HELP perf_cgroup_task_clock_seconds Event task-clock of group a, in seconds" WHERE

static void test_openmetrics(_unused_ void **state)
{
	static const char expected[] = "# TYPE perf_cgroup_cycles counter\n" HELP_CYCLES
				       "perf_cgroup_cycles_total{cgroup=\"/a \\\"b\"} 100 1700000000\n"
				       "perf_cgroup_cycles_total{cgroup=\"/a \\\"b\"} 110 1700000002\n"
				       "perf_cgroup_cycles_total{cgroup=\"/a \\\"b\"} 130 1700000004\n"
				       "perf_cgroup_cycles_total{cgroup=\"/a \\\"b\"} 160 1700000006\n"
				       "# TYPE perf_cgroup_task_clock_seconds counter\n"
				       "# UNIT perf_cgroup_task_clock_seconds seconds\n" HELP_CLOCK
				       "perf_cgroup_task_clock_seconds_total{cgroup=\"/a \\\"b\"} 0 1700000000\n"
				       "perf_cgroup_task_clock_seconds_total{cgroup=\"/a \\\"b\"} 1 1700000002\n"
				       "perf_cgroup_task_clock_seconds_total{cgroup=\"/a \\\"b\"} 2 1700000004\n"
				       "perf_cgroup_task_clock_seconds_total{cgroup=\"/a \\\"b\"} 3 1700000006\n"
				       "# EOF\n";
	struct world *w = small_past();
	_cleanup_(buf_release) struct buf out = {}, part = {};
	struct expose_query query = { .without = { [SCOPE_CPU] = true } };

	assert_int_equal(expose_past_openmetrics(&out, &w->history, &plain, &query), 0);
	buf_char(&out, '\0');
	assert_string_equal(out.data, expected);
	query.event = "cycles";
	query.from = (struct moment){ MOMENT_SINCE_EPOCH, 1700000003 * (uint64_t)NS_PER_S };
	query.to = (struct moment){ MOMENT_AGO, NS_PER_S };
	assert_int_equal(expose_past_openmetrics(&part, &w->history, &plain, &query), 0);
	buf_char(&part, '\0');
	assert_string_equal(part.data, "# TYPE perf_cgroup_cycles counter\n" HELP_CYCLES
				       "perf_cgroup_cycles_total{cgroup=\"/a \\\"b\"} 110 1700000002\n"
				       "perf_cgroup_cycles_total{cgroup=\"/a \\\"b\"} 130 1700000004\n"
				       "# EOF\n");
	world_free(w);
}

/* What was written in pieces, and when it fails. */
struct pieces {
	struct buf text;
	size_t nr, fails_at; /* pieces; 0: never */
};

static int take_piece(void *userdata, const char *data, size_t n)
{
	struct pieces *pieces = userdata;

	if (++pieces->nr == pieces->fails_at)
		return -ENOSPC;
	buf_add(&pieces->text, data, n);
	return 0;
}

/* The same text as in one piece; a failure is the last that is heard of it. */
static void test_pieces(_unused_ void **state)
{
	struct world *w = world_new(10 * MEMORY);
	_cleanup_(buf_release) struct buf whole = {};
	const struct expose_query everything = {};
	struct pieces pieces = {}, failing = { .fails_at = 2 };
	char path[16];

	for (int i = 0; i < 60; i++) {
		(void)snprintf(path, sizeof(path), "/%d", i);
		(void)add_target(w, path, false);
	}
	for (int i = 0; i < 60; i++) {
		take(w);
		pass(w, SECOND);
	}
	assert_int_equal(expose_past_openmetrics(&whole, &w->history, &plain, &everything), 0);
	assert_int_equal(expose_past_write(&w->history, &plain, take_piece, &pieces), 0);
	assert_in_range(pieces.nr, 3, 20);
	assert_int_equal(pieces.text.len, whole.len);
	assert_memory_equal(pieces.text.data, whole.data, whole.len);
	assert_int_equal(expose_past_write(&w->history, &plain, take_piece, &failing), -ENOSPC);
	assert_int_equal(failing.nr, 2);
	buf_release(&pieces.text);
	buf_release(&failing.text);
	world_free(w);
}

/* A world whose plan is that of the snapshot. */
static struct world *world_of(const struct snapshot *snapshot)
{
	struct world *w = world_new(MEMORY);

	totals_free(w->totals);
	plan_unref(w->plan);
	w->plan = plan_ref(snapshot->plan);
	assert_int_equal(totals_new(&w->totals, w->plan, 10), 0);
	return w;
}

/* A family begins with the same lines as in /metrics, whatever its event is called: no two may have samples of one
 * name, and on PMUs that differ in the unit an event has two. */
static void test_families_are_those_of_metrics(_unused_ void **state)
{
	static const struct made_event events[] = {
		{ SCOPE_CGROUP, "g", "a=x", .metric = "a" },
		{ SCOPE_CGROUP, "g", "b=x", .metric = "a_total" },
		{ SCOPE_CGROUP, "g", "c=x", .metric = "a_created" },
		{ SCOPE_CGROUP, "g", "d=x", .metric = "a_peak_per_second" },
		{ SCOPE_CGROUP, "g", "e=x", .metric = "info" },
		{ SCOPE_CGROUP, "g", "u=\"x\"", .metric = "u", .pmu = "p", .by_pmu = true },
		{ SCOPE_CGROUP, "g", "u=\"x\"", .metric = "u", .pmu = "q", .by_pmu = true },
		{ SCOPE_CGROUP, "g", "u=\"x\"", .metric = "u", .pmu = "r", .by_pmu = true, .unit = EVENT_UNIT_BYTES },
		{},
	};
	const struct expose_query query = { .without_self = true };
	struct snapshot *snapshot = made_snapshot(events);
	_cleanup_(buf_release) struct buf past = {}, metrics = {};
	struct world *w = world_of(snapshot);
	size_t families = 0;

	(void)made_row(snapshot, SCOPE_CGROUP, ROW_ALL_CPUS, "/a", 7);
	for (size_t i = 0; events[i].text; i++)
		made_cell(snapshot, SCOPE_CGROUP, 0, i, 0, 0);
	(void)add_target(w, "/a", false);
	take(w);
	pass(w, SECOND);
	take(w);
	assert_int_equal(expose_openmetrics(&metrics, snapshot, &query), 0);
	assert_int_equal(expose_past_openmetrics(&past, &w->history, snapshot, &query), 0);
	buf_char(&metrics, '\0');
	buf_char(&past, '\0');
	for (char *at = past.data, *line; (line = strsep(&at, "\n"));) {
		if (line[0] != '#')
			continue;
		families += strncmp(line, "# TYPE ", 7) == 0;
		if (!strstr(metrics.data, line))
			fail_msg("'%s' is not in:\n%s", line, metrics.data);
	}
	assert_int_equal(families, 7);
	world_free(w);
	snapshot_unref(snapshot);
}

/* Uncore events have the place of the CPU, as /metrics shows it, and others have not. */
static void test_places(_unused_ void **state)
{
	static const struct made_event events[] = {
		{ SCOPE_CPU, "u", .text = "reads", .pmu = "uncore_imc", .set = 0, .uncore = true },
		{ SCOPE_CPU, "u", .text = "cycles", .set = 1 },
		{},
	};
	struct snapshot *snapshot = made_snapshot(events);
	struct world *w = world_of(snapshot);
	_cleanup_(buf_release) struct buf out = {};
	struct expose_query query = {};
	size_t row = made_row(snapshot, SCOPE_CPU, 0, NULL, 0);

	snapshot->table[SCOPE_CPU].rows[row].place = (struct cpu_place){ .package = 1, .die = 2 };
	(void)add_target(w, NULL, false);
	take(w);
	pass(w, SECOND);
	take(w);
	assert_int_equal(expose_past_openmetrics(&out, &w->history, snapshot, &query), 0);
	buf_char(&out, '\0');
	assert_non_null(strstr(out.data, "perf_cpu_reads_total{cpu=\"0\",package=\"1\",die=\"2\"} 0 "));
	assert_non_null(strstr(out.data, "perf_cpu_cycles_total{cpu=\"0\"} 0 "));
	world_free(w);
	snapshot_unref(snapshot);
}

/* Two slots, then the clock is set back by 3 s, and two more, each of 2 s. JSON has all of them, with the wall times
 * that were shown then. A time that was shown twice is the later moment in a question, and in OpenMetrics, where times
 * only rise. */
static void test_clock_was_set_back(_unused_ void **state)
{
	static const struct {
		struct moment from, to;
		const char *times;
	} cases[] = {
		{ {}, {}, "[1700000002,1700000004,1700000003,1700000005]" },
		{ { MOMENT_SINCE_EPOCH, NOW + 3 * SECOND }, {}, "[1700000003,1700000005]" },
		{ {}, { MOMENT_SINCE_EPOCH, NOW + 3 * SECOND }, "[1700000002,1700000004,1700000003]" },
		{ { MOMENT_AGO, 5 * SECOND }, {}, "[1700000004,1700000003,1700000005]" },
		{ { MOMENT_SINCE_EPOCH, NOW + 9 * SECOND }, {}, "[]" },
		{ { MOMENT_SINCE_EPOCH, NOW },
		  { MOMENT_SINCE_EPOCH, NOW + 9 * SECOND },
		  "[1700000002,1700000004,1700000003,1700000005]" },
	};
	struct world *w = world_new(MEMORY);
	struct totals_row *row = add_target(w, "/a", false);
	_cleanup_(buf_release) struct buf text = {};
	struct expose_query query = {};

	row->cells[0].total = 100;
	for (unsigned i = 0; i < 5; i++) {
		take(w);
		pass(w, 2 * SECOND);
		w->clocks.realtime -= i == 2 ? 3 * SECOND : 0;
		row->cells[0].total += 1U << i;
		row->cells[1].measured = false;
	}
	assert_int_equal(expose_past_openmetrics(&text, &w->history, &plain, &query), 0);
	buf_char(&text, '\0');
	assert_non_null(strstr(text.data, "# TYPE perf_cgroup_cycles counter\n"
					  "perf_cgroup_cycles_total{cgroup=\"/a\"} 103 1700000001\n"
					  "perf_cgroup_cycles_total{cgroup=\"/a\"} 107 1700000003\n"
					  "perf_cgroup_cycles_total{cgroup=\"/a\"} 115 1700000005\n#"));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(buf_release) struct buf out = {};

		query.from = cases[i].from;
		query.to = cases[i].to;
		assert_int_equal(expose_past_json(&out, &w->history, &plain, &query), 0);
		buf_char(&out, '\0');
		if (!strstr(out.data, cases[i].times))
			fail_msg("case %zu: no %s in %s", i, cases[i].times, out.data);
	}
	query.from = (struct moment){ MOMENT_SINCE_EPOCH, NOW + 5 * SECOND };
	query.to = (struct moment){ MOMENT_SINCE_EPOCH, NOW + 3 * SECOND };
	assert_int_equal(expose_past_json(&text, &w->history, &plain, &query), -EINVAL);
	world_free(w);
}

static void test_json(_unused_ void **state)
{
	static const char expected[] =
		"{\"timestamp\":1700000006,\"times\":[1700000002,1700000004,1700000006],\"seconds\":[2,2,2],"
		"\"cpus\":[{\"cpu\":0,\"events\":{\"cycles\":[null,null,0]}}],"
		"\"cgroups\":[{\"cgroup\":\"/a \\\"b\",\"id\":7,\"events\":{\"cycles\":[5,10,15],"
		"\"task_clock\":[0.5,0.5,0.5]}}]}\n";
	struct world *w = small_past();
	_cleanup_(buf_release) struct buf out = {}, sums = {};
	struct expose_query query = {};

	assert_int_equal(expose_past_json(&out, &w->history, &plain, &query), 0);
	buf_char(&out, '\0');
	assert_string_equal(out.data, expected);
	query.without[SCOPE_CGROUP] = true;
	assert_int_equal(expose_past_json(&sums, &w->history, &summed, &query), 0);
	buf_char(&sums, '\0');
	assert_non_null(strstr(sums.data, "\"cpus\":[{\"events\":{\"cycles\":[null,null,0]}}],\"cgroups\":[]}"));
	world_free(w);
}

/* Each slot is of one of the stretches into which the past is cut, also where they are cut at the end of a slot. */
static void test_neighbours(_unused_ void **state)
{
	struct world *w = small_past();

	for (uint64_t length = 1; length < 8; length++) {
		size_t slots = 0;

		for (uint64_t from = 1700000000; from < 1700000006; from += length) {
			_cleanup_(buf_release) struct buf out = {};
			struct expose_query query = {
				.from = { MOMENT_SINCE_EPOCH, from * SECOND },
				.to = { MOMENT_SINCE_EPOCH, (from + length) * SECOND },
			};

			assert_int_equal(expose_past_json(&out, &w->history, &plain, &query), 0);
			buf_char(&out, '\0');
			for (const char *at = strstr(out.data, "seconds"); *at != ']'; at++)
				slots += *at == '2';
		}
		assert_int_equal(slots, 3);
	}
	world_free(w);
}

/* In a second a CPU is not counted for a part of it: JSON has no rates of that second, nor of the quarter of a minute
 * with it when that is all there is, and the totals go on. */
static void test_gap(_unused_ void **state)
{
	struct world *w = world_new(MEMORY);
	struct totals_row *row = add_target(w, "/a", false);
	_cleanup_(buf_release) struct buf json = {}, text = {};
	struct expose_query query = { .event = "cycles" };

	for (uint64_t i = 0; i < 80; i++) {
		if (i == 2 || i == 78)
			totals_note_gap(w->totals, 0);
		totals_tick(w->totals, w->clocks.monotonic);
		take(w);
		row->cells[0].total += 10;
		pass(w, SECOND);
	}
	assert_int_equal(expose_past_json(&json, &w->history, &plain, &query), 0);
	buf_char(&json, '\0');
	assert_non_null(strstr(json.data, "\"seconds\":[15,15,1,"));
	assert_non_null(strstr(json.data, "\"cycles\":[null,10,10,"));
	assert_non_null(strstr(json.data, ",10,10,null,10]"));
	assert_int_equal(expose_past_openmetrics(&text, &w->history, &plain, &query), 0);
	buf_char(&text, '\0');
	assert_non_null(strstr(text.data, "perf_cgroup_cycles_total{cgroup=\"/a\"} 0 1700000000\n"
					  "perf_cgroup_cycles_total{cgroup=\"/a\"} 150 1700000015\n"));
	assert_non_null(strstr(text.data, "perf_cgroup_cycles_total{cgroup=\"/a\"} 780 1700000078\n"
					  "perf_cgroup_cycles_total{cgroup=\"/a\"} 790 1700000079\n"));
	world_free(w);
}

/* Nothing was read yet; and more than an answer may have. */
static void test_json_bounds(_unused_ void **state)
{
	struct world *w = world_new(100 * MEMORY);
	_cleanup_(buf_release) struct buf out = {};
	struct expose_query query = {};
	char path[16];

	assert_int_equal(expose_past_json(&out, &w->history, &summed, &query), 0);
	buf_char(&out, '\0');
	assert_string_equal(out.data, "{\"timestamp\":0,\"times\":[],\"seconds\":[],\"cpus\":[],\"cgroups\":[]}\n");
	for (int i = 0; i < 2000; i++) {
		(void)snprintf(path, sizeof(path), "/%d", i);
		(void)add_target(w, path, false);
	}
	for (int i = 0; i < 60; i++) {
		take(w);
		pass(w, SECOND);
	}
	out.len = 0;
	assert_int_equal(expose_past_json(&out, &w->history, &plain, &query), -EOVERFLOW);
	query.cgroup = "/1*";
	assert_int_equal(expose_past_json(&out, &w->history, &plain, &query), 0);
	world_free(w);
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
		cmocka_unit_test(test_openmetrics),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_families_are_those_of_metrics),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_clock_was_set_back),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_neighbours),
		cmocka_unit_test(test_gap),
		cmocka_unit_test(test_json_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
