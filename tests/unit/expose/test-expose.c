/* SPDX-License-Identifier: MIT */

/* The walk by family and the Prometheus text format. test-expose-text.c has numbers and escaping, test-expose-json.c
 * JSON. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "setup/made-snapshot.h"

#include "base/util/escape.h"
#include "base/util/text.h"
#include "web/expose/expose.h"
#include "web/expose/metrics.h"

#include <inttypes.h>
#include <math.h>

/* --- properties of any exposition in the text format */

static char *expose(const struct snapshot *snapshot)
{
	struct buf b = {};

	assert_int_equal(expose_prometheus(&b, snapshot, NULL), 0);
	return buf_steal(&b);
}

/* The end of a name of a metric or label. */
static const char *skip_name(const char *p)
{
	assert_true((*p >= 'a' && *p <= 'z') || *p == '_');
	while ((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') || *p == '_')
		p++;
	return p;
}

/* The end of {label="value",…}. */
static const char *skip_labels(const char *p)
{
	if (*p != '{')
		return p;
	do {
		p = skip_name(p + 1);
		assert_memory_equal(p, "=\"", 2);
		for (p += 2; *p != '"'; p++) {
			assert_true(*p && *p != '\n');
			if (*p == '\\') {
				p++;
				assert_true(*p == '\\' || *p == '"' || *p == 'n');
			}
		}
		p++;
	} while (*p == ',');
	assert_int_equal(*p, '}');
	return p + 1;
}

struct line_list {
	char *lines[512];
	size_t nr;
};

static void check_sample(struct line_list *series, char *line, const char *family)
{
	const char *name_end = skip_name(line), *end = skip_labels(name_end);
	char *number_end;

	assert_int_equal((size_t)(name_end - line), strlen(family));
	assert_memory_equal(line, family, strlen(family));
	assert_int_equal(*end, ' ');
	assert_true(isfinite(strtod(end + 1, &number_end)));
	assert_int_equal(*number_end, '\0');
	line[end - line] = '\0';
	for (size_t i = 0; i < series->nr; i++)
		assert_string_not_equal(series->lines[i], line);
	assert_true(series->nr < ARRAY_SIZE(series->lines));
	series->lines[series->nr++] = line;
}

/* HELP, TYPE and at least one sample for each family, none twice, no series twice, all valid UTF-8. */
static void check_exposition(const char *exposition)
{
	_cleanup_(freep) char *text = strdup(exposition);
	static const char help[] = "# HELP ", type[] = "# TYPE ";
	struct line_list families = {}, series = {};
	char *cursor = text, *line, *type_of = NULL;
	size_t samples = 1;

	for (const char *p = text; *p; p += utf8_length(p))
		assert_int_not_equal(utf8_length(p), 0);
	assert_int_equal(text[strlen(text) - 1], '\n');
	text[strlen(text) - 1] = '\0';

	while ((line = strsep(&cursor, "\n"))) {
		char *family = line + strlen(help), *space;

		if (strncmp(line, help, strlen(help))) {
			check_sample(&series, line, type_of);
			samples++;
			continue;
		}
		assert_true(samples > 0);
		samples = 0;
		space = strchr(family, ' ');
		*space = '\0';
		assert_true(strlen(space + 1) > 10);
		for (size_t i = 0; i < families.nr; i++)
			assert_string_not_equal(families.lines[i], family);
		families.lines[families.nr++] = family;

		line = strsep(&cursor, "\n");
		assert_int_equal(strncmp(line, type, strlen(type)), 0);
		type_of = line + strlen(type);
		space = strchr(type_of, ' ');
		*space = '\0';
		assert_string_equal(type_of, family);
		/* A name ends in _total where it is a counter, and only there. */
		if (strlen(family) > 6 && strcmp(family + strlen(family) - 6, "_total") == 0)
			assert_string_equal(space + 1, "counter");
		else
			assert_string_equal(space + 1, "gauge");
	}
	assert_true(samples > 0);
}

static bool has_line(const char *text, const char *line)
{
	size_t n = strlen(line);

	for (const char *p = text; (p = strstr(p, line)); p++)
		if ((p == text || p[-1] == '\n') && p[n] == '\n')
			return true;
	return false;
}

static size_t count_samples(const char *text, const char *family)
{
	size_t n = strlen(family), nr = 0;

	for (const char *p = text; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
		nr += strncmp(p, family, n) == 0 && (p[n] == '{' || p[n] == ' ');
	return nr;
}

#define assert_line(text, line)                                                                                        \
	do {                                                                                                           \
		if (!has_line(text, line))                                                                             \
			fail_msg("no line '%s' in:\n%s", line, text);                                                  \
	} while (0)

/* --- the Prometheus text format */

static const struct made_event usual_events[] = {
	{ SCOPE_CPU, "core", "cycles", .type = PERF_TYPE_HARDWARE, .set = MADE_NO_SET, .state = EVENT_UNSUPPORTED,
	  .why = "there is no PMU", .absent = -2 },
	{ SCOPE_CPU, "software", "context-switches", .pmu = "software", .type = PERF_TYPE_SOFTWARE,
	  .config = PERF_COUNT_SW_CONTEXT_SWITCHES },
	{ SCOPE_CPU, "software", "cpu-clock", .pmu = "software", .type = PERF_TYPE_SOFTWARE, .scale = 1e-9,
	  .unit = EVENT_UNIT_SECONDS },
	{ SCOPE_CPU, "power", "power/energy-pkg/", .pmu = "power", .type = 20, .scale = 0x1p-32,
	  .unit = EVENT_UNIT_JOULES, .set = 1 },
	{ SCOPE_CGROUP, "software", "context-switches", .pmu = "software", .type = PERF_TYPE_SOFTWARE,
	  .config = PERF_COUNT_SW_CONTEXT_SWITCHES },
	{ SCOPE_CGROUP, "software", "task-clock", .pmu = "software", .type = PERF_TYPE_SOFTWARE,
	  .config = PERF_COUNT_SW_TASK_CLOCK, .scale = 1e-9, .unit = EVENT_UNIT_SECONDS },
	{ SCOPE_CGROUP, "software", "waiting=sched:sched_stat_wait", .metric = "waiting_seconds", .pmu = "tracepoint",
	  .type = PERF_TYPE_TRACEPOINT, .scale = 1e-9, .unit = EVENT_UNIT_SECONDS },
	{},
};

static struct snapshot *usual_snapshot(void)
{
	struct snapshot *s = made_snapshot(usual_events);
	size_t row;

	for (int cpu = 0; cpu < 2; cpu++) {
		row = made_row(s, SCOPE_CPU, cpu, NULL, 0);
		made_cell(s, SCOPE_CPU, row, 1, 100 + (uint64_t)cpu, 10);
		made_cell(s, SCOPE_CPU, row, 2, 2500000000, 1e9);
		made_times(s, SCOPE_CPU, row, 0, 3000000000, 3000000000, 1);
	}
	made_cell(s, SCOPE_CPU, 0, 3, 4294967296, 1);
	made_times(s, SCOPE_CPU, 0, 1, 3000000000, 3000000000, 1);

	row = made_row(s, SCOPE_CGROUP, ROW_ALL_CPUS, "/system.slice/nginx.service", 42);
	made_cell(s, SCOPE_CGROUP, row, 0, 5, 1);
	made_cell(s, SCOPE_CGROUP, row, 1, 1000000001, 5e8);
	made_times(s, SCOPE_CGROUP, row, 0, 1500000000, 1000000000, 0.66);
	return s;
}

static void test_names_labels_values(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(freep) char *text = expose(s);

	(void)state;
	check_exposition(text);
	assert_line(text, "# TYPE perf_cpu_context_switches_total counter");
	assert_line(text, "# HELP perf_cpu_context_switches_total Event context-switches of group software, counted on "
			  "the CPU, for all processes.");
	assert_line(text, "perf_cpu_context_switches_total{cpu=\"0\"} 100");
	assert_line(text, "perf_cpu_context_switches_total{cpu=\"1\"} 101");
	assert_line(text, "perf_cpu_cpu_clock_seconds_total{cpu=\"1\"} 2.5");
	assert_line(text, "perf_cpu_power_energy_pkg_joules_total{cpu=\"0\"} 1");
	assert_line(text, "perf_cgroup_context_switches_total{cgroup=\"/system.slice/nginx.service\"} 5");
	assert_line(text, "perf_cgroup_task_clock_seconds_total{cgroup=\"/system.slice/nginx.service\"} 1.000000001");
	assert_line(text, "# HELP perf_cgroup_task_clock_seconds_total Event task-clock of group software, in seconds, "
			  "counted while tasks of the cgroup or of one below it ran (in /, the idle tasks too).");
	assert_line(text, "perf_cgroup_info{cgroup=\"/system.slice/nginx.service\",id=\"42\",unit=\"nginx.service\","
			  "slice=\"system.slice\"} 1");
	/* What was not measured is not there, and has no family either. */
	assert_null(strstr(text, "perf_cpu_cycles"));
	assert_null(strstr(text, "waiting_seconds_total"));
	assert_null(strstr(text, "energy_pkg_joules_total{cpu=\"1\"}"));
}

static void test_unit_stands_once(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(freep) char *text = NULL;

	(void)state;
	made_cell(s, SCOPE_CGROUP, 0, 2, 7000000000, 1);
	text = expose(s);
	check_exposition(text);
	assert_line(text, "perf_cgroup_waiting_seconds_total{cgroup=\"/system.slice/nginx.service\"} 7");
}

static void test_states(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(freep) char *text = expose(s);

	(void)state;
	assert_line(text, "# TYPE perf_event_state gauge");
	assert_line(text, "perf_event_state{scope=\"cpu\",group=\"core\",event=\"cycles\",state=\"unsupported\"} 1");
	assert_line(text, "perf_event_state{scope=\"cgroup\",group=\"software\",event=\"task_clock\",state=\"ok\"} 1");
	assert_int_equal(count_samples(text, "perf_event_state"), 7);
}

static void test_group_times(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(freep) char *text = expose(s);

	(void)state;
	assert_line(text, "perf_cpu_group_enabled_seconds_total{cpu=\"0\",group=\"software\"} 3");
	assert_line(text, "perf_cpu_group_running_seconds_total{cpu=\"0\",group=\"power\"} 3");
	assert_line(text, "perf_cgroup_group_enabled_seconds_total{cgroup=\"/system.slice/nginx.service\","
			  "group=\"software\"} 1.5");
	assert_line(text, "perf_cgroup_group_running_seconds_total{cgroup=\"/system.slice/nginx.service\","
			  "group=\"software\"} 1");
	/* A group without a set has no times, nor has a CPU that the group is not counted on. */
	assert_null(strstr(text, "group_enabled_seconds_total{cpu=\"0\",group=\"core\"}"));
	assert_null(strstr(text, "group_enabled_seconds_total{cpu=\"1\",group=\"power\"}"));
}

/* A group of software events runs whenever it is enabled: one of both series says so. */
static void test_group_times_that_are_equal(void **state)
{
	static const struct made_event events[] = {
		{ SCOPE_CPU, "soft", "page-faults", .type = PERF_TYPE_SOFTWARE, .set = 0 },
		{ SCOPE_CPU, "mixed", "major-faults", .type = PERF_TYPE_SOFTWARE, .set = 1 },
		{ SCOPE_CPU, "mixed", "cycles", .set = 2 },
		{},
	};
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(events);
	_cleanup_(freep) char *text = NULL;

	(void)state;
	made_row(s, SCOPE_CPU, 0, NULL, 0);
	for (size_t i = 0; i < 3; i++) {
		made_cell(s, SCOPE_CPU, 0, i, 1, 1);
		made_times(s, SCOPE_CPU, 0, i, 2000000000, 2000000000, 1);
	}
	text = expose(s);
	check_exposition(text);
	assert_line(text, "perf_cpu_group_enabled_seconds_total{cpu=\"0\",group=\"soft\"} 2");
	assert_line(text, "perf_cpu_group_enabled_seconds_total{cpu=\"0\",group=\"mixed\"} 4");
	assert_line(text, "perf_cpu_group_running_seconds_total{cpu=\"0\",group=\"mixed\"} 4");
	assert_int_equal(count_samples(text, "perf_cpu_group_running_seconds_total"), 1);
}

/* One series for a cgroup, whatever the CPUs that it has rows of. */
static void test_descendants(void **state)
{
	static const struct made_event events[] = {
		{ SCOPE_CGROUP, "soft", "page-faults", .type = PERF_TYPE_SOFTWARE, .set = 0 },
		{},
	};
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(events);
	_cleanup_(freep) char *text = NULL;

	(void)state;
	for (int cpu = 0; cpu < 2; cpu++) {
		made_row(s, SCOPE_CGROUP, cpu, "/a", 2);
		made_row(s, SCOPE_CGROUP, cpu, "/a/b", 3);
		s->table[SCOPE_CGROUP].rows[2 * cpu].descendants = 1;
	}
	text = expose(s);
	check_exposition(text);
	assert_line(text, "# TYPE perf_cgroup_descendants gauge");
	assert_line(text, "perf_cgroup_descendants{cgroup=\"/a\"} 1");
	assert_line(text, "perf_cgroup_descendants{cgroup=\"/a/b\"} 0");
	assert_int_equal(count_samples(text, "perf_cgroup_descendants"), 2);
}

/* A group that never runs has its times shown; a group that cannot be read has none. */
static void test_group_times_of_the_unmeasured(void **state)
{
	static const struct made_event events[] = {
		{ SCOPE_CPU, "core", "cycles", .set = 0, .state = EVENT_NEVER_SCHEDULED },
		{ SCOPE_CPU, "core", "instructions", .config = 1, .set = 1 },
		{},
	};
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(events);
	_cleanup_(freep) char *text = NULL;

	(void)state;
	for (int cpu = 0; cpu < 4; cpu++)
		made_row(s, SCOPE_CPU, cpu, NULL, 0);
	made_times(s, SCOPE_CPU, 0, 0, 5000000000, 0, 0);	     /* never ran */
	made_times(s, SCOPE_CPU, 1, 0, 5000000000, 4000000000, NAN); /* could not be read */
	made_times(s, SCOPE_CPU, 2, 0, 5000000000, 4000000000, 0.8); /* one of its sets could */
	made_times(s, SCOPE_CPU, 2, 1, 6000000000, 6000000000, 1);
	made_cell(s, SCOPE_CPU, 2, 1, 0, 0);

	text = expose(s);
	check_exposition(text);
	assert_line(text, "perf_cpu_group_enabled_seconds_total{cpu=\"0\",group=\"core\"} 5");
	assert_line(text, "perf_cpu_group_running_seconds_total{cpu=\"0\",group=\"core\"} 0");
	assert_line(text, "perf_cpu_group_enabled_seconds_total{cpu=\"2\",group=\"core\"} 11");
	assert_line(text, "perf_cpu_group_running_seconds_total{cpu=\"2\",group=\"core\"} 10");
	assert_line(text, "perf_cpu_instructions_total{cpu=\"2\"} 0");
	assert_int_equal(count_samples(text, "perf_cpu_group_enabled_seconds_total"), 2);
}

static void test_several_pmus(void **state)
{
	static const struct made_event events[] = {
		{ SCOPE_CPU, "core", "cycles", .pmu = "cpu_core", .by_pmu = true, .set = 0 },
		{ SCOPE_CPU, "core", "instructions", .pmu = "cpu_core", .by_pmu = true, .config = 1, .set = 0 },
		{ SCOPE_CPU, "core", "cycles", .pmu = "cpu_atom", .by_pmu = true, .set = 1 },
		{ SCOPE_CPU, "core", "instructions", .pmu = "cpu_atom", .by_pmu = true, .config = 1, .set = 1 },
		{},
	};
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(events);
	_cleanup_(freep) char *text = NULL;

	(void)state;
	made_row(s, SCOPE_CPU, 0, NULL, 0);
	made_row(s, SCOPE_CPU, 8, NULL, 0);
	made_cell(s, SCOPE_CPU, 0, 0, 11, 1);
	made_cell(s, SCOPE_CPU, 0, 1, 12, 1);
	made_cell(s, SCOPE_CPU, 1, 2, 21, 1);
	made_cell(s, SCOPE_CPU, 1, 3, 22, 1);
	made_times(s, SCOPE_CPU, 0, 0, 2000000000, 1000000000, 0.5);
	made_times(s, SCOPE_CPU, 1, 1, 4000000000, 3000000000, 0.75);

	text = expose(s);
	check_exposition(text);
	assert_line(text, "perf_cpu_cycles_total{cpu=\"0\",pmu=\"cpu_core\"} 11");
	assert_line(text, "perf_cpu_cycles_total{cpu=\"8\",pmu=\"cpu_atom\"} 21");
	assert_line(text, "perf_cpu_instructions_total{cpu=\"8\",pmu=\"cpu_atom\"} 22");
	assert_line(text, "perf_event_state{scope=\"cpu\",group=\"core\",event=\"cycles\",state=\"ok\","
			  "pmu=\"cpu_atom\"} 1");
	assert_line(text, "perf_cpu_group_running_seconds_total{cpu=\"8\",group=\"core\"} 3");
	assert_int_equal(count_samples(text, "perf_cpu_cycles_total"), 2);
}

/* One socket with one die, one with two, and a CPU of which nothing is known. */
static void test_places(void **state)
{
	static const struct made_event events[] = {
		{ SCOPE_CPU, "a", "instructions", .config = 1 },
		{ SCOPE_CPU, "a", "power/energy-pkg/", .pmu = "power", .uncore = true, .set = 1 },
		{ SCOPE_CPU, "a", "imc/reads/", .pmu = "uncore_imc_3", .by_pmu = true, .uncore = true, .set = 2 },
		{},
	};
	static const struct cpu_place places[] = { { 0, -1 }, { 1, 0 }, { 1, 1 }, { -1, -1 } };
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(events);
	_cleanup_(freep) char *text = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		made_row(s, SCOPE_CPU, 4 * (int)i, NULL, 0);
		s->table[SCOPE_CPU].rows[i].place = places[i];
		for (size_t k = 0; k < ARRAY_SIZE(events) - 1; k++)
			made_cell(s, SCOPE_CPU, i, k, i + 10 * k, 1);
	}
	text = expose(s);
	check_exposition(text);
	assert_line(text, "perf_cpu_instructions_total{cpu=\"4\"} 1");
	assert_line(text, "perf_cpu_power_energy_pkg_total{cpu=\"0\",package=\"0\"} 10");
	assert_line(text, "perf_cpu_power_energy_pkg_total{cpu=\"4\",package=\"1\",die=\"0\"} 11");
	assert_line(text, "perf_cpu_power_energy_pkg_total{cpu=\"12\"} 13");
	assert_line(text, "perf_cpu_imc_reads_total{cpu=\"8\",package=\"1\",die=\"1\",pmu=\"uncore_imc_3\"} 22");
	assert_line(text, "perf_cpu_group_enabled_seconds_total{cpu=\"8\",group=\"a\"} 0");

	s->options.aggregate = true;
	free(text);
	text = expose(s);
	check_exposition(text);
	assert_line(text, "perf_cpu_power_energy_pkg_total 46");
	assert_line(text, "perf_cpu_imc_reads_total{pmu=\"uncore_imc_3\"} 86");
}

static void test_nasty_labels(void **state)
{
	static const struct made_event events[] = {
		{ SCOPE_CGROUP, "a \"group\"\\\n\xff", "label=x\n\\y", .metric = "m", .pmu = "p\"mu", .by_pmu = true },
		{},
	};
	static const char *const paths[] = {
		"/quote\"s", "/back\\slash",  "/new\nline", "/caf\xc3\xa9/\xe6\x97\xa5\xe6\x9c\xac", "/bad\xff\xc3",
		"/",	     "/tab\tand\x01", "/}{ ,=#",
	};
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(events);
	_cleanup_(freep) char *text = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		made_row(s, SCOPE_CGROUP, ROW_ALL_CPUS, paths[i], i);
		made_cell(s, SCOPE_CGROUP, i, 0, UINT64_MAX, NAN);
	}
	text = expose(s);
	check_exposition(text);
	assert_line(text, "perf_cgroup_m_total{cgroup=\"/quote\\\"s\",pmu=\"p\\\"mu\"} 18446744073709551615");
	assert_line(text, "perf_cgroup_m_total{cgroup=\"/back\\\\slash\",pmu=\"p\\\"mu\"} 18446744073709551615");
	assert_line(text, "perf_cgroup_m_total{cgroup=\"/new\\nline\",pmu=\"p\\\"mu\"} 18446744073709551615");
	assert_line(text, "perf_cgroup_info{cgroup=\"/bad\xef\xbf\xbd"
			  "ff\xef\xbf\xbd"
			  "c3\",id=\"4\"} 1");
	assert_line(text, "perf_event_state{scope=\"cgroup\",group=\"a \\\"group\\\"\\\\\\n\xef\xbf\xbd"
			  "ff\","
			  "event=\"m\",state=\"ok\",pmu=\"p\\\"mu\"} 1");
	assert_int_equal(count_samples(text, "perf_cgroup_m_total"), ARRAY_SIZE(paths));
}

/* Of PMUs that could be tested, and of no other. */
static void test_pmu_counters(void **state)
{
	static char core[] = "cpu_core", atom[] = "cpu_\"atom", busy[] = "busy";
	static const struct pmu_counters pmus[] = { { core, 6, 5, 0 }, { busy, 0, 0, 0 }, { atom, 8, 8, 0 } };
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(freep) char *text = expose(s);

	(void)state;
	assert_null(strstr(text, "perfmond_pmu_counters"));
	free(text);
	for (size_t i = 0; i < ARRAY_SIZE(pmus); i++)
		assert_int_equal(pmu_counters_add(&s->plan->pmus, &pmus[i]), 0);
	text = expose(s);
	check_exposition(text);
	assert_line(text, "perfmond_pmu_counters{pmu=\"cpu_core\",kind=\"advertised\"} 6");
	assert_line(text, "perfmond_pmu_counters{pmu=\"cpu_core\",kind=\"usable\"} 5");
	assert_line(text, "perfmond_pmu_counters{pmu=\"cpu_\\\"atom\",kind=\"usable\"} 8");
	assert_int_equal(count_samples(text, "perfmond_pmu_counters"), 4);
}

static void test_aggregate(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(freep) char *text = NULL;

	(void)state;
	s->options.aggregate = true;
	text = expose(s);
	check_exposition(text);
	assert_line(text, "perf_cpu_context_switches_total 201");
	assert_line(text, "perf_cpu_cpu_clock_seconds_total 5");
	/* Measured on one CPU only: an uncore event is counted on one CPU of each package. */
	assert_line(text, "perf_cpu_power_energy_pkg_joules_total 1");
	assert_line(text, "perf_cpu_group_enabled_seconds_total{group=\"software\"} 6");
	assert_line(text, "perf_cgroup_context_switches_total{cgroup=\"/system.slice/nginx.service\"} 5");
	assert_null(strstr(text, "perf_cpu_cycles"));
}

/* A CPU that cannot be read for a while keeps its part of the sum, which would otherwise decrease. */
static void test_aggregate_of_the_unmeasured(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(freep) char *text = NULL, *without = NULL;

	(void)state;
	s->options.aggregate = true;
	s->table[SCOPE_CPU].cells[1 * s->table[SCOPE_CPU].nr_columns + 1].measured = false;
	text = expose(s);
	assert_line(text, "perf_cpu_context_switches_total 201");

	s->table[SCOPE_CPU].cells[1].measured = false;
	without = expose(s);
	assert_null(strstr(without, "perf_cpu_context_switches_total"));

	made_cell(s, SCOPE_CPU, 0, 1, UINT64_MAX, 1);
	free(text);
	text = expose(s);
	assert_line(text, "perf_cpu_context_switches_total 18446744073709551615");
}

static void test_cgroups_per_cpu(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(usual_events);
	_cleanup_(freep) char *text = NULL;

	(void)state;
	/* What lingers from before a reload, and the same cgroup made again. */
	made_row(s, SCOPE_CGROUP, ROW_ALL_CPUS, "/a", 1);
	s->table[SCOPE_CGROUP].rows[0].gone = true;
	made_row(s, SCOPE_CGROUP, 0, "/b", 2);
	made_row(s, SCOPE_CGROUP, 0, "/a", 3);
	made_row(s, SCOPE_CGROUP, 1, "/b", 2);
	made_row(s, SCOPE_CGROUP, 1, "/a", 3);
	for (size_t i = 0; i < 5; i++)
		made_cell(s, SCOPE_CGROUP, i, 0, i, 0);

	text = expose(s);
	check_exposition(text);
	assert_line(text, "perf_cgroup_context_switches_total{cgroup=\"/a\"} 0");
	assert_line(text, "perf_cgroup_context_switches_total{cgroup=\"/b\",cpu=\"1\"} 3");
	assert_line(text, "perf_cgroup_group_enabled_seconds_total{cgroup=\"/a\",cpu=\"1\",group=\"software\"} 0");
	assert_line(text, "perf_cgroup_info{cgroup=\"/a\",id=\"3\"} 1");
	assert_line(text, "perf_cgroup_info{cgroup=\"/b\",id=\"2\"} 1");
	assert_int_equal(count_samples(text, "perf_cgroup_info"), 2);
}

static void test_lingering_rows(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(freep) char *text = NULL;

	(void)state;
	s->table[SCOPE_CGROUP].rows[0].gone = true;
	text = expose(s);
	assert_line(text, "perf_cgroup_context_switches_total{cgroup=\"/system.slice/nginx.service\"} 5");
	assert_int_equal(count_samples(text, "perf_cgroup_info"), 1);
}

static void test_containers(void **state)
{
#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(usual_events);
	_cleanup_(freep) char *text = NULL;

	(void)state;
	made_row(s, SCOPE_CGROUP, ROW_ALL_CPUS, "/kubepods/burstable/pod12345678-1234-1234-1234-123456789abc/" ID,
		 UINT64_MAX);
	text = expose(s);
	check_exposition(text);
	assert_line(text, "perf_cgroup_info{cgroup=\"/kubepods/burstable/pod12345678-1234-1234-1234-123456789abc/" ID
			  "\",id=\"18446744073709551615\",container_id=\"" ID
			  "\",pod_uid=\"12345678-1234-1234-1234-123456789abc\"} 1");
}

static void test_names(void **state)
{
	static const struct container_texts names = {
		.text = { [CONTAINER_POD] = "shop\\0", [CONTAINER_NAME] = "a\"b" }
	};
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(usual_events);
	struct snapshot_row *row;
	_cleanup_(freep) char *text = NULL;

	(void)state;
	made_row(s, SCOPE_CGROUP, ROW_ALL_CPUS, "/lxc.payload.m", 7);
	row = &s->table[SCOPE_CGROUP].rows[s->table[SCOPE_CGROUP].nr_rows - 1];
	assert_int_equal(container_names_new(&row->identity->names, &names), 0);
	/* Found when the snapshot was there: it stays as it is. */
	text = expose(s);
	assert_null(strstr(text, "shop"));
	free(text);
	row->names = row->identity->names;
	text = expose(s);
	check_exposition(text);
	assert_line(text, "perf_cgroup_info{cgroup=\"/lxc.payload.m\",id=\"7\",machine=\"m\",pod=\"shop\\\\0\","
			  "container=\"a\\\"b\"} 1");
}

static void test_own_figures(void **state)
{
	static const struct made_event none[] = { {} };
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(none);
	_cleanup_(freep) char *text = NULL;

	(void)state;
	s->self = (struct self_stats){
		.start_time = 1700000000250000000,
		.interval = 250000000,
		.reads = 1,
		.read_ns = 2000000,
		.read_errors = 3,
		.backwards = 4,
		.scrapes = 5,
		.fds = 6,
		.fd_limit = 7,
		.cgroups_counted = 8,
		.cgroups_lingering = 9,
		.cgroups_unlisted = 77,
		.cgroups_excluded = 10,
		.cgroups_over_max = 11,
		.cgroups_over_fds = 12,
		.cgroups_failed = 13,
		.cgroups_waiting = 14,
		.cgroups_missed = 15,
		.watches = 16,
		.watches_missing = 17,
		.inotify_overflows = 18,
		.rescans = 19,
		.reloads = 20,
		.reloads_failed = 21,
		.cpu_ns = 22000000000,
		.resident_bytes = 23,
		.virtual_bytes = 26,
		.open_fds = 27,
		.cpus = 24,
		.cgroups_pushed_out = 25,
	};
	static const char *const lines[] = {
		"perfmond_up 1",
		"perfmond_start_time_seconds 1700000000.25",
		"perfmond_interval_seconds 0.25",
		"perfmond_reads_total 1",
		"perfmond_read_seconds_total 0.002",
		"perfmond_read_errors_total 3",
		"perfmond_readings_refused_total 4",
		"perfmond_scrapes_total 5",
		"perfmond_open_events 6",
		"perfmond_max_fds 7",
		"perfmond_cgroups{state=\"counted\"} 8",
		"perfmond_cgroups{state=\"lingering\"} 9",
		"perfmond_cgroups{state=\"excluded\"} 10",
		"perfmond_cgroups{state=\"over_max\"} 11",
		"perfmond_cgroups{state=\"over_fds\"} 12",
		"perfmond_cgroups{state=\"unlisted\"} 77",
		"perfmond_cgroups{state=\"failed\"} 13",
		"perfmond_cgroups{state=\"waiting\"} 14",
		"perfmond_cgroups_missed_total 15",
		"perfmond_inotify_watches 16",
		"perfmond_inotify_watches_missing 17",
		"perfmond_inotify_overflows_total 18",
		"perfmond_cgroup_rescans_total 19",
		"perfmond_reloads_total 20",
		"perfmond_reload_failures_total 21",
		"perfmond_cpu_seconds_total 22",
		"perfmond_resident_memory_bytes 23",
		"process_cpu_seconds_total 22",
		"process_start_time_seconds 1700000000.25",
		"process_resident_memory_bytes 23",
		"process_virtual_memory_bytes 26",
		"process_open_fds 27",
		"process_max_fds 7",
		"perfmond_cpus 24",
		"perfmond_cgroups_pushed_out_total 25",
	};

	text = expose(s);
	check_exposition(text);
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		assert_line(text, lines[i]);
	assert_non_null(strstr(text, "\nperfmond_build_info{version=\""));
	/* Nothing is counted: there is nothing but these. */
	assert_null(strstr(text, "perf_"));

	/* What is not known is not shown. */
	s->self.open_fds = SELF_UNKNOWN;
	free(text);
	text = expose(s);
	check_exposition(text);
	assert_null(strstr(text, "process_open_fds"));
}

/* --- the walk, for a writer of another format */

struct recorder {
	size_t families, samples, counters, infos;
	bool ended;
};

static void record_begin(void *userdata, const struct family *family)
{
	struct recorder *recorder = userdata;
	size_t n = strlen(family->name), u = strlen(family->unit);

	recorder->families++;
	recorder->counters += family->type == FAMILY_COUNTER;
	recorder->infos += family->type == FAMILY_INFO;
	/* What a type adds is the writer's; the unit ends the name. */
	assert_null(strstr(family->name, "_total"));
	assert_null(strstr(family->name, "_info"));
	assert_true(n > u && strcmp(family->name + n - u, family->unit) == 0);
}

static void record_measure(void *userdata, const struct series *series, double value)
{
	struct recorder *recorder = userdata;

	(void)value;
	recorder->samples++;
	assert_true(series->target.len == 0 || series->target.text[0] == ',');
	assert_true(series->own.len == 0 || series->own.text[0] == ',');
	assert_false(recorder->ended);
}

static void record_sample(void *userdata, const struct series *series, uint64_t count, const struct scale *scale)
{
	record_measure(userdata, series, (double)count * scale->real);
}

static void record_end(void *userdata)
{
	struct recorder *recorder = userdata;

	recorder->ended = true;
}

static void test_another_writer(void **state)
{
	static const struct family_writer writer = { record_begin, record_sample, record_measure, record_end };
	_cleanup_(snapshot_unrefp) struct snapshot *s = usual_snapshot();
	_cleanup_(walk_freep) struct walk *walk = NULL;
	_cleanup_(freep) char *text = expose(s);
	struct recorder recorder = {};
	size_t lines = 0, comments = 0;

	(void)state;
	assert_int_equal(walk_new(&walk, s, NULL), 0);
	assert_int_equal(walk_families(walk, &writer, &recorder), 0);
	assert_true(recorder.ended);
	assert_int_equal(recorder.infos, 2);
	assert_true(recorder.counters > 10);
	for (const char *p = text; *p; p = strchr(p, '\n') + 1) {
		lines++;
		comments += *p == '#';
	}
	assert_int_equal(recorder.families, comments / 2);
	assert_int_equal(recorder.samples, lines - comments);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_labels_values),
		cmocka_unit_test(test_unit_stands_once),
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_group_times),
		cmocka_unit_test(test_group_times_that_are_equal),
		cmocka_unit_test(test_descendants),
		cmocka_unit_test(test_group_times_of_the_unmeasured),
		cmocka_unit_test(test_several_pmus),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_nasty_labels),
		cmocka_unit_test(test_pmu_counters),
		cmocka_unit_test(test_aggregate),
		cmocka_unit_test(test_aggregate_of_the_unmeasured),
		cmocka_unit_test(test_cgroups_per_cpu),
		cmocka_unit_test(test_lingering_rows),
		cmocka_unit_test(test_containers),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_own_figures),
		cmocka_unit_test(test_another_writer),
	};

	return cmocka_run_group_tests_name("expose", tests, NULL, NULL);
}
