/* SPDX-License-Identifier: MIT */

/* The past as JSON and as OpenMetrics. */

#include "counting/totals/tick.h"
#include "setup/history-world.h"
#include "web/expose/past-text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct snapshot plain = {}, summed = { .options.aggregate = true };

/* Copied in steps that are as small as can be. */
static int expose_past(struct buf *out, const struct history *history, const struct snapshot *snapshot,
		       const struct expose_query *query, enum past_kind kind)
{
	_cleanup_(past_freep) struct past *past = NULL;
	int r = past_new(&past, history, snapshot, query, kind);

	if (r == 0)
		do
			r = past_step(past, 0);
		while (r > 0);
	if (r == 0)
		r = (kind == PAST_RATES ? past_text_json : past_text_openmetrics)(out, past);
	return r;
}

static int expose_past_json(struct buf *out, const struct history *history, const struct snapshot *snapshot,
			    const struct expose_query *query)
{
	return expose_past(out, history, snapshot, query, PAST_RATES);
}

static int expose_past_openmetrics(struct buf *out, const struct history *history, const struct snapshot *snapshot,
				   const struct expose_query *query)
{
	return expose_past(out, history, snapshot, query, PAST_TOTALS);
}

static struct history_world *small_past(void)
{
	struct history_world *w = history_world_new(MEMORY);
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
	struct history_world *w = small_past();
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
	history_world_free(w);
}

/* A text that is written in pieces, and fails at one. */
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
	struct history_world *w = history_world_new(10 * MEMORY);
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
	assert_int_equal(past_text_write(&w->history, &plain, take_piece, &pieces), 0);
	assert_in_range(pieces.nr, 3, 20);
	assert_int_equal(pieces.text.len, whole.len);
	assert_memory_equal(pieces.text.data, whole.data, whole.len);
	assert_int_equal(past_text_write(&w->history, &plain, take_piece, &failing), -ENOSPC);
	assert_int_equal(failing.nr, 2);
	buf_release(&pieces.text);
	buf_release(&failing.text);
	history_world_free(w);
}

/* A world whose plan is that of the snapshot. */
static struct history_world *history_world_of(const struct snapshot *snapshot)
{
	struct history_world *w = history_world_new(MEMORY);

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
	struct history_world *w = history_world_of(snapshot);
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
	history_world_free(w);
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
	struct history_world *w = history_world_of(snapshot);
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
	history_world_free(w);
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
		{ { MOMENT_SINCE_EPOCH, NOW + 3 * SECOND }, {}, "[1700000005]" },
		{ {}, { MOMENT_SINCE_EPOCH, NOW + 3 * SECOND }, "[1700000002,1700000004,1700000003]" },
		{ { MOMENT_AGO, 5 * SECOND }, {}, "[1700000004,1700000003,1700000005]" },
		{ { MOMENT_SINCE_EPOCH, NOW + 9 * SECOND }, {}, "[]" },
		{ { MOMENT_SINCE_EPOCH, NOW },
		  { MOMENT_SINCE_EPOCH, NOW + 9 * SECOND },
		  "[1700000002,1700000004,1700000003,1700000005]" },
	};
	struct history_world *w = history_world_new(MEMORY);
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
	assert_non_null(strstr(text.data, "# TYPE perf_cgroup_cycles counter\n" HELP_CYCLES
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
	history_world_free(w);
}

static void test_json(_unused_ void **state)
{
	static const char expected[] =
		"{\"timestamp\":1700000006,\"times\":[1700000002,1700000004,1700000006],\"seconds\":[2,2,2],"
		"\"cpus\":[{\"cpu\":0,\"events\":{\"cycles\":[null,null,0]}}],"
		"\"cgroups\":[{\"cgroup\":\"/a \\\"b\",\"id\":7,\"events\":{\"cycles\":[5,10,15],"
		"\"task_clock\":[0.5,0.5,0.5]}}]}\n";
	struct history_world *w = small_past();
	_cleanup_(buf_release) struct buf out = {}, sums = {};
	struct expose_query query = {};

	assert_int_equal(expose_past_json(&out, &w->history, &plain, &query), 0);
	buf_char(&out, '\0');
	assert_string_equal(out.data, expected);
	query.without[SCOPE_CGROUP] = true;
	assert_int_equal(expose_past_json(&sums, &w->history, &summed, &query), 0);
	buf_char(&sums, '\0');
	assert_non_null(strstr(sums.data, "\"cpus\":[{\"events\":{\"cycles\":[null,null,0]}}],\"cgroups\":[]}"));
	history_world_free(w);
}

/* Each slot is of one of the stretches into which the past is cut, also where they are cut at the end of a slot. */
static void test_neighbours(_unused_ void **state)
{
	struct history_world *w = small_past();

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
	history_world_free(w);
}

/* In a second a CPU is not counted for a part of it: JSON has no rates of that second, nor of the quarter of a minute
 * with it when that is all there is, and the totals go on. */
static void test_gap(_unused_ void **state)
{
	struct history_world *w = history_world_new(MEMORY);
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
	history_world_free(w);
}

/* Nothing was read yet; and more than an answer may have. */
static void test_json_bounds(_unused_ void **state)
{
	struct history_world *w = history_world_new(100 * MEMORY);
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
	history_world_free(w);
}

/* A reading comes between two steps: the copy begins anew, and is of that reading, as a whole. */
static void test_a_reading_between_two_steps(_unused_ void **state)
{
	struct history_world *w = small_past();
	_cleanup_(past_freep) struct past *past = NULL, *other = NULL;
	_cleanup_(buf_release) struct buf out = {}, whole = {};
	const struct expose_query query = {};
	int r;

	assert_int_equal(past_new(&past, &w->history, &plain, &query, PAST_RATES), 0);
	for (int i = 0; i < 9; i++)
		assert_int_equal(past_step(past, 0), 1);
	pass(w, 2 * SECOND);
	take(w);
	do
		r = past_step(past, 0);
	while (r > 0);
	assert_int_equal(r, 0);
	assert_int_equal(expose_past_json(&whole, &w->history, &plain, &query), 0);
	/* Now it is a copy. */
	pass(w, 2 * SECOND);
	take(w);
	assert_int_equal(past_step(past, 0), 0);
	assert_int_equal(past_text_json(&out, past), 0);
	assert_int_equal(out.len, whole.len);
	assert_memory_equal(out.data, whole.data, whole.len);
	/* Not for ever. */
	assert_int_equal(past_new(&other, &w->history, &plain, &query, PAST_TOTALS), 0);
	for (int i = 0; (r = past_step(other, 0)) > 0 && i < 100; i++)
		take(w);
	assert_int_equal(r, -ESTALE);
	history_world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_openmetrics),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_families_are_those_of_metrics),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_clock_was_set_back),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_neighbours),
		cmocka_unit_test(test_gap),
		cmocka_unit_test(test_json_bounds),
		cmocka_unit_test(test_a_reading_between_two_steps),
	};

	return cmocka_run_group_tests_name("past", tests, NULL, NULL);
}
