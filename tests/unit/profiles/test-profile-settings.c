/* SPDX-License-Identifier: MIT */

/* From the text of a config to what the profiler is told: on made machines, whose events count or do not as a test
 * says. */

#include "counting/event/firing.h"
#include "service/profiles/profile-settings.h"
#include "setup/configs.h"
#include "setup/machines.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

/* Why no event counts; NULL: each does. */
static const char *missed;
static unsigned nr_provoked;
/* The file that was left to the caller. */
static int left_open = -1;

bool __wrap_event_fires(const struct event *event, int *ret_fd, struct reason *why);
bool __wrap_event_fires(const struct event *event, int *ret_fd, struct reason *why)
{
	nr_provoked++;
	*ret_fd = event_is_slow_to_close(event) ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
	left_open = *ret_fd;
	if (missed)
		reason_set(why, 0, "%s does not count: %s", event->text, missed);
	return !missed;
}

static struct profiler_settings make(const struct config *config, const struct tree_file *files)
{
	struct machine machine = machine_new(files);
	struct cpulist cpus = { .cpu = (int[]){ 0, 2 }, .nr = 2 };
	struct profiler_settings settings = {};
	struct reason why = {};
	int r = profile_settings_make(&settings, config, &cpus, &machine.env, NULL, &why);

	machine_release(&machine);
	if (r < 0)
		fail_msg("%d: %s", r, why.text);
	return settings;
}

static struct profiler_settings settings_of(const char *text, const struct tree_file *files)
{
	_cleanup_(config_freep) struct config *config = parsed(text);

	return make(config, files);
}

/* The settings can be told as they are. */
static void expect_tellable(const struct profiler_settings *settings)
{
	_cleanup_(buf_release) struct buf bytes = {};
	_cleanup_(profiler_settings_release) struct profiler_settings again = {};

	write_settings(&bytes, settings);
	assert_false(bytes.failed);
	assert_int_equal(read_settings(&again, bytes.data, bytes.len), 0);
	assert_int_equal(again.nr_events, settings->nr_events);
}

static void expect_part(const char *text, const char *part)
{
	if (!text || !strstr(text, part))
		fail_msg("'%s' does not tell '%s'", text ?: "(null)", part);
}

static void test_default(_unused_ void **state)
{
	_cleanup_(profiler_settings_release) struct profiler_settings settings = settings_of("", machine_intel);
	const struct sampled_event *event = settings.events;

	assert_int_equal(settings.nr_events, 1);
	assert_string_equal(event->name, PROFILE_CPU_CLOCK);
	assert_string_equal(event->key, "cpu-clock=cpu-clock");
	assert_int_equal(event->rate, 19);
	assert_int_equal(event->period, 0);
	assert_int_equal(event->stack_bytes, 32 * 1024);
	assert_string_equal(event->unit, "seconds");
	assert_true(event->scale > 0.9e-9 && event->scale < 1.1e-9);
	assert_null(event->problem);
	assert_int_equal(event->nr, 1);
	assert_true(sampled_event_is_clock(event));
	assert_int_equal(event->variants[0].cpus.nr, 0);
	assert_null(event->variants[0].probe);
	assert_int_equal(settings.cpus.nr, 2);
	assert_int_equal(settings.cpus.cpu[1], 2);
	assert_int_equal(settings.memory, 8 * MIB);
	assert_int_equal(settings.capture_memory, 8 * MIB);
	assert_int_equal(settings.nr_include, 1);
	assert_string_equal(settings.include[0], "**");
	assert_int_equal(settings.nr_exclude, 0);
	assert_int_equal(settings.nr_keeps, 0);
	assert_string_equal(settings.procfs, "/proc");
	expect_tellable(&settings);
}

static void test_all(_unused_ void **state)
{
	_cleanup_(profiler_settings_release) struct profiler_settings settings =
		settings_of("[daemon]\nprocfs = /p\n"
			    "[profiles]\nrate = 100\nmemory = 16MiB\ncapture_memory = 4MiB\n"
			    "include = /a/* /b\nexclude = /a/x\n"
			    "[profile \"faults\"]\nevent = page-faults\nperiod = 1000\n"
			    "[profile \"switches\"]\nevent = sched:sched_switch\nrate = 7\nstack_bytes = 8KiB\n"
			    "[capture \"busy\"]\nwhen = task-clock > 1\nkeep = 4\n"
			    "[capture \"idle\"]\nwhen = page-faults > 9\nkeep = 1000\n",
			    machine_intel);
	const struct sampled_event *faults = &settings.events[1], *switches = &settings.events[2];

	assert_int_equal(settings.nr_events, 3);
	assert_int_equal(settings.events[0].rate, 100);
	assert_int_equal(settings.events[0].stack_bytes, 0);
	assert_string_equal(faults->name, "faults");
	assert_string_equal(faults->key, "faults=page-faults");
	assert_int_equal(faults->period, 1000);
	assert_int_equal(faults->rate, 0);
	assert_int_equal(faults->stack_bytes, 0);
	assert_string_equal(faults->unit, "count");
	assert_true(faults->scale == 1);
	assert_false(faults->variants[0].is_slow_to_close);
	assert_string_equal(switches->key, "switches=sched:sched_switch");
	assert_int_equal(switches->rate, 7);
	assert_int_equal(switches->stack_bytes, 8 * 1024);
	assert_int_equal(switches->period, 0);
	assert_int_equal(switches->variants[0].attr.attr.type, PERF_TYPE_TRACEPOINT);
	assert_int_equal(switches->variants[0].attr.attr.config, 372);
	assert_true(switches->variants[0].is_slow_to_close);
	assert_int_equal(settings.memory, 16 * MIB);
	assert_int_equal(settings.capture_memory, 4 * MIB);
	assert_int_equal(settings.nr_include, 2);
	assert_string_equal(settings.include[0], "/a/*");
	assert_string_equal(settings.include[1], "/b");
	assert_int_equal(settings.nr_exclude, 1);
	assert_string_equal(settings.exclude[0], "/a/x");
	assert_int_equal(settings.nr_keeps, 2);
	assert_string_equal(settings.keeps[0].rule, "busy");
	assert_int_equal(settings.keeps[0].nr, 4);
	assert_string_equal(settings.keeps[1].rule, "idle");
	assert_int_equal(settings.keeps[1].nr, 1000);
	assert_string_equal(settings.procfs, "/p");
	expect_tellable(&settings);
}

/* Whatever else is configured; what is kept of captures is told all the same. */
static void test_off(_unused_ void **state)
{
	_cleanup_(profiler_settings_release) struct profiler_settings settings =
		settings_of("[profiles]\nenabled = no\n"
			    "[profile \"faults\"]\nevent = page-faults\nperiod = 10\n"
			    "[capture \"busy\"]\nwhen = task-clock > 1\nkeep = 4\n",
			    machine_intel);

	assert_int_equal(settings.nr_events, 0);
	assert_int_equal(settings.nr_keeps, 1);
	expect_tellable(&settings);
}

/* Each kind of core has its own event: the first that fits a CPU is its. */
static void test_variants(_unused_ void **state)
{
	_cleanup_(profiler_settings_release) struct profiler_settings settings =
		settings_of("[profile \"c\"]\nevent = cpu-cycles\nperiod = 10\n", machine_hybrid);
	const struct sampled_event *event = &settings.events[1];

	assert_int_equal(event->nr, 2);
	for (size_t i = 0; i < event->nr; i++) {
		const struct cpulist *cpus = &event->variants[i].cpus;
		bool is_atom = cpus->nr == 8;

		assert_int_equal(cpus->nr, is_atom ? 8 : 16);
		assert_int_equal(cpus->cpu[0], is_atom ? 16 : 0);
	}
	assert_true(event->variants[0].cpus.nr != event->variants[1].cpus.nr);
	assert_null(event->problem);
	expect_tellable(&settings);
}

/* Those that this machine lacks are told with the reason. */
static void test_absent(_unused_ void **state)
{
	_cleanup_(profiler_settings_release) struct profiler_settings settings =
		settings_of("[profile \"t\"]\nevent = sched:gone\nperiod = 10\n"
			    "[profile \"e\"]\nevent = power/energy-pkg/\nperiod = 1\n"
			    "[profile \"f\"]\nevent = page-faults\nperiod = 10\n",
			    machine_server);

	assert_int_equal(settings.nr_events, 4);
	expect_part(settings.events[1].problem, "no tracepoint 'sched:gone'");
	assert_int_equal(settings.events[1].nr, 0);
	expect_part(settings.events[2].problem,
		    "power/energy-pkg/ is a device's event, and has no tasks to be sampled");
	assert_null(settings.events[3].problem);
	assert_int_equal(settings.events[3].nr, 1);
	expect_tellable(&settings);
}

static void test_not_counting(_unused_ void **state)
{
	_cleanup_(profiler_settings_release) struct profiler_settings settings = {};

	missed = "nobody knows why";
	nr_provoked = 0;
	settings = settings_of("[profile \"s\"]\nevent = sched:sched_switch\nperiod = 10\n", machine_intel);
	missed = NULL;
	assert_int_equal(nr_provoked, 2);
	assert_string_equal(settings.events[0].problem, "cpu-clock does not count: nobody knows why");
	assert_string_equal(settings.events[1].problem, "sched:sched_switch does not count: nobody knows why");
	/* Files that are slow to close were handed over. */
	assert_true(left_open >= 0);
	assert_int_equal(fcntl(left_open, F_GETFD), -1);
	expect_tellable(&settings);
}

/* Whatever is wrong on any machine is refused, with its place, and leaves nothing behind. */
static void test_wrong(_unused_ void **state)
{
	static const struct {
		const char *event, *why;
	} cases[] = {
		{ "page-faults, cycles", "f:5: event: one event is sampled, not several; make a section for each" },
		{ "sched:sched_switch/filter=/", "f:5: event: " },
		{ "page-faults:q", "f:5: event: " },
	};
	struct machine machine = machine_new(machine_intel);

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		_cleanup_(buf_release) struct buf text = {};
		_cleanup_(config_freep) struct config *config = NULL;
		struct profiler_settings settings = { .memory = 77 };
		struct event_list events = {};
		struct reason check = {}, made = {}, listed = {};
		const struct cpulist cpus = {};

		buf_printf(&text,
			   "[profile \"good\"]\nevent = page-faults\nperiod = 1\n[profile \"p\"]\nevent = %s\n%s",
			   cases[i].event, "period = 10\n");
		assert_false(text.failed);
		config = parsed(text.data);
		assert_int_equal(profile_settings_check(config, &machine.env, &check), -EINVAL);
		assert_int_equal(profile_settings_make(&settings, config, &cpus, &machine.env, NULL, &made), -EINVAL);
		assert_int_equal(profile_settings_events(&events, config, &machine.env, "p", &listed), -EINVAL);
		if (strncmp(check.text, cases[i].why, strlen(cases[i].why)) != 0)
			fail_msg("%s: %s", cases[i].event, check.text);
		assert_string_equal(made.text, check.text);
		assert_string_equal(listed.text, check.text);
		assert_int_equal(settings.memory, 77);
		assert_int_equal(events.nr, 0);
	}
	machine_release(&machine);
}

static void test_check(_unused_ void **state)
{
	struct machine machine = machine_new(machine_intel);
	_cleanup_(config_freep) struct config *config = parsed(
		"[profile \"a\"]\nevent = sched:gone\nperiod = 10\n[profile \"b\"]\nevent = cycles\nrate = 10\n");
	struct reason why = {};

	/* An event of another machine is no mistake. */
	assert_int_equal(profile_settings_check(config, &machine.env, &why), 0);
	assert_string_equal(why.text, "");
	machine_release(&machine);
}

static void expect_events(const struct config *config, const struct machine *machine, const char *name,
			  const char *text)
{
	struct event_list list = {};
	struct reason why = {};

	assert_int_equal(profile_settings_events(&list, config, &machine->env, name, &why), 0);
	assert_int_equal(list.nr, text ? 1 : 0);
	if (text)
		assert_string_equal(list.events[0].text, text);
	event_list_release(&list);
}

static void test_events(_unused_ void **state)
{
	struct machine machine = machine_new(machine_intel);
	_cleanup_(config_freep) struct config *config = parsed("[profile \"f\"]\nevent = page-faults\nperiod = 10\n");

	expect_events(config, &machine, PROFILE_CPU_CLOCK, "cpu-clock");
	expect_events(config, &machine, "f", "page-faults");
	expect_events(config, &machine, "g", NULL);
	machine_release(&machine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_default),	 cmocka_unit_test(test_all),	cmocka_unit_test(test_off),
		cmocka_unit_test(test_variants), cmocka_unit_test(test_absent), cmocka_unit_test(test_not_counting),
		cmocka_unit_test(test_wrong),	 cmocka_unit_test(test_check),	cmocka_unit_test(test_events),
	};

	return cmocka_run_group_tests_name("profile-settings", tests, NULL, NULL);
}
