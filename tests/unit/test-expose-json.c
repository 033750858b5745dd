/* SPDX-License-Identifier: MIT */

/* The walk by target and the API's answers, read back with jansson. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "made-snapshot.h"

#include "expose/expose.h"

#include <errno.h>
#include <jansson.h>
#include <linux/capability.h>
#include <math.h>
#include <string.h>

static void json_free(json_t **json)
{
	json_decref(*json);
}

static json_t *parse(struct buf *b)
{
	json_error_t error;
	json_t *json;

	assert_int_equal(b->data[b->len - 1], '\n');
	assert_null(memchr(b->data, '\n', b->len - 1));
	json = json_loadb(b->data, b->len, JSON_REJECT_DUPLICATES, &error);
	if (!json)
		fail_msg("%s at %d in: %.*s", error.text, error.position, (int)b->len, b->data);
	buf_release(b);
	return json;
}

static json_t *snapshot_json(const struct snapshot *snapshot, const struct expose_query *query)
{
	struct buf b = {};

	assert_int_equal(expose_json_snapshot(&b, snapshot, query), 0);
	return parse(&b);
}

/* What stands at a path such as "cgroups.0.events.cycles.total"; NULL: nothing. */
static json_t *at(json_t *json, const char *path)
{
	_cleanup_(freep) char *copy = strdup(path);
	char *cursor = copy, *key;

	while (json && (key = strsep(&cursor, "."))) {
		if (json_is_array(json))
			json = json_array_get(json, (size_t)atoi(key));
		else
			json = json_object_get(json, key);
	}
	return json;
}

#define assert_number(json, path, expected)                                                        \
	do {                                                                                       \
		json_t *_found = at(json, path);                                                   \
		if (!json_is_number(_found) || json_number_value(_found) != (double)(expected))    \
			fail_msg("%s is %g", path, json_number_value(_found));                     \
	} while (0)

#define assert_text(json, path, expected)                                                          \
	do {                                                                                       \
		json_t *_found = at(json, path);                                                   \
		if (!json_is_string(_found))                                                       \
			fail_msg("%s is no string", path);                                         \
		assert_string_equal(json_string_value(_found), expected);                          \
	} while (0)

#define assert_null_at(json, path) assert_true(json_is_null(at(json, path)))
#define assert_absent(json, path) assert_null(at(json, path))
#define assert_size(json, path, expected) assert_int_equal(json_array_size(at(json, path)), expected)

/* --- the snapshot */

static const struct made_event usual_events[] = {
	{ SCOPE_CPU, "core", "cycles", .type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_CPU_CYCLES,
	  .state = EVENT_MULTIPLEXED },
	{ SCOPE_CPU, "core", "instructions", .type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_INSTRUCTIONS,
	  .state = EVENT_MULTIPLEXED },
	{ SCOPE_CPU, "core", "LLC-loads", .type = PERF_TYPE_HW_CACHE, .config = 2, .set = MADE_NO_SET,
	  .state = EVENT_UNSUPPORTED, .why = "not here" },
	{ SCOPE_CGROUP, "software", "context-switches", .pmu = "software", .type = PERF_TYPE_SOFTWARE,
	  .config = PERF_COUNT_SW_CONTEXT_SWITCHES },
	{ SCOPE_CGROUP, "software", "task-clock", .pmu = "software", .type = PERF_TYPE_SOFTWARE,
	  .config = PERF_COUNT_SW_TASK_CLOCK, .scale = 1e-9, .unit = EVENT_UNIT_SECONDS },
	{},
};

/* Cgroups /a /b /c /d/e: /b has the highest rate, /d/e is not measured, /c has no rate yet. */
static struct snapshot *usual_snapshot(void)
{
	struct snapshot *s = made_snapshot(usual_events);
	static const struct {
		const char *path;
		uint64_t total;
		double rate;
	} cgroups[] = { { "/a", 500, 1 }, { "/b", 20, 7.5 }, { "/c", 1000, NAN }, { "/d/e", 0, 0 } };

	for (int cpu = 0; cpu < 2; cpu++) {
		size_t row = made_row(s, SCOPE_CPU, cpu, NULL, 0);

		made_cell(s, SCOPE_CPU, row, 0, 1000, 400);
		made_cell(s, SCOPE_CPU, row, 1, 3000, 600 * (cpu + 1));
		made_times(s, SCOPE_CPU, row, 0, 2000000000, 1000000000, 0.25 * (cpu + 1));
	}
	for (size_t i = 0; i < ARRAY_SIZE(cgroups); i++) {
		size_t row = made_row(s, SCOPE_CGROUP, ROW_ALL_CPUS, cgroups[i].path, 10 + i);

		if (i == 3)
			continue;
		made_cell(s, SCOPE_CGROUP, row, 0, cgroups[i].total, cgroups[i].rate);
		made_cell(s, SCOPE_CGROUP, row, 1, 1500000000, i == 2 ? NAN : 5e8);
		made_times(s, SCOPE_CGROUP, row, 0, 1000, 1000, 1);
	}
	return s;
}

static void test_values(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	const struct expose_query query = { .now = 5250000000 };
	_cleanup_(json_free) json_t *json = snapshot_json(s, &query);

	(void)state;
	assert_number(json, "timestamp", 1700000000.123);
	assert_number(json, "age_seconds", 0.25);
	assert_number(json, "interval_seconds", 1);
	assert_number(json, "matched.cpus", 2);
	assert_number(json, "shown.cgroups", 4);

	assert_number(json, "cpus.1.cpu", 1);
	assert_number(json, "cpus.1.events.cycles.total", 1000);
	assert_true(json_is_integer(at(json, "cpus.1.events.cycles.total")));
	assert_number(json, "cpus.1.events.cycles.rate", 400);
	assert_number(json, "cpus.1.events.cycles.running", 0.5);
	assert_text(json, "cpus.1.events.cycles.state", "multiplexed");
	assert_absent(json, "cpus.1.events.cycles.unit");
	assert_absent(json, "cpus.1.events.llc_loads");

	assert_text(json, "cgroups.0.cgroup", "/a");
	assert_number(json, "cgroups.0.id", 10);
	assert_absent(json, "cgroups.0.cpu");
	assert_absent(json, "cgroups.0.gone");
	assert_number(json, "cgroups.0.events.task_clock.total", 1.5);
	assert_number(json, "cgroups.0.events.task_clock.rate", 0.5);
	assert_text(json, "cgroups.0.events.task_clock.unit", "seconds");
	assert_null_at(json, "cgroups.2.events.context_switches.rate");
	assert_int_equal(json_object_size(at(json, "cgroups.3.events")), 0);
	assert_int_equal(json_object_size(at(json, "cgroups.3.derived")), 0);
}

static void test_age_is_left_out(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(json_free) json_t *json = snapshot_json(s, &(struct expose_query){});
	/* A clock that has not moved since, or was read before. */
	_cleanup_(json_free) json_t *early = snapshot_json(s, &(struct expose_query){ .now = 1 });

	(void)state;
	assert_absent(json, "age_seconds");
	assert_number(early, "age_seconds", 0);
}

static void test_nasty_values(void **state)
{
	static const struct made_event events[] = {
		{ SCOPE_CGROUP, "g", "x", .metric = "x" },
		{ SCOPE_CGROUP, "g", "huge", .metric = "huge", .scale = 1e300 },
		{ SCOPE_CGROUP, "g", "y", .metric = "y", .pmu = "p\"u", .by_pmu = true },
		{},
	};
	static const char path[] = "/quote\"back\\slash\nline\ttab\x01" "caf\xc3\xa9\xff";
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(events);
	_cleanup_(json_free) json_t *json = NULL;
	struct buf b = {};

	(void)state;
	made_row(s, SCOPE_CGROUP, 3, path, 1);
	s->table[SCOPE_CGROUP].rows[0].gone = true;
	made_cell(s, SCOPE_CGROUP, 0, 0, UINT64_MAX, INFINITY);
	made_cell(s, SCOPE_CGROUP, 0, 1, UINT64_MAX, 1e300);
	made_cell(s, SCOPE_CGROUP, 0, 2, 1, NAN);

	assert_int_equal(expose_json_snapshot(&b, s, &(struct expose_query){}), 0);
	/* jansson's integers end at 2^63. */
	buf_char(&b, '\0');
	assert_non_null(strstr(b.data, "\"x\":{\"total\":18446744073709551615,\"rate\":null"));
	json = json_loads(b.data, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL);
	assert_non_null(json);
	assert_text(json, "cgroups.0.cgroup", "/quote\"back\\slash\nline\ttab\x01" "caf\xc3\xa9\xef\xbf\xbd" "ff");
	assert_number(json, "cgroups.0.cpu", 3);
	assert_true(json_is_true(at(json, "cgroups.0.gone")));
	assert_null_at(json, "cgroups.0.events.huge.total");
	assert_null_at(json, "cgroups.0.events.huge.rate");
	assert_number(json, "cgroups.0.events.y/p\"u.total", 1);
	assert_null_at(json, "cgroups.0.events.y/p\"u.rate");
	buf_release(&b);
}

static void test_empty(void **state)
{
	static const struct made_event none[] = { {} };
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(none);
	_cleanup_(json_free) json_t *json = snapshot_json(s, &(struct expose_query){});

	(void)state;
	assert_true(json_is_array(at(json, "cpus")));
	assert_size(json, "cpus", 0);
	assert_size(json, "cgroups", 0);
}

/* In the event's unit, null where not known, and the highest is never below the one at hand. */
static void test_trends(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	const struct expose_query query = {};
	_cleanup_(json_free) json_t *json = NULL;

	(void)state;
	made_trend(s, SCOPE_CGROUP, 0, 1, 2.5e8F, NAN, 1e9F);
	made_trend(s, SCOPE_CPU, 1, 0, 100, 50, 300);
	json = snapshot_json(s, &query);
	assert_number(json, "cgroups.0.events.task_clock.rate_1m", 0.25);
	assert_null_at(json, "cgroups.0.events.task_clock.rate_5m");
	assert_number(json, "cgroups.0.events.task_clock.rate_peak", 1);
	assert_number(json, "cpus.1.events.cycles.rate_1m", 100);
	assert_number(json, "cpus.1.events.cycles.rate_5m", 50);
	assert_number(json, "cpus.1.events.cycles.rate_peak", 400);
	assert_null_at(json, "cgroups.2.events.context_switches.rate_peak");
}

static void test_aggregate(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(json_free) json_t *json = NULL;

	(void)state;
	s->options.aggregate = true;
	/* What the CPUs did together is not the sum of what each did at its best. */
	made_trend(s, SCOPE_CPU, 0, 0, 1, 1, 5000);
	s->table[SCOPE_CPU].sums[0].average[TREND_1M] = 700;
	s->table[SCOPE_CPU].sums[0].highest = 900;
	json = snapshot_json(s, &(struct expose_query){});
	assert_size(json, "cpus", 1);
	assert_number(json, "cpus.0.events.cycles.rate_1m", 700);
	assert_null_at(json, "cpus.0.events.cycles.rate_5m");
	assert_number(json, "cpus.0.events.cycles.rate_peak", 900);
	assert_absent(json, "cpus.0.cpu");
	assert_number(json, "cpus.0.events.cycles.total", 2000);
	assert_number(json, "cpus.0.events.cycles.rate", 800);
	assert_number(json, "cpus.0.events.cycles.running", 0.375);
	assert_number(json, "cpus.0.derived.ipc", 2.25);
	assert_number(json, "matched.cpus", 1);
}

/* The package and die are the CPU's, and stand with the events that are counted for them. */
static void test_places(void **state)
{
	static const struct made_event events[] = {
		{ SCOPE_CPU, "a", "instructions", .set = 0 },
		{ SCOPE_CPU, "a", "power/energy-pkg/", .uncore = true, .set = 1, .unit = EVENT_UNIT_JOULES },
		{},
	};
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(events);
	_cleanup_(json_free) json_t *json = NULL, *sum = NULL;

	(void)state;
	for (int i = 0; i < 3; i++) {
		made_row(s, SCOPE_CPU, i, NULL, 0);
		made_cell(s, SCOPE_CPU, (size_t)i, 0, 1, 1);
		made_cell(s, SCOPE_CPU, (size_t)i, 1, 1, 1);
	}
	s->table[SCOPE_CPU].rows[0].place.package = 0;
	s->table[SCOPE_CPU].rows[1].place = (struct cpu_place){ 7, 2 };
	json = snapshot_json(s, &(struct expose_query){});
	assert_number(json, "cpus.0.events.power_energy_pkg.package", 0);
	assert_absent(json, "cpus.0.events.power_energy_pkg.die");
	assert_number(json, "cpus.1.events.power_energy_pkg.package", 7);
	assert_number(json, "cpus.1.events.power_energy_pkg.die", 2);
	assert_text(json, "cpus.1.events.power_energy_pkg.unit", "joules");
	assert_absent(json, "cpus.1.events.instructions.package");
	assert_absent(json, "cpus.2.events.power_energy_pkg.package");

	s->options.aggregate = true;
	sum = snapshot_json(s, &(struct expose_query){});
	assert_number(sum, "cpus.0.events.power_energy_pkg.total", 3);
	assert_absent(sum, "cpus.0.events.power_energy_pkg.package");
}

/* --- filters */

/* The cgroups shown, as "/a /b ". */
static char *cgroups_shown(const struct snapshot *s, const struct expose_query *query)
{
	_cleanup_(json_free) json_t *json = snapshot_json(s, query);
	struct buf b = {};
	size_t i;
	json_t *cgroup;

	json_array_foreach (at(json, "cgroups"), i, cgroup)
		buf_printf(&b, "%s ", json_string_value(json_object_get(cgroup, "cgroup")));
	assert_int_equal(json_integer_value(at(json, "shown.cgroups")), i);
	return buf_steal(&b);
}

static void test_filters(void **state)
{
	static const struct {
		struct expose_query query;
		const char *shown;
	} cases[] = {
		{ {}, "/a /b /c /d/e " },
		{ { .cgroup = "/b" }, "/b " },
		{ { .cgroup = "/*" }, "/a /b /c " },
		{ { .cgroup = "/**" }, "/a /b /c /d/e " },
		{ { .cgroup = "/none" }, "" },
		{ { .limit = 2 }, "/a /b " },
		{ { .limit = 100 }, "/a /b /c /d/e " },
		{ { .without[SCOPE_CGROUP] = true }, "" },
		/* By rate; then those with a total, then those with nothing. */
		{ { .sort = "context_switches" }, "/b /a /c /d/e " },
		{ { .sort = "context-switches" }, "/b /a /c /d/e " },
		{ { .sort = "context_switches", .limit = 1 }, "/b " },
		{ { .sort = "context_switches", .cgroup = "/[acd]**", .limit = 2 }, "/a /c " },
		/* Equal rates: by total, then as they come. */
		{ { .sort = "task_clock" }, "/a /b /c /d/e " },
		/* Only counted per CPU: the order stays. */
		{ { .sort = "cycles" }, "/a /b /c /d/e " },
	};
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *shown = cgroups_shown(s, &cases[i].query);

		assert_string_equal(shown, cases[i].shown);
	}
}

/* A true 0 comes before what is not known. */
static void test_unmeasured_sorts_last(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(usual_events);
	_cleanup_(freep) char *shown = NULL;

	(void)state;
	made_row(s, SCOPE_CGROUP, ROW_ALL_CPUS, "/unknown", 1);
	made_row(s, SCOPE_CGROUP, ROW_ALL_CPUS, "/zero", 2);
	made_cell(s, SCOPE_CGROUP, 1, 0, 0, NAN);
	shown = cgroups_shown(s, &(struct expose_query){ .sort = "context_switches" });
	assert_string_equal(shown, "/zero /unknown ");
}

static void test_filters_count_what_they_leave_out(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(json_free) json_t *json = snapshot_json(s, &(struct expose_query){ .cgroup = "/?", .limit = 1 });
	_cleanup_(json_free) json_t *scope = snapshot_json(s, &(struct expose_query){ .without[SCOPE_CPU] = true });

	(void)state;
	assert_number(json, "matched.cgroups", 3);
	assert_number(json, "shown.cgroups", 1);
	/* A glob for cgroups says nothing of CPUs; a limit does. */
	assert_number(json, "matched.cpus", 2);
	assert_number(json, "shown.cpus", 1);
	assert_size(scope, "cpus", 0);
	assert_number(scope, "matched.cpus", 0);
	assert_size(scope, "cgroups", 4);
}

static void test_event_filter(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(json_free) json_t *one = snapshot_json(s, &(struct expose_query){ .event = "cycles" });
	_cleanup_(json_free) json_t *ratio = snapshot_json(s, &(struct expose_query){ .event = "ipc" });
	_cleanup_(json_free) json_t *text = snapshot_json(s, &(struct expose_query){ .event = "*-switches" });
	_cleanup_(json_free) json_t *sorted =
		snapshot_json(s, &(struct expose_query){ .event = "task_*", .sort = "context_switches" });

	(void)state;
	assert_int_equal(json_object_size(at(one, "cpus.0.events")), 1);
	assert_number(one, "cpus.0.events.cycles.total", 1000);
	/* A ratio goes with both of its parts, or comes by its own name. */
	assert_int_equal(json_object_size(at(one, "cpus.0.derived")), 0);
	assert_int_equal(json_object_size(at(ratio, "cpus.0.events")), 0);
	assert_number(ratio, "cpus.0.derived.ipc", 1.5);
	assert_int_equal(json_object_size(at(ratio, "cpus.0.derived")), 1);
	assert_number(text, "cgroups.0.events.context_switches.total", 500);
	assert_absent(text, "cgroups.0.events.task_clock");
	/* Rows can be sorted by an event that is not shown. */
	assert_text(sorted, "cgroups.0.cgroup", "/b");
	assert_absent(sorted, "cgroups.0.events.context_switches");
}

static void test_has_event(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	const struct expose_query all = {}, cgroups = { .without[SCOPE_CPU] = true };

	(void)state;
	assert_true(expose_has_event(s, &all, "cycles"));
	assert_true(expose_has_event(s, &all, "llc_loads"));
	assert_true(expose_has_event(s, &all, "LLC-loads"));
	assert_false(expose_has_event(s, &cgroups, "cycles"));
	assert_true(expose_has_event(s, &cgroups, "task_clock"));
	assert_false(expose_has_event(s, &all, "cycle"));
	assert_false(expose_has_event(s, &all, ""));
}

/* --- derived */

static void test_derived(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(json_free) json_t *json = snapshot_json(s, &(struct expose_query){});

	(void)state;
	assert_number(json, "cpus.0.derived.ipc", 1.5);
	assert_number(json, "cpus.1.derived.ipc", 3);
	assert_number(json, "cpus.0.derived.cpi", 0.666666666667);
	assert_absent(json, "cpus.0.derived.cpus_utilized");
	assert_number(json, "cgroups.0.derived.cpus_utilized", 0.5);
	assert_absent(json, "cgroups.2.derived.cpus_utilized");
}

/* The root of the hierarchy has the idle tasks in it; the root of a cgroup namespace has not. */
static void test_derived_of_root(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(json_free) json_t *root = NULL, *other = NULL;

	(void)state;
	s->table[SCOPE_CGROUP].rows[0].identity->id = CGROUP_ROOT_ID;
	root = snapshot_json(s, &(struct expose_query){});
	assert_absent(root, "cgroups.0.derived.cpus_utilized");
	s->table[SCOPE_CGROUP].rows[0].identity->id = CGROUP_ROOT_ID + 1;
	other = snapshot_json(s, &(struct expose_query){});
	assert_number(other, "cgroups.0.derived.cpus_utilized", 0.5);
}

static void test_derived_misses(void **state)
{
#define CACHE(cache, result) (PERF_COUNT_HW_CACHE_##cache | PERF_COUNT_HW_CACHE_RESULT_##result << 16)
	static const struct made_event events[] = {
		{ SCOPE_CPU, "g", "a", .type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_CACHE_MISSES },
		{ SCOPE_CPU, "g", "b", .type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_CACHE_REFERENCES },
		{ SCOPE_CPU, "g", "c", .type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_BRANCH_MISSES },
		{ SCOPE_CPU, "g", "d", .type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS },
		{ SCOPE_CPU, "g", "e", .type = PERF_TYPE_HW_CACHE, .config = CACHE(L1D, MISS) },
		{ SCOPE_CPU, "g", "f", .type = PERF_TYPE_HW_CACHE, .config = CACHE(L1D, ACCESS) },
		{ SCOPE_CPU, "g", "g", .type = PERF_TYPE_HW_CACHE, .config = CACHE(LL, MISS) },
		{ SCOPE_CPU, "g", "h", .type = PERF_TYPE_HW_CACHE, .config = CACHE(LL, ACCESS) },
		{ SCOPE_CPU, "g", "i", .type = PERF_TYPE_HW_CACHE, .config = CACHE(DTLB, MISS) },
		{ SCOPE_CPU, "g", "j", .type = PERF_TYPE_HW_CACHE, .config = CACHE(DTLB, ACCESS) },
		{},
	};
	static const char *const names[] = {
		"cpus.0.derived.cache_miss_ratio",     "cpus.0.derived.branch_miss_ratio",
		"cpus.0.derived.l1_dcache_load_miss_ratio", "cpus.0.derived.llc_load_miss_ratio",
		"cpus.0.derived.dtlb_load_miss_ratio",
	};
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(events);
	_cleanup_(json_free) json_t *json = NULL;

	(void)state;
	made_row(s, SCOPE_CPU, 0, NULL, 0);
	for (size_t i = 0; i < 10; i += 2) {
		made_cell(s, SCOPE_CPU, 0, i, 1, (double)(i + 1));
		made_cell(s, SCOPE_CPU, 0, i + 1, 1, 16);
	}
	json = snapshot_json(s, &(struct expose_query){});
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_number(json, names[i], (2 * (double)i + 1) / 16);
	assert_int_equal(json_object_size(at(json, "cpus.0.derived")), ARRAY_SIZE(names));
}

/* Only of events counted together, in the same modes, and with something to divide by. */
static void test_derived_needs_both_parts(void **state)
{
	static const struct made_event events[] = {
		{ SCOPE_CPU, "apart", "cycles", .metric = "c1", .config = PERF_COUNT_HW_CPU_CYCLES, .set = 0 },
		{ SCOPE_CPU, "apart", "instructions", .metric = "i1", .config = PERF_COUNT_HW_INSTRUCTIONS, .set = 1 },
		{ SCOPE_CPU, "modes", "cycles", .metric = "c2", .config = PERF_COUNT_HW_CPU_CYCLES, .set = 2 },
		{ SCOPE_CPU, "modes", "instructions:u", .config = PERF_COUNT_HW_INSTRUCTIONS, .set = 2, .user = true },
		{ SCOPE_CPU, "user", "cycles:u", .metric = "cycles_user", .config = PERF_COUNT_HW_CPU_CYCLES, .set = 3,
		  .user = true },
		{ SCOPE_CPU, "user", "instructions:u", .metric = "instructions_user",
		  .config = PERF_COUNT_HW_INSTRUCTIONS, .set = 3, .user = true },
		{ SCOPE_CPU, "hybrid", "cycles", .pmu = "cpu_atom", .by_pmu = true,
		  .config = 10ULL << 32 | PERF_COUNT_HW_CPU_CYCLES, .set = 4 },
		{ SCOPE_CPU, "hybrid", "instructions", .pmu = "cpu_atom", .by_pmu = true,
		  .config = 10ULL << 32 | PERF_COUNT_HW_INSTRUCTIONS, .set = 4 },
		{},
	};
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(events);
	_cleanup_(json_free) json_t *json = NULL;

	(void)state;
	for (int cpu = 0; cpu < 3; cpu++) {
		made_row(s, SCOPE_CPU, cpu, NULL, 0);
		for (size_t i = 0; i < 8; i++)
			made_cell(s, SCOPE_CPU, (size_t)cpu, i, 1, 10);
	}
	made_cell(s, SCOPE_CPU, 1, 4, 1, 0);
	s->table[SCOPE_CPU].cells[2 * 8 + 4].measured = false;
	s->table[SCOPE_CPU].cells[2 * 8 + 7].rate = NAN;

	json = snapshot_json(s, &(struct expose_query){});
	assert_number(json, "cpus.0.derived.ipc_user", 1);
	assert_number(json, "cpus.0.derived.cpi_user", 1);
	assert_number(json, "cpus.0.derived.ipc/cpu_atom", 1);
	assert_int_equal(json_object_size(at(json, "cpus.0.derived")), 4);
	assert_absent(json, "cpus.1.derived.ipc_user");
	assert_number(json, "cpus.1.derived.cpi_user", 0);
	assert_int_equal(json_object_size(at(json, "cpus.2.derived")), 0);
}

/* --- events, cgroups, status */

static void test_events(void **state)
{
	static const struct made_event events[] = {
		{ SCOPE_CPU, "g", "cycles:u", .metric = "cycles_user", .config = 0x11, .type = 4, .user = true },
		{ SCOPE_CPU, "g", "instructions", .config = 1 },
		{ SCOPE_CGROUP, "bad \xff", "a\nb\xff", .metric = "ab", .set = MADE_NO_SET, .state = EVENT_UNSUPPORTED,
		  .why = "there is no 'a\xff'", .absent = -ENOENT, .scale = 0.5, .unit = EVENT_UNIT_BYTES },
		{},
	};
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(events);
	_cleanup_(json_free) json_t *json = NULL;
	struct buf b = {};

	(void)state;
	assert_int_equal(expose_json_events(&b, s), 0);
	json = parse(&b);
	assert_size(json, "events", 3);
	assert_text(json, "events.0.scope", "cpu");
	assert_text(json, "events.0.group", "g");
	assert_text(json, "events.0.event", "cycles_user");
	assert_text(json, "events.0.text", "cycles:u");
	assert_text(json, "events.0.pmu", "cpu");
	assert_number(json, "events.0.encoding.type", 4);
	assert_text(json, "events.0.encoding.config", "0x11");
	assert_text(json, "events.0.encoding.config2", "0x0");
	assert_true(json_is_true(at(json, "events.0.encoding.exclude_kernel")));
	assert_absent(json, "events.0.encoding.exclude_user");
	assert_absent(json, "events.0.encoding.precise");
	assert_null_at(json, "events.0.unit");
	assert_number(json, "events.0.scale", 1);
	assert_text(json, "events.1.set.leader", "cycles_user");
	assert_number(json, "events.1.set.number", 0);
	assert_text(json, "events.1.cpus", "0-1");
	assert_text(json, "events.1.state", "ok");
	assert_null_at(json, "events.1.reason");
	assert_absent(json, "events.1.absent");

	assert_text(json, "events.2.scope", "cgroup");
	assert_text(json, "events.2.group", "bad \xef\xbf\xbd" "ff");
	assert_text(json, "events.2.text", "a\nb\xef\xbf\xbd" "ff");
	assert_null_at(json, "events.2.set");
	assert_null_at(json, "events.2.cpus");
	assert_text(json, "events.2.unit", "bytes");
	assert_number(json, "events.2.scale", 0.5);
	assert_text(json, "events.2.state", "unsupported");
	assert_text(json, "events.2.reason", "there is no 'a\xef\xbf\xbd" "ff'");
	assert_text(json, "events.2.absent", "ENOENT");

	assert_size(json, "sets", 1);
	assert_text(json, "sets.0.scope", "cpu");
	assert_text(json, "sets.0.group", "g");
	assert_text(json, "sets.0.leader", "cycles_user");
	assert_size(json, "sets.0.members", 2);
	assert_text(json, "sets.0.members.1", "instructions");
	assert_text(json, "sets.0.cpus", "0-1");
}

/* Sets are numbered through all scopes. */
static void test_events_of_several_sets(void **state)
{
	static const struct made_event events[] = {
		{ SCOPE_CPU, "g", "cycles", .set = 0 },
		{ SCOPE_CPU, "g", "page-faults", .set = 1 },
		{ SCOPE_CGROUP, "g", "page-faults", .set = MADE_NO_SET },
		{ SCOPE_CGROUP, "h", "instructions", .set = 0 },
		{},
	};
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(events);
	_cleanup_(json_free) json_t *json = NULL;
	struct buf b = {};

	(void)state;
	assert_int_equal(expose_json_events(&b, s), 0);
	json = parse(&b);
	assert_size(json, "sets", 3);
	assert_number(json, "events.0.set.number", 0);
	assert_number(json, "events.1.set.number", 1);
	assert_null_at(json, "events.2.set");
	assert_number(json, "events.3.set.number", 2);
	assert_text(json, "sets.2.scope", "cgroup");
	assert_text(json, "sets.2.group", "h");
	assert_text(json, "sets.2.members.0", "instructions");
}

static void test_cgroups(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(json_free) json_t *json = NULL;
	struct buf b = {};

	(void)state;
	made_cgroup(s, "/system.slice/a.service", 7, CGROUP_COUNTED, NULL);
	made_cgroup(s, "/x\"y\xff", 8, CGROUP_OVER_MAX, "raise [cgroup] max \"now\"");
	assert_int_equal(expose_json_cgroups(&b, s), 0);
	json = parse(&b);
	assert_size(json, "cgroups", 2);
	assert_text(json, "cgroups.0.cgroup", "/system.slice/a.service");
	assert_number(json, "cgroups.0.id", 7);
	assert_text(json, "cgroups.0.status", "counted");
	assert_null_at(json, "cgroups.0.reason");
	assert_text(json, "cgroups.0.unit", "a.service");
	assert_text(json, "cgroups.0.slice", "system.slice");
	assert_absent(json, "cgroups.0.pod_uid");
	assert_text(json, "cgroups.1.cgroup", "/x\"y\xef\xbf\xbd" "ff");
	assert_text(json, "cgroups.1.status", "over_max");
	assert_text(json, "cgroups.1.reason", "raise [cgroup] max \"now\"");
}

/* The machine that status tells of. */
struct made_machine {
	int cpu_numbers[3];
	struct pmu pmus[3];
	struct pmu_cap caps[2];
	char *problems[1];
	struct pmu_catalogue catalogue;
	struct event_env env;
	struct privilege privilege;
	struct cpulist cpus;
	struct cgroup_mount mount;
	struct about about;
};

static void make_machine(struct made_machine *m)
{
	static char cpu[] = "cpu", box[] = "uncore_imc", software[] = "software", path[] = "/sys/fs/cgroup";
	static char precise[] = "max_precise", three[] = "3", name[] = "pmu_name", word[] = "sky\xfflake";
	static char problem[] = "/sys/…/format/x: it is empty";

	*m = (struct made_machine){
		.cpu_numbers = { 0, 1, 3 },
		.caps = { { precise, three }, { name, word } },
		.pmus = { { .name = cpu, .type = 4, .nr_aliases = 12, .caps = m->caps, .nr_caps = 2 },
			  { .name = software, .type = 1 },
			  { .name = box, .type = 30, .has_cpumask = true, .identifier = three } },
		.problems = { problem },
		.privilege = { .paranoid = 2, .cap_perfmon = true, .effective = 1ULL << CAP_PERFMON, .fd_limit = 1024 },
		.mount = { .path = path, .version = 2, .top = 1 },
	};
	m->cpus = (struct cpulist){ m->cpu_numbers, 3 };
	m->pmus[2].cpus = (struct cpulist){ m->cpu_numbers, 1 };
	m->catalogue = (struct pmu_catalogue){ m->pmus, 3, m->problems, 1 };
	m->env = (struct event_env){ .pmus = &m->catalogue, .tracefs_problem = "tracefs is not mounted" };
	m->about = (struct about){
		.version = "1.2.3",
		.engine = "perf-cgroup",
		.privilege = &m->privilege,
		.env = &m->env,
		.mount = &m->mount,
		.cpus = &m->cpus,
	};
}

static json_t *status_json(const struct snapshot *s, const struct made_machine *m)
{
	struct buf b = {};

	assert_int_equal(expose_json_status(&b, s, &m->about), 0);
	return parse(&b);
}

static void test_status(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(json_free) json_t *json = NULL;
	struct made_machine m;

	(void)state;
	make_machine(&m);
	s->self = (struct self){
		.uptime = 100000000000,
		.cpu_ns = 250000000,
		.fds = 40,
		.fd_limit = 1024,
		.reads = 9,
		.read_ns = 500000000,
		.resident_bytes = 4096,
		.cgroups_counted = 3,
		.cgroups_over_max = 2,
	};
	json = status_json(s, &m);
	assert_text(json, "version", "1.2.3");
	assert_number(json, "pid", getpid());
	assert_number(json, "uptime_seconds", 100);
	assert_text(json, "engine", "perf-cgroup");
	assert_number(json, "privileges.perf_event_paranoid", 2);
	assert_size(json, "privileges.capabilities", 1);
	assert_text(json, "privileges.capabilities.0", "CAP_PERFMON");
	assert_true(json_is_true(at(json, "privileges.may_count_cpus")));
	assert_true(json_is_false(at(json, "privileges.raises_sys_admin")));
	assert_true(json_is_false(at(json, "privileges.kernel_wants_sys_admin")));
	assert_number(json, "files.events", 40);
	assert_number(json, "files.limit", 1024);
	assert_text(json, "cpus", "0-1,3");
	assert_text(json, "cgroups.mount.path", "/sys/fs/cgroup");
	assert_number(json, "cgroups.mount.version", 2);
	assert_true(json_is_true(at(json, "cgroups.mount.whole")));
	assert_number(json, "cgroups.counted", 3);
	assert_text(json, "pmus.0.name", "cpu");
	assert_text(json, "pmus.0.kind", "core");
	assert_number(json, "pmus.0.events", 12);
	assert_null_at(json, "pmus.0.cpus");
	assert_text(json, "pmus.0.caps.max_precise", "3");
	assert_text(json, "pmus.0.caps.pmu_name", "sky\xef\xbf\xbd" "fflake");
	assert_null_at(json, "pmus.0.identifier");
	assert_text(json, "pmus.2.identifier", "3");
	assert_int_equal(json_object_size(at(json, "pmus.2.caps")), 0);
	assert_text(json, "pmus.1.kind", "other");
	assert_text(json, "pmus.2.kind", "uncore");
	assert_text(json, "pmus.2.cpus", "0");
	assert_null_at(json, "tracefs");
	assert_true(json_is_boolean(json_object_get(json, "libpfm")));
	assert_number(json, "cost.cpu_share", 0.0025);
	assert_number(json, "cost.resident_bytes", 4096);
	assert_number(json, "cost.read_seconds", 0.5);

	assert_size(json, "problems", 4);
	assert_text(json, "problems.0", "tracefs is not mounted");
	assert_text(json, "problems.1", m.problems[0]);
	assert_text(json, "problems.2", "1 of 3 events per CPU are not counted: /api/v1/events says why");
	assert_text(json, "problems.3", "2 cgroups are not counted: there are more than [cgroup] max allows");
}

static void test_status_of_a_part(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(json_free) json_t *json = NULL;
	struct made_machine m;

	(void)state;
	make_machine(&m);
	m.mount.top = 4711;
	m.about.part_of_tree = "it sees only its own part of the tree";
	m.about.cpus_problem = "";
	json = status_json(s, &m);
	assert_true(json_is_false(at(json, "cgroups.mount.whole")));
	assert_size(json, "problems", 4);
	assert_text(json, "problems.0", "it sees only its own part of the tree");
	json_decref(json);
	m.about.part_of_tree = "";
	m.about.cpus_problem = "CPUs are guessed";
	json = status_json(s, &m);
	assert_text(json, "problems.0", "CPUs are guessed");
}

static void test_status_of_the_unprivileged(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(json_free) json_t *json = NULL;
	struct made_machine m;

	(void)state;
	make_machine(&m);
	m.privilege = (struct privilege){ .paranoid = PARANOID_UNKNOWN };
	m.about.mount = NULL;
	m.about.no_cgroups = "no cgroup file system is mounted";
	m.env.tracefs = "/sys/kernel/tracing";
	json = status_json(s, &m);
	assert_null_at(json, "privileges.perf_event_paranoid");
	assert_size(json, "privileges.capabilities", 0);
	assert_true(json_is_false(at(json, "privileges.may_count_cpus")));
	assert_null_at(json, "cgroups.mount");
	assert_text(json, "tracefs", "/sys/kernel/tracing");
	assert_number(json, "cost.cpu_share", 0);
	assert_non_null(strstr(json_string_value(at(json, "problems.0")), "CAP_PERFMON"));
	assert_text(json, "problems.1", "no cgroup file system is mounted");
}

/* What a distribution's kernel wants is the first of the problems. */
static void test_status_on_a_patched_kernel(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(json_free) json_t *json = NULL, *raised = NULL;
	struct made_machine m;
	const char *problem;

	(void)state;
	make_machine(&m);
	m.privilege.paranoid = 3;
	m.privilege.wants_sys_admin = true;
	json = status_json(s, &m);
	assert_true(json_is_true(at(json, "privileges.kernel_wants_sys_admin")));
	assert_true(json_is_false(at(json, "privileges.may_count_cpus")));
	problem = json_string_value(at(json, "problems.0"));
	assert_non_null(strstr(problem, "this process may not count whole CPUs and cgroups: "
					"kernel.perf_event_paranoid is 3"));
	assert_non_null(strstr(problem, "60-perfmond.conf"));

	m.privilege.cap_sys_admin = m.privilege.raises_sys_admin = true;
	raised = status_json(s, &m);
	assert_true(json_is_true(at(raised, "privileges.raises_sys_admin")));
	assert_true(json_is_true(at(raised, "privileges.may_count_cpus")));
	assert_text(raised, "problems.0", "tracefs is not mounted");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_age_is_left_out),
		cmocka_unit_test(test_nasty_values),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_trends),
		cmocka_unit_test(test_aggregate),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_filters),
		cmocka_unit_test(test_unmeasured_sorts_last),
		cmocka_unit_test(test_filters_count_what_they_leave_out),
		cmocka_unit_test(test_event_filter),
		cmocka_unit_test(test_has_event),
		cmocka_unit_test(test_derived),
		cmocka_unit_test(test_derived_of_root),
		cmocka_unit_test(test_derived_misses),
		cmocka_unit_test(test_derived_needs_both_parts),
		cmocka_unit_test(test_events_of_several_sets),
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_cgroups),
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_status_of_a_part),
		cmocka_unit_test(test_status_of_the_unprivileged),
		cmocka_unit_test(test_status_on_a_patched_kernel),
	};

	return cmocka_run_group_tests_name("expose-json", tests, NULL, NULL);
}
