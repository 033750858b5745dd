/* SPDX-License-Identifier: MIT */

/* Plans on a kernel that the test plays: what the real one can't be made to do. */

#include "counting/engine/perf/open.h"
#include "counting/plan/build.h"
#include "setup/count-world.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_plan_sets(void **state)
{
	static const struct text_event mixed[] = {
		{ "page-faults", SW, 2 },
		{ "cycles", HW, 0 },
		{ "x", UNCORE_TYPE, 9 },
	};
	static const struct text_event alone[] = { { "minor-faults", SW, 5 }, { "major-faults", SW, 6 } };
	struct count_world *w = *state;
	const struct scope_plan *plan;

	add_group(w, SCOPE_CPU, "mixed", false, mixed, 3);
	add_group(w, SCOPE_CPU, "alone", true, alone, 2);
	make_plan(w);
	plan = &w->plan->scope[SCOPE_CPU];
	assert_int_equal(plan->nr_columns, 5);
	assert_int_equal(plan->nr_sets, 4);

	/* The hardware event leads, and the software event goes with it, no longer exact. */
	assert_int_equal(plan->sets[0].nr, 2);
	assert_int_equal(plan->sets[0].columns[0], 1);
	assert_int_equal(plan->sets[0].columns[1], 0);
	assert_int_equal(plan->columns[1].member, 0);
	assert_int_equal(plan->columns[0].member, 1);
	assert_false(plan->sets[0].exact);
	assert_int_equal(plan->sets[0].cpus.nr, 3);

	/* An uncore event stands by itself, on its own CPU. */
	assert_int_equal(plan->sets[1].nr, 1);
	assert_int_equal(plan->sets[1].cpus.nr, 1);
	assert_int_equal(plan->sets[1].cpus.cpu[0], 1);

	assert_int_equal(plan->sets[2].nr, 1);
	assert_int_equal(plan->sets[3].nr, 1);
	assert_true(plan->sets[3].exact);
	assert_int_equal(fake_perf.nr_open, 0);
}

/* What an error means depends on the kind of event, and on what the process may do. */
static void test_sentences(_unused_ void **state)
{
	static const struct {
		int error;
		uint32_t type;
		const char *pmu;
		bool no_pmu, sys_admin;
		enum scope scope;
		enum event_state state;
		const char *part;
	} cases[] = {
		{ ENOENT, HW, "cpu", true, false, SCOPE_CPU, EVENT_UNSUPPORTED, "it has no core PMU" },
		{ ENOENT, PERF_TYPE_RAW, "cpu", false, false, SCOPE_CPU, EVENT_UNSUPPORTED,
		  "'cpu' does not have this event" },
		{ EOPNOTSUPP, PERF_TYPE_BREAKPOINT, "breakpoint", false, false, SCOPE_CPU, EVENT_UNSUPPORTED,
		  "no hardware breakpoints of that kind (EOPNOTSUPP)" },
		{ ENOENT, 6, "kprobe", false, false, SCOPE_CPU, EVENT_UNSUPPORTED, "has no such function" },
		{ ENOENT, 9, "msr", false, false, SCOPE_CGROUP, EVENT_UNSUPPORTED, "does not count it per cgroup" },
		{ ENOENT, 9, "msr", false, false, SCOPE_CPU, EVENT_UNSUPPORTED, "PMU 'msr' does not have it" },
		{ EINVAL, PERF_TYPE_BREAKPOINT, "breakpoint", false, false, SCOPE_CPU, EVENT_FAILED,
		  "aligned to its length" },
		{ EINVAL, PERF_TYPE_TRACEPOINT, "tracepoint", false, false, SCOPE_CPU, EVENT_FAILED,
		  "has gone, reload" },
		{ EINVAL, 7, "uprobe", false, false, SCOPE_CGROUP, EVENT_FAILED, "no probe can stand" },
		{ EINVAL, 9, "msr", false, false, SCOPE_CGROUP, EVENT_FAILED, "per CPU only" },
		{ EINVAL, 9, "msr", false, false, SCOPE_CPU, EVENT_FAILED, "has no event with config 0x11" },
		{ ENOSPC, PERF_TYPE_BREAKPOINT, "breakpoint", false, false, SCOPE_CPU, EVENT_FAILED,
		  "all hardware breakpoints of CPU 3 are in use" },
		{ ENOSPC, HW, "cpu", false, false, SCOPE_CPU, EVENT_FAILED, "no counter left for it on CPU 3" },
		{ 524, 7, "uprobe", false, false, SCOPE_CPU, EVENT_FAILED, "not the beginning of one" },
		{ EBADMSG, PERF_TYPE_TRACEPOINT, "tracepoint", false, false, SCOPE_CPU, EVENT_FAILED, "its filter" },
		{ EACCES, 7, "uprobe", false, false, SCOPE_CPU, EVENT_DENIED, "wants CAP_SYS_ADMIN for uprobes" },
		{ EPERM, PERF_TYPE_BREAKPOINT, "breakpoint", false, false, SCOPE_CPU, EVENT_DENIED, "kernel address" },
		{ EACCES, 7, "uprobe", false, true, SCOPE_CPU, EVENT_DENIED, "seccomp" },
		{ EPERM, PERF_TYPE_BREAKPOINT, "breakpoint", false, true, SCOPE_CPU, EVENT_DENIED, "seccomp" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[] = "the event", pmu[32];
		const struct event event = {
			.text = text,
			.pmu = strcpy(pmu, cases[i].pmu),
			.no_pmu = cases[i].no_pmu,
			.attr = { .type = cases[i].type, .config = 0x11 },
		};
		const struct privilege privilege = {
			.paranoid = 2,
			.cap_perfmon = true,
			.cap_sys_admin = cases[i].sys_admin,
		};
		struct reason why;

		assert_int_equal(perf_open_explain(-cases[i].error, &event, cases[i].scope, 3, &privilege, &why),
				 cases[i].state);
		if (!strstr(why.text, cases[i].part))
			fail_msg("%d of %s: '%s' has no '%s'", cases[i].error, cases[i].pmu, why.text, cases[i].part);
	}
}

/* Every errno of a refused event: its state, and what the sentence has to speak of. */
static void test_plan_errnos(void **state)
{
	static const struct {
		int error;
		bool may;
		int paranoid;
		enum event_state state;
		const char *why;
	} cases[] = {
		{ ENOENT, true, 2, EVENT_UNSUPPORTED, "PMU 'cpu' does not have" },
		{ EOPNOTSUPP, true, 2, EVENT_UNSUPPORTED, "PMU 'cpu' does not have" },
		{ ENODEV, true, 2, EVENT_UNSUPPORTED, "offline" },
		{ ENOSYS, true, 2, EVENT_UNSUPPORTED, "seccomp" },
		{ EACCES, false, 2, EVENT_DENIED, "CAP_PERFMON" },
		{ EPERM, false, PARANOID_UNKNOWN, EVENT_DENIED, "CAP_PERFMON" },
		{ EACCES, true, 4, EVENT_DENIED, "seccomp" },
		{ EACCES, false, 0, EVENT_DENIED, "this event needs CAP_PERFMON" },
		{ EPERM, true, 2, EVENT_DENIED, "seccomp" },
		{ EINVAL, true, 2, EVENT_FAILED, "config 0x0" },
		{ EBUSY, true, 2, EVENT_FAILED, "exclusively" },
		{ ENOSPC, true, 2, EVENT_FAILED, "no counter left" },
		{ E2BIG, true, 2, EVENT_UNSUPPORTED, "older than Linux" },
		{ EMFILE, true, 2, EVENT_FAILED, "LimitNOFILE" },
		{ ENFILE, true, 2, EVENT_FAILED, "file-max" },
		{ ENOMEM, true, 2, EVENT_FAILED, "memory" },
		{ EINTR, true, 2, EVENT_FAILED, "ftrace" },
		{ EBADF, true, 2, EVENT_FAILED, "closed meanwhile" },
		{ EFAULT, true, 2, EVENT_FAILED, "attributes" },
		{ EOVERFLOW, true, 2, EVENT_FAILED, "perf_event_max_stack" },
		{ ESRCH, true, 2, EVENT_FAILED, "process" },
		{ EIO, true, 2, EVENT_FAILED, "Input/output" },
	};
	struct count_world *w = *state;

	fake_perf.refuse = refuse_hardware;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct column *column;

		add_group(w, SCOPE_CPU, "core", false, cycles, 1);
		add_group(w, SCOPE_CPU, "software", false, software, 2);
		fake_perf.error = cases[i].error;
		w->privilege.cap_perfmon = cases[i].may;
		w->privilege.paranoid = cases[i].paranoid;
		fake_perf.nr_calls = 0;
		make_plan(w);

		column = &w->plan->scope[SCOPE_CPU].columns[0];
		assert_int_equal(column->state, cases[i].state);
		assert_true(column->set == NO_SET);
		if (!strstr(column->why, cases[i].why))
			fail_msg("%s: %s", strerror(cases[i].error), column->why);
		/* The others are counted; and each was tried once; these two were provoked as well. */
		assert_int_equal(w->plan->scope[SCOPE_CPU].nr_sets, 1);
		assert_int_equal(w->plan->scope[SCOPE_CPU].sets[0].nr, 2);
		assert_int_equal(fake_perf.nr_calls, 5);
	}
}

static int refuse_third(const struct fake_event *event, int nr_members)
{
	return event->attr.type == HW && nr_members >= 2 ? EINVAL : 0;
}

static void test_plan_group_too_large(void **state)
{
	static const struct text_event three[] = {
		{ "cycles", HW, 0 },
		{ "instructions", HW, 1 },
		{ "branches", HW, 4 },
	};
	struct count_world *w = *state;
	const struct scope_plan *plan;

	add_group(w, SCOPE_CPU, "big", false, three, 3);
	add_group(w, SCOPE_CPU, "software", false, software, 2);
	fake_perf.refuse = refuse_third;
	make_plan(w);
	plan = &w->plan->scope[SCOPE_CPU];
	assert_int_equal(plan->nr_sets, 1);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(plan->columns[i].state, EVENT_NEVER_SCHEDULED);
		assert_non_null(strstr(plan->columns[i].why, "'branches'"));
		assert_non_null(strstr(plan->columns[i].why, "'big'"));
	}
	assert_int_equal(plan->columns[3].set, 0);
	assert_int_equal(fake_perf.nr_open, 0);
}

static void test_plan_same_series_twice(void **state)
{
	struct count_world *w = *state;
	struct reason why;

	add_group(w, SCOPE_CGROUP, "a", false, cycles, 2);
	add_group(w, SCOPE_CGROUP, "b", false, cycles, 1);
	assert_int_equal(try_plan(w, &why), -EEXIST);
	assert_non_null(strstr(why.text, "'cycles' in group 'a'"));
	assert_non_null(strstr(why.text, "group 'b'"));
}

/* Names meet by what they become as series, with the unit. */
static void test_plan_series_meet(void **state)
{
	static const struct text_event one[] = { { "a", SW, 1 } }, other[] = { { "a_seconds", HW, 0 } };
	static const struct text_event times[] = { { "group_running", SW, 1 } }, below[] = { { "descendants", SW, 1 } };
	struct count_world *w = *state;
	struct reason why;
	struct group *group;

	group = add_group(w, SCOPE_CPU, "one", false, one, 1);
	group->events.events[0].unit = EVENT_UNIT_SECONDS;
	add_group(w, SCOPE_CPU, "other", false, other, 1);
	assert_int_equal(try_plan(w, &why), -EEXIST);
	assert_non_null(strstr(why.text, "'a_seconds'"));

	group = add_group(w, SCOPE_CPU, "times", false, times, 1);
	group->events.events[0].unit = EVENT_UNIT_SECONDS;
	assert_int_equal(try_plan(w, &why), -EEXIST);
	assert_non_null(strstr(why.text, "'group_running_seconds'"));

	add_group(w, SCOPE_CGROUP, "below", false, below, 1);
	assert_int_equal(try_plan(w, &why), -EEXIST);
	assert_non_null(strstr(why.text, "'descendants'"));

	/* One event on several PMUs is one family. */
	for (int i = 0; i < 2; i++) {
		group = add_group(w, SCOPE_CPU, i ? "atom" : "core", false, cycles, 1);
		group->events.events[0].by_pmu = true;
		free(group->events.events[0].pmu);
		group->events.events[0].pmu = strdup(i ? "cpu_atom" : "cpu_core");
	}
	make_plan(w);
}

/* States and JSON name an event without its unit: two that differ by it alone can't be told apart there. */
static void test_plan_names_differ_by_unit(void **state)
{
	static const struct text_event one[] = { { "a", SW, 1 } }, other[] = { { "a", SW, 2 } };
	struct count_world *w = *state;
	struct reason why;
	struct group *group;

	for (int same_group = 0; same_group < 2; same_group++) {
		group = add_group(w, SCOPE_CPU, "one", false, one, 1);
		group->events.events[0].unit = EVENT_UNIT_SECONDS;
		add_group(w, SCOPE_CPU, same_group ? "one" : "other", false, other, 1);
		assert_int_equal(try_plan(w, &why), -EEXIST);
		assert_non_null(strstr(why.text, "'a' in group 'one'"));
		assert_non_null(strstr(why.text, "are both counted per CPU as 'a': leave one out"));
	}

	/* A scope is one thing, the other another. */
	group = add_group(w, SCOPE_CPU, "one", false, one, 1);
	group->events.events[0].unit = EVENT_UNIT_SECONDS;
	add_group(w, SCOPE_CGROUP, "other", false, other, 1);
	make_plan(w);
}

static void test_plan_absent_and_uncountable(void **state)
{
	static const struct text_event uncore[] = { { "x", UNCORE_TYPE, 9 } };
	struct count_world *w = *state;
	struct group *group = add_group(w, SCOPE_CGROUP, "core", false, cycles, 2);
	const struct column *columns;

	group->events.events[0].absent = -EACCES;
	group->events.events[0].why_absent = strdup("tracefs is root's");
	group->events.events[1].absent = -ENOENT;
	group->events.events[1].why_absent = strdup("no such PMU");
	add_group(w, SCOPE_CGROUP, "uncore", false, uncore, 1);
	make_plan(w);
	columns = w->plan->scope[SCOPE_CGROUP].columns;
	assert_int_equal(columns[0].state, EVENT_DENIED);
	assert_string_equal(columns[0].why, "tracefs is root's");
	assert_int_equal(columns[1].state, EVENT_UNSUPPORTED);
	assert_string_equal(columns[1].why, "no such PMU");
	assert_int_equal(columns[2].state, EVENT_UNSUPPORTED);
	assert_int_equal(fake_perf.nr_calls, 0);
	assert_int_equal(w->plan->scope[SCOPE_CGROUP].nr_sets, 0);
}

/* Offline, or excluded. */
static void test_plan_no_cpu(void **state)
{
	static const struct text_event uncore[] = { { "x", UNCORE_TYPE, 9 } };
	struct count_world *w = *state;
	const struct column *column;

	cpulist_release(&w->cpus);
	assert_int_equal(cpulist_parse(&w->cpus, "0,5"), 0);
	add_group(w, SCOPE_CPU, "uncore", false, uncore, 1);
	make_plan(w);
	column = w->plan->scope[SCOPE_CPU].columns;
	assert_int_equal(column->state, EVENT_UNSUPPORTED);
	assert_string_equal(column->why,
			    "its PMU counts on CPU 1 only, which is offline or left alone by [cpu] exclude");
	assert_int_equal(fake_perf.nr_calls, 0);
}

static void test_plan_no_cgroups(void **state)
{
	struct count_world *w = *state;
	struct reason why;

	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	w->no_cgroups = "no hierarchy";
	safe_close(steal_fd(&w->root_fd));
	assert_int_equal(try_plan(w, &why), 0);
	assert_int_equal(w->plan->scope[SCOPE_CGROUP].columns[0].state, EVENT_UNSUPPORTED);
	assert_string_equal(w->plan->scope[SCOPE_CGROUP].columns[0].why, "no hierarchy");
}

/* Has the events per CPU and per cgroup, as an engine that credits would take them. */
static void align(struct count_world *w, const struct text_event *on_cpus, size_t nr_cpus,
		  const struct text_event *credited, size_t nr_credited)
{
	add_group(w, SCOPE_CPU, "machine", false, on_cpus, nr_cpus);
	add_group(w, SCOPE_CGROUP, "services", false, credited, nr_credited);
	make_plan(w);
	for (size_t i = 0; i < w->plan->scope[SCOPE_CGROUP].nr_sets; i++)
		w->plan->scope[SCOPE_CGROUP].sets[i].credited = true;
	assert_int_equal(plan_align_credited(w->plan), 0);
}

static void assert_set(const struct scope_plan *plan, size_t set, const char *names)
{
	struct buf found = {};

	for (size_t i = 0; i < plan->sets[set].nr; i++) {
		const struct column *column = &plan->columns[plan->sets[set].columns[i]];

		assert_int_equal(column->set, set);
		assert_int_equal(column->member, i);
		buf_printf(&found, "%s%s", i ? " " : "", column->event->text);
	}
	assert_string_equal(found.data, names);
	buf_release(&found);
}

/* Events in the software context are shared whatever else is in their groups. */
static void test_align_software(void **state)
{
	static const struct text_event machine[] = { { "a", SW, 2 }, { "b", SW, 3 }, { "c", SW, 4 }, { "d", SW, 5 } };
	static const struct text_event services[] = { { "e", SW, 6 }, { "d", SW, 5 }, { "b", SW, 3 }, { "f", SW, 7 } };
	struct count_world *w = *state;
	const struct scope_plan *cpus, *cgroups;

	align(w, machine, 4, services, 4);
	cpus = &w->plan->scope[SCOPE_CPU];
	cgroups = &w->plan->scope[SCOPE_CGROUP];
	assert_int_equal(cpus->nr_sets, 2);
	assert_set(cpus, 0, "b d");
	assert_set(cpus, 1, "a c");
	assert_int_equal(cgroups->nr_sets, 2);
	assert_set(cgroups, 0, "b d");
	assert_set(cgroups, 1, "e f");
	assert_true(cgroups->sets[1].credited);
	assert_false(cgroups->sets[1].part);
	assert_int_equal(plan_find_alike(w->plan, &cgroups->sets[0]), 0);
	assert_int_equal(plan_find_alike(w->plan, &cgroups->sets[1]), NO_SET);
	/* Both have the group's times. */
	assert_int_equal(set_with_times(cgroups, 1), 0);
	assert_int_equal(set_with_times(cpus, 1), 0);
}

/* Hardware events are shared as a group: all of them, under whatever name and in whatever order. */
static void test_align_hardware(void **state)
{
	static const struct text_event machine[] = { { "x", HW, 0 }, { "s", SW, 2 }, { "y", HW, 1 } };
	static const struct text_event same[] = { { "s", SW, 2 }, { "y", HW, 1 }, { "x", HW, 0 } };
	struct count_world *w = *state;

	align(w, machine, 3, same, 3);
	assert_set(&w->plan->scope[SCOPE_CPU], 0, "x s y");
	assert_set(&w->plan->scope[SCOPE_CGROUP], 0, "x s y");
	assert_int_equal(plan_find_alike(w->plan, &w->plan->scope[SCOPE_CGROUP].sets[0]), 0);
}

static void test_align_part_of_hardware(void **state)
{
	static const struct text_event machine[] = { { "x", HW, 0 }, { "s", SW, 2 }, { "y", HW, 1 } };
	static const struct text_event fewer[] = { { "y", HW, 1 }, { "s", SW, 2 } };
	struct count_world *w = *state;

	align(w, machine, 3, fewer, 2);
	assert_set(&w->plan->scope[SCOPE_CPU], 0, "x s y");
	assert_set(&w->plan->scope[SCOPE_CGROUP], 0, "y s");
	assert_int_equal(plan_find_alike(w->plan, &w->plan->scope[SCOPE_CGROUP].sets[0]), NO_SET);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_plan_sets),
		TEST(test_sentences),
		TEST(test_plan_errnos),
		TEST(test_plan_group_too_large),
		TEST(test_plan_same_series_twice),
		TEST(test_plan_series_meet),
		TEST(test_plan_names_differ_by_unit),
		TEST(test_plan_absent_and_uncountable),
		TEST(test_plan_no_cpu),
		TEST(test_plan_no_cgroups),
		TEST(test_align_software),
		TEST(test_align_hardware),
		TEST(test_align_part_of_hardware),
	};

	return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
