/* SPDX-License-Identifier: MIT */

/* OpenMetrics: what it has other than the Prometheus text format. */

#include "web/expose/expose.h"

#include "setup/made-snapshot.h"

#include <math.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static char *expose(const struct snapshot *snapshot)
{
	struct buf b = {};

	assert_int_equal(expose_openmetrics(&b, snapshot, NULL), 0);
	return buf_steal(&b);
}

static const struct made_event events[] = {
	{ SCOPE_CPU, "software", "context-switches", .pmu = "software", .type = PERF_TYPE_SOFTWARE },
	{ SCOPE_CGROUP, "software", "task-clock", .pmu = "software", .type = PERF_TYPE_SOFTWARE, .scale = 1e-9,
	  .unit = EVENT_UNIT_SECONDS },
	{},
};

static struct snapshot *small_snapshot(void)
{
	struct snapshot *s = made_snapshot(events);

	for (int cpu = 0; cpu < 2; cpu++) {
		made_row(s, SCOPE_CPU, cpu, NULL, 0);
		made_cell(s, SCOPE_CPU, (size_t)cpu, 0, 100 + (uint64_t)cpu, 10);
		s->table[SCOPE_CPU].rows[cpu].since = 1600000000500000000 + (uint64_t)cpu;
	}
	made_row(s, SCOPE_CGROUP, ROW_ALL_CPUS, "/a", 42);
	made_cell(s, SCOPE_CGROUP, 0, 0, 1500000000, 5e8);
	s->table[SCOPE_CGROUP].rows[0].since = 1600000000000000000;
	s->self.start_time = 1700000000000000000;
	return s;
}

#define assert_has(text, part)                                                                                         \
	do {                                                                                                           \
		if (!strstr(text, part))                                                                               \
			fail_msg("no '%s' in:\n%s", part, text);                                                       \
	} while (0)

#define HELP "Event context-switches of group software, counted on the CPU, for all processes."

static void test_families(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = small_snapshot();
	_cleanup_(freep) char *text = expose(s);

	(void)state;
	assert_has(text, "# TYPE perf_cpu_context_switches counter\n"
			 "# HELP perf_cpu_context_switches " HELP "\n"
			 "perf_cpu_context_switches_total{cpu=\"0\"} 100\n"
			 "perf_cpu_context_switches_total{cpu=\"1\"} 101\n#");
	assert_has(text, "# TYPE perf_cgroup_task_clock_seconds counter\n"
			 "# UNIT perf_cgroup_task_clock_seconds seconds\n"
			 "# HELP perf_cgroup_task_clock_seconds Event task-clock of group software, in seconds, ");
	assert_has(text, "\nperf_cgroup_task_clock_seconds_total{cgroup=\"/a\"} 1.5\n#");
	assert_has(text, "# TYPE perf_cgroup info\n# HELP perf_cgroup ");
	assert_has(text, "\nperf_cgroup_info{cgroup=\"/a\",id=\"42\"} 1\n");
	assert_has(text, "# TYPE perfmond_build info\n");
	assert_has(text, "# TYPE perf_event_state gauge\n");
	assert_has(text, "# TYPE perfmond_read_seconds counter\n# UNIT perfmond_read_seconds seconds\n");
	assert_has(text, "# UNIT perfmond_resident_memory_bytes bytes\n");
	assert_null(strstr(text, "_created"));
	assert_null(strstr(text, "_peak_per_second"));
	assert_string_equal(text + strlen(text) - strlen("\n# EOF\n"), "\n# EOF\n");
	assert_null(strstr(strstr(text, "# EOF") + 1, "# EOF"));
}

/* When a counter began stands behind its value: the same labels side by side. */
static void test_created(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = small_snapshot();
	_cleanup_(freep) char *text = NULL;
	struct buf other = {};
	_cleanup_(freep) char *prometheus = NULL;

	(void)state;
	s->options.created = true;
	text = expose(s);
	assert_has(text, "\nperf_cpu_context_switches_total{cpu=\"0\"} 100\n"
			 "perf_cpu_context_switches_created{cpu=\"0\"} 1600000000.5\n"
			 "perf_cpu_context_switches_total{cpu=\"1\"} 101\n"
			 "perf_cpu_context_switches_created{cpu=\"1\"} 1600000000.500000001\n#");
	assert_has(text, "\nperf_cgroup_task_clock_seconds_created{cgroup=\"/a\"} 1600000000\n");
	assert_has(text, "\nperfmond_scrapes_created 1700000000\n");
	assert_null(strstr(text, "perf_event_state_created"));
	assert_null(strstr(text, "perfmond_build_created"));

	/* The other format has no such thing. */
	assert_int_equal(expose_prometheus(&other, s, NULL), 0);
	prometheus = buf_steal(&other);
	assert_null(strstr(prometheus, "_created"));
}

/* The sum of all CPUs began when the first CPU did, also if the wall clock was set back before another came; if that is
 * unknown, there is no _created. */
static void test_created_of_sums(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = small_snapshot();
	_cleanup_(freep) char *text = NULL;

	(void)state;
	s->options.created = s->options.aggregate = true;
	s->table[SCOPE_CGROUP].rows[0].since = 0;
	s->table[SCOPE_CPU].rows[1].since = 1500000000;
	s->table[SCOPE_CPU].rows[1].began = 1;
	text = expose(s);
	assert_has(text, "\nperf_cpu_context_switches_total 201\nperf_cpu_context_switches_created 1600000000.5\n");
	assert_null(strstr(text, "task_clock_seconds_created"));
}

static void test_peaks(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = small_snapshot();
	_cleanup_(freep) char *text = NULL;

	(void)state;
	s->options.peaks = s->options.created = true;
	made_trend(s, SCOPE_CPU, 0, 0, 1, 1, 12.5F);
	made_trend(s, SCOPE_CGROUP, 0, 0, 1, 1, 1.5e9F);
	made_cell(s, SCOPE_CPU, 1, 0, 101, NAN);
	text = expose(s);
	assert_has(text, "# TYPE perf_cpu_context_switches_peak_per_second gauge\n"
			 "# HELP perf_cpu_context_switches_peak_per_second Highest rate of one interval within the "
			 "last minute: " HELP "\n"
			 "perf_cpu_context_switches_peak_per_second{cpu=\"0\"} 12.5\n#");
	assert_has(text, "\nperf_cgroup_task_clock_seconds_peak_per_second{cgroup=\"/a\"} 1.5\n");
}

/* A name that another family with its suffix could have is of type unknown: no two families may overlap. */
static void test_names_that_meet(void **state)
{
	static const struct made_event odd[] = {
		{ SCOPE_CGROUP, "g", "a=x", .metric = "a" },
		{ SCOPE_CGROUP, "g", "b=x", .metric = "a_total" },
		{ SCOPE_CGROUP, "g", "c=x", .metric = "a_created" },
		{ SCOPE_CGROUP, "g", "d=x", .metric = "a_peak_per_second" },
		{ SCOPE_CGROUP, "g", "e=x", .metric = "info" },
		{},
	};
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(odd);
	_cleanup_(freep) char *text = NULL;

	(void)state;
	s->options.peaks = s->options.created = true;
	made_row(s, SCOPE_CGROUP, ROW_ALL_CPUS, "/a", 42);
	s->table[SCOPE_CGROUP].rows[0].since = 1000000000;
	for (size_t i = 0; i < 5; i++)
		made_cell(s, SCOPE_CGROUP, 0, i, i, 1);
	text = expose(s);
	assert_has(text, "# TYPE perf_cgroup_a counter\n");
	assert_has(text, "\nperf_cgroup_a_created{cgroup=\"/a\"} 1\n");
	assert_has(text, "# TYPE perf_cgroup_a_total_total unknown\n");
	assert_has(text, "\nperf_cgroup_a_total_total{cgroup=\"/a\"} 1\n#");
	assert_has(text, "# TYPE perf_cgroup_a_created_total unknown\n");
	assert_has(text, "# TYPE perf_cgroup_a_peak_per_second gauge\n");
	assert_has(text, "# TYPE perf_cgroup_a_peak_per_second_total unknown\n");
	assert_has(text, "# TYPE perf_cgroup_info_total unknown\n");
	assert_has(text, "# TYPE perf_cgroup info\n");
}

/* Quotes are escaped in HELP too, which the other format does not do. */
static void test_escaping(void **state)
{
	static const struct made_event odd[] = {
		{ SCOPE_CGROUP, "g", "x/f='a \"b\" \\ \n'/", .metric = "x" },
		{},
	};
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(odd);
	_cleanup_(freep) char *text = NULL;

	(void)state;
	made_row(s, SCOPE_CGROUP, ROW_ALL_CPUS, "/q\"\\\n\xff\xc3\xa9", 42);
	made_cell(s, SCOPE_CGROUP, 0, 0, 1, 1);
	text = expose(s);
	assert_has(text, "# HELP perf_cgroup_x Event x/f='a \\\"b\\\" \\\\ \\n'/ of group g");
	assert_has(text, "\nperf_cgroup_x_total{cgroup=\"/q\\\"\\\\\\n\xef\xbf\xbd"
			 "ff\xc3\xa9\"} 1\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_families),	cmocka_unit_test(test_created),
		cmocka_unit_test(test_created_of_sums), cmocka_unit_test(test_peaks),
		cmocka_unit_test(test_names_that_meet), cmocka_unit_test(test_escaping),
	};

	return cmocka_run_group_tests_name("openmetrics", tests, NULL, NULL);
}
