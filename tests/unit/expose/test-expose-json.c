/* SPDX-License-Identifier: MIT */

/* The walk by target: what /api/v1/snapshot answers, read back with jansson. */

#include "setup/json-answer.h"

#include "web/expose/expose.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_values(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	const struct expose_query query = { .now = 5250000000 };
	_cleanup_(json_free) json_t *json = snapshot_json(s, &query);

	(void)state;
	assert_number(json, "timestamp", 1700000000.123);
	assert_number(json, "monotonic_seconds", 5);
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

/* What is told of a row is of that row, whatever the event's state is on the whole. */
static void test_state_of_a_row(void **state)
{
	static const struct {
		enum event_state whole;
		bool partial;
		const char *scarce, *full;
	} cases[] = {
		{ EVENT_OK, false, "multiplexed", "ok" },	{ EVENT_MULTIPLEXED, false, "multiplexed", "ok" },
		{ EVENT_FAILED, true, "multiplexed", "ok" },	{ EVENT_FAILED, false, "failed", "failed" },
		{ EVENT_STALLED, false, "stalled", "stalled" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
		_cleanup_(json_free) json_t *json = NULL;

		made_times(s, SCOPE_CGROUP, 0, 0, 1000, 300, 0.3);
		s->table[SCOPE_CGROUP].columns[0].state = cases[i].whole;
		s->table[SCOPE_CGROUP].columns[0].partial = cases[i].partial;
		json = snapshot_json(s, &(struct expose_query){});
		assert_text(json, "cgroups.0.events.context_switches.state", cases[i].scarce);
		assert_text(json, "cgroups.1.events.context_switches.state", cases[i].full);
		assert_text(json, "cgroups.1.events.task_clock.state", "ok");
	}
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
	static const char path[] = "/quote\"back\\slash\nline\ttab\x01"
				   "caf\xc3\xa9\xff";
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
	assert_text(json, "cgroups.0.cgroup",
		    "/quote\"back\\slash\nline\ttab\x01"
		    "caf\xc3\xa9\xef\xbf\xbd"
		    "ff");
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
	s->table[SCOPE_CPU].sums[0].average[RATE_1M] = 700;
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

/* A sum of CPUs, some of them excluded, has no busy time. */
static void test_busy(void **state)
{
	static const struct made_event events[] = { { SCOPE_CPU, "a", "instructions", .set = 0 }, {} };
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(events);
	_cleanup_(json_free) json_t *json = NULL, *sum = NULL;
	const struct cpulist cpus = { (int[]){ 1, 2 }, 2 };

	(void)state;
	for (int i = 0; i < 3; i++)
		made_row(s, SCOPE_CPU, i, NULL, 0);
	snapshot_set_busy(s, &cpus, (uint64_t[]){ 17500000000, 0 });
	json = snapshot_json(s, &(struct expose_query){});
	assert_absent(json, "cpus.0.busy_seconds");
	assert_number(json, "cpus.1.busy_seconds", 17.5);
	assert_absent(json, "cpus.2.busy_seconds");

	s->options.aggregate = true;
	sum = snapshot_json(s, &(struct expose_query){});
	assert_absent(sum, "cpus.0.busy_seconds");
}

/* --- filters */

/* The cgroups shown, as "/a /b ". */
static char *cgroups_shown(const struct snapshot *s, const struct expose_query *query)
{
	_cleanup_(json_free) json_t *json = snapshot_json(s, query);
	struct buf b = {};
	size_t i;
	json_t *cgroup;

	json_array_foreach(at(json, "cgroups"), i, cgroup)
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
		{ { .leaves = true }, "/b /c /d/e " },
		{ { .leaves = true, .sort = "context_switches", .limit = 2 }, "/b /c " },
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
	s->table[SCOPE_CGROUP].rows[0].descendants = 1;
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
		"cpus.0.derived.cache_miss_ratio",	    "cpus.0.derived.branch_miss_ratio",
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_age_is_left_out),
		cmocka_unit_test(test_state_of_a_row),
		cmocka_unit_test(test_nasty_values),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_trends),
		cmocka_unit_test(test_aggregate),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_filters),
		cmocka_unit_test(test_unmeasured_sorts_last),
		cmocka_unit_test(test_filters_count_what_they_leave_out),
		cmocka_unit_test(test_event_filter),
		cmocka_unit_test(test_has_event),
		cmocka_unit_test(test_derived),
		cmocka_unit_test(test_derived_of_root),
		cmocka_unit_test(test_derived_misses),
		cmocka_unit_test(test_derived_needs_both_parts),
	};

	return cmocka_run_group_tests_name("expose-json", tests, NULL, NULL);
}
