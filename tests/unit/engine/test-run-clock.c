/* SPDX-License-Identifier: MIT */

/* The clock in the groups of cgroups, and readings that can't be true, on a played kernel that says wrong times. */

#include "counting/engine/perf/perf.h"
#include "setup/count-restart.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define ALL ROW_ALL_CPUS
#define HZ_ANY 10U /* per ns: no CPU has more cycles */

/* "core" is counted in the cgroup a. */
static struct cgroup *begin(struct count_world *w)
{
	make_dir(w, "a");
	make_dir(w, "b");
	make_dir(w, "c");
	add_group(w, SCOPE_CGROUP, "core", false, cycles, 2);
	start(w);
	return add_cgroup(w, "/a");
}

/* a's group on a CPU is enabled and runs for ms, by the kernel and by the clock. */
static void run(const struct cgroup *a, int cpu, uint64_t enabled, uint64_t running, uint64_t clock, uint64_t by)
{
	fake_run_clocked(a->identity->id, cpu, enabled * MS, running * MS, clock * MS, by);
	fake_perf.clock += enabled * MS;
}

static void run_cpu(int cpu, uint64_t enabled, uint64_t running, uint64_t by)
{
	fake_run(0, cpu, enabled * MS, running * MS, by);
	fake_perf.clock += enabled * MS;
}

static uint64_t lies(const struct count_world *w, enum lie lie)
{
	return session_stats(w->session).lies[lie];
}

static const struct totals_times *times_of(const struct count_world *w, const struct cgroup *a)
{
	return &row_of(w, ALL, a)->times[0];
}

/* The clock is a member that no column shows; software events need none, nor do CPUs. */
static void test_what_is_opened(void **state)
{
	struct count_world *w = *state;
	const struct fake_event *clock;
	const struct cgroup *a;

	make_dir(w, "a");
	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	add_group(w, SCOPE_CGROUP, "core", false, cycles, 2);
	add_group(w, SCOPE_CGROUP, "tasks", false, software, 2);
	start(w);
	assert_int_equal(w->plan->scope[SCOPE_CGROUP].nr_columns, 4);
	assert_int_equal(session_fds_per_cgroup(w->session), 3 * (2 + 1 + 2));
	assert_int_equal(session_fds_of_cpus(w->session), 3 * 2);
	assert_int_equal(session_add_cpus(w->session), 0);
	a = add_cgroup(w, "/a");
	assert_int_equal(fake_perf.nr_open, 6 + 15);
	assert_int_equal(session_stats(w->session).fds, 6 + 15);
	clock = fake_find(SW, PERF_COUNT_SW_CPU_CLOCK, 5, a->identity->id);
	/* Right behind the leader, so that it is stopped before the others are. */
	assert_ptr_equal(clock - 1, fake_find(HW, 0, 5, a->identity->id));
	assert_int_equal(fake_perf.events[clock->leader].attr.type, HW);
	assert_null(fake_look(SW, PERF_COUNT_SW_CPU_CLOCK, 5, 0));
	session_remove_cgroup(w->session, a, false);
	assert_int_equal(fake_perf.nr_open, 6);
}

/* Where the kernel loses the clock at a cgroup's switches, what needs it is not counted there; on CPUs it is. */
static void test_a_kernel_that_loses_the_clock(void **state)
{
	static const struct text_event clocks[] = { { "cpu-clock", SW, 0 }, { "task-clock", SW, 1 } };
	struct count_world *w = *state;

	fake_perf.loses_clock = true;
	make_dir(w, "a");
	for (enum scope scope = 0; scope < _SCOPE_MAX; scope++) {
		add_group(w, scope, "core", false, cycles, 2);
		add_group(w, scope, "clocks", false, clocks, 2);
	}
	start(w);
	for (size_t i = 0; i < 4; i++)
		assert_state(w, SCOPE_CPU, i, EVENT_OK, NULL);
	for (size_t i = 0; i < 2; i++)
		assert_state(w, SCOPE_CGROUP, i, EVENT_UNSUPPORTED, "loses what cpu-clock has counted");
	assert_state(w, SCOPE_CGROUP, 2, EVENT_UNSUPPORTED, ": count task-clock, or use [cgroup] engine = bpf");
	assert_state(w, SCOPE_CGROUP, 3, EVENT_OK, NULL);
}

/* Nor does that matter to engine bpf, which credits cgroups with the CPUs' events. */
static void test_the_clock_is_not_lost_on_cpus(void **state)
{
	struct count_world *w = *state;
	struct engine_probe probe = { .engine = &engine_perf, .scope = SCOPE_CGROUP, .cpus = &w->cpus };
	struct scope_plan *plan;
	struct column *column;

	add_group(w, SCOPE_CGROUP, "core", false, cycles, 2);
	start(w);
	fake_perf.loses_clock = true;
	plan = &w->plan->scope[SCOPE_CGROUP];
	column = &plan->columns[0];
	probe.cgroup_fd = -1;
	assert_int_equal(engine_perf.try_column(plan, 0, &probe), 0);
	assert_int_equal(column->state, EVENT_OK);
	probe.cgroup_fd = w->root_fd;
	assert_int_equal(engine_perf.try_column(plan, 0, &probe), 0);
	assert_int_equal(column->state, EVENT_UNSUPPORTED);
}

/* What ran all of the time is not scaled, whatever little the clock misses. */
static void test_all_of_the_time(void **state)
{
	struct count_world *w = *state;
	const struct cgroup *a = begin(w);

	run(a, 0, 10, 10, 10, 7);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, a, 0, true, 7);
	run(a, 0, 100, 100, 60, 100);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, a, 0, true, 107);
	assert_int_equal(times_of(w, a)->running, 110 * MS);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_OK, NULL);
	/* Nor what it misses each time, or has more. */
	for (uint64_t i = 1; i <= 10; i++) {
		run(a, 0, 100, 100, i < 5 ? 70 : 130, 10);
		session_tick(w->session, NULL);
		assert_cell(w, ALL, a, 0, true, 107 + 10 * i);
		assert_int_equal(times_of(w, a)->running, (110 + 100 * i) * MS);
		assert_state(w, SCOPE_CGROUP, 0, EVENT_OK, NULL);
	}
}

/* A kernel that has said false times is believed less, also after a reload. */
static void test_once_found_false(void **state)
{
	struct count_world *w = *state;
	const struct cgroup *a = begin(w);
	struct session *old;

	run(a, 1, 1000, 600, 200, 1);
	run(a, 0, 1000, 1000, 800, 4);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, a, 0, true, 5 + 4);
	add_group(w, SCOPE_CGROUP, "core", false, cycles, 2);
	old = reload_begin(w);
	(void)add_cgroup(w, "/a");
	takeover_end(w, old);
	run(a, 0, 1000, 1000, 800, 4);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, a, 0, true, 5 + 4 + 5);
}

/* The clock is believed, whatever the kernel says. */
static void test_wrong_running_time(void **state)
{
	static const uint64_t said[] = { 0, 50, 250, 700, 1000 };
	struct count_world *w = *state;
	const struct cgroup *a = begin(w);

	for (size_t i = 0; i < ARRAY_SIZE(said); i++) {
		run(a, 0, 1000, said[i], 250, 100);
		session_tick(w->session, NULL);
		assert_cell(w, ALL, a, 0, true, 400 * (i + 1));
		assert_int_equal(times_of(w, a)->running, 250 * MS * (i + 1));
		assert_state(w, SCOPE_CGROUP, 0, EVENT_MULTIPLEXED, "ran 25 %");
	}
	assert_int_equal(lies(w, LIE_TIME), 0);
}

/* What was observed for too little time is not scaled. The next reading covers it. */
static void test_too_little(void **state)
{
	struct count_world *w = *state;
	const struct cgroup *a = begin(w);

	run(a, 0, 1000, 20, 20, 1);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, a, 0, false, 0);
	run(a, 0, 1000, 20, 20, 1);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, a, 0, false, 0);
	run(a, 0, 1000, 20, 20, 1);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, a, 0, true, 3 * 50);
	assert_int_equal(times_of(w, a)->enabled, 3000 * MS);
	assert_int_equal(times_of(w, a)->running, 60 * MS);
}

/* At its end, one that was never observed enough is absent. Of one that was, the rest needs no more than a turn. */
static void test_the_last_reading(void **state)
{
	struct count_world *w = *state;
	const struct cgroup *a = begin(w), *b = add_cgroup(w, "/b"), *c = add_cgroup(w, "/c");

	run(a, 0, 200, 40, 40, 10);
	run(b, 0, 500, 100, 100, 10);
	run(c, 0, 500, 100, 100, 10);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, a, 0, false, 0);
	assert_cell(w, ALL, b, 0, true, 50);
	run(b, 0, 50, 10, 10, 2);
	run(c, 0, 20, 4, 4, 2);
	session_read(w->session);
	assert_cell(w, ALL, b, 0, true, 50);
	session_remove_cgroup(w->session, a, true);
	session_remove_cgroup(w->session, b, true);
	session_remove_cgroup(w->session, c, true);
	assert_cell(w, ALL, a, 0, false, 0);
	assert_cell(w, ALL, b, 0, true, 60);
	assert_cell(w, ALL, c, 0, true, 50);
}

/* The kernel's enabled time lags: the reading waits, and its time and counts are there when it has caught up. */
static void test_lag(void **state)
{
	struct count_world *w = *state;
	const struct cgroup *a = begin(w);

	run(a, 0, 0, 0, 300, 30);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, a, 0, false, 0);
	assert_int_equal(lies(w, LIE_TIME), 1);
	run(a, 0, 2000, 2000, 300, 30);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, a, 0, true, 200);
	assert_int_equal(times_of(w, a)->enabled, 2000 * MS);
	assert_int_equal(times_of(w, a)->running, 600 * MS);

	/* Once more, within an interval in which another CPU tells the share. */
	run(a, 0, 0, 0, 400, 40);
	run(a, 1, 1000, 1000, 250, 10);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_MULTIPLEXED, "which lags behind");
	assert_cell(w, ALL, a, 0, true, 240);
	run(a, 0, 1600, 0, 0, 0);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, a, 0, true, 400);
	assert_int_equal(lies(w, LIE_TIME), 2);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_MULTIPLEXED, "totals are estimated");
}

/* At the end of a cgroup what was counted is certain, if not all there was. */
static void test_lag_at_the_end(void **state)
{
	struct count_world *w = *state;
	const struct cgroup *a = begin(w);

	run(a, 0, 0, 0, 300, 30);
	session_remove_cgroup(w->session, a, true);
	assert_int_equal(row_of(w, ALL, a)->cells[0].total, 30);
}

/* A kernel's time that can't be: it is waited for, and then counting begins anew. */
static void test_times_that_cant_be(void **state)
{
	struct count_world *w = *state;
	const struct cgroup *a = begin(w);
	struct fake_event *leader = fake_find(HW, 0, 0, a->identity->id);
	uint64_t uptime = 100000ULL * SECOND;

	run(a, 0, 1000, 500, 500, 10);
	leader->enabled += uptime;
	session_tick(w->session, NULL);
	assert_cell(w, ALL, a, 0, false, 0);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_FAILED, "times of it can't be true");
	/* Only for a moment. */
	leader->enabled -= uptime;
	session_tick(w->session, NULL);
	assert_cell(w, ALL, a, 0, true, 20);
	assert_int_equal(lies(w, LIE_TIME), 1);

	/* For good: what was counted until the third reading is lost, and nothing after it. */
	leader->enabled += uptime;
	for (int i = 0; i < 4; i++) {
		run(a, 0, 1000, 500, 500, 10);
		session_tick(w->session, NULL);
		assert_cell(w, ALL, a, 0, true, i < 3 ? 20 : 40);
	}
	assert_int_equal(lies(w, LIE_TIME), 4);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_MULTIPLEXED, "ran 50 %");
	assert_true(times_of(w, a)->enabled < 60ULL * SECOND);
}

/* More cycles than any CPU's clock makes, in the time that the group ran. */
static void test_too_many_cycles(void **state)
{
	struct count_world *w = *state;
	const struct cgroup *a = begin(w);

	run(a, 0, 1000, 500, 500, 500 * (uint64_t)MS * HZ_ANY);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, a, 0, true, 1000 * (uint64_t)MS * HZ_ANY);
	run(a, 0, 1000, 500, 500, 600 * (uint64_t)MS * HZ_ANY);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, a, 0, true, 1000 * (uint64_t)MS * HZ_ANY);
	assert_int_equal(lies(w, LIE_CYCLES), 1);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_FAILED, "'cycles' where the CPU's clock makes");
	/* All of it is added as soon as it can be true. */
	run(a, 0, 1000, 500, 500, 300 * (uint64_t)MS * HZ_ANY);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, a, 0, true, 2800 * (uint64_t)MS * HZ_ANY);
	assert_int_equal(lies(w, LIE_CYCLES), 1);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_MULTIPLEXED, "ran 50 %");

	/* A counter that has jumped is given up after three readings. */
	fake_find(HW, 0, 0, a->identity->id)->value += 1ULL << 60;
	for (int i = 0; i < 4; i++) {
		run(a, 0, 1000, 500, 500, 10);
		session_tick(w->session, NULL);
	}
	assert_cell(w, ALL, a, 0, true, 2800 * (uint64_t)MS * HZ_ANY + 20);
	assert_int_equal(lies(w, LIE_CYCLES), 4);
}

/* CPUs have a clock as well. Other events have none. */
static void test_too_many_on_a_cpu(void **state)
{
	static const struct text_event two[] = { { "instructions", HW, 1 }, { "cycles", HW, 0 } };
	struct count_world *w = *state;

	add_group(w, SCOPE_CPU, "core", true, two, 2);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	run_cpu(1, 100, 50, 100 * (uint64_t)MS * HZ_ANY);
	session_tick(w->session, NULL);
	assert_cell(w, 1, NULL, 0, true, 200 * (uint64_t)MS * HZ_ANY);
	assert_cell(w, 1, NULL, 1, false, 0);
	assert_state(w, SCOPE_CPU, 1, EVENT_FAILED, "on CPU 1");
	assert_state(w, SCOPE_CPU, 0, EVENT_MULTIPLEXED, "ran 50 %");
	assert_int_equal(lies(w, LIE_CYCLES), 1);
}

static void write_cpufreq(const char *root, const char *name, const char *text)
{
	char command[256];

	snprintf(command, sizeof(command), "d=%s/devices/system/cpu/cpu1/cpufreq; mkdir -p $d && echo %s >$d/%s", root,
		 text, name);
	assert_int_equal(system(command), 0);
}

/* By the clock that a driver knows; it can rise, as when turbo is switched on. */
static void test_the_cpus_own_clock(void **state)
{
	static const struct text_event one[] = { { "cycles", HW, 0 } };
	struct count_world *w = *state;
	char sysroot[128];

	snprintf(sysroot, sizeof(sysroot), "%s/sys", w->dir);
	write_cpufreq(sysroot, "scaling_driver", "intel_pstate");
	write_cpufreq(sysroot, "cpuinfo_max_freq", "2000000");
	w->options.sysroot = sysroot;
	add_group(w, SCOPE_CPU, "core", false, one, 1);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	/* A quarter more. */
	run_cpu(1, 1000, 1000, 2400 * (uint64_t)MS);
	session_tick(w->session, NULL);
	assert_cell(w, 1, NULL, 0, true, 2400 * (uint64_t)MS);
	run_cpu(1, 1000, 1000, 2600 * (uint64_t)MS);
	session_tick(w->session, NULL);
	assert_cell(w, 1, NULL, 0, true, 2400 * (uint64_t)MS);
	write_cpufreq(sysroot, "cpuinfo_max_freq", "3500000");
	run_cpu(1, 1000, 1000, 3400 * (uint64_t)MS);
	session_tick(w->session, NULL);
	assert_cell(w, 1, NULL, 0, true, 8400 * (uint64_t)MS);
	assert_int_equal(lies(w, LIE_CYCLES), 1);
	/* Of a CPU without cpufreq nothing is known. */
	run_cpu(5, 1000, 1000, 9000 * (uint64_t)MS);
	session_tick(w->session, NULL);
	assert_cell(w, 5, NULL, 0, true, 9000 * (uint64_t)MS);
}

/* Over a restart, and a reload to an equal set and to another, the clock goes on where it was. */
static void test_over_a_restart(void **state)
{
	struct count_world *w = *state;
	struct cgroup *a = begin(w);
	struct saved saved;
	struct session *old;

	run(a, 0, 1000, 900, 250, 10);
	session_tick(w->session, NULL);
	run(a, 0, 100, 0, 25, 1);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, a, 0, true, 40);
	stop(w, &saved);
	run(a, 0, 100, 100, 25, 1);
	old = restore(w, &saved, NONE_MISSING);
	add_group(w, SCOPE_CGROUP, "core", false, cycles, 2);
	go_on(w, old);
	assert_cell(w, ALL, a, 0, true, 48);
	assert_int_equal(fake_perf.nr_open, 9 + 3); /* and canaries */

	add_group(w, SCOPE_CGROUP, "core", false, cycles, 2);
	old = reload_begin(w);
	(void)add_cgroup(w, "/a");
	takeover_end(w, old);
	run(a, 0, 1000, 0, 250, 10);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, a, 0, true, 88);
	assert_int_equal(fake_perf.nr_open, 9 + 3);

	add_group(w, SCOPE_CGROUP, "core", false, cycles, 1);
	old = reload_begin(w);
	(void)add_cgroup(w, "/a");
	takeover_end(w, old);
	run(a, 0, 1000, 0, 250, 10);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, a, 0, true, 128);
}

/* --- levels */

/* a has x and y in it, b stands beside it. */
struct levels {
	struct cgroup *a, *x, *y, *b;
};

static struct levels begin_levels(struct count_world *w)
{
	make_dir(w, "a");
	make_dir(w, "a/x");
	make_dir(w, "a/x/p");
	make_dir(w, "a/y");
	make_dir(w, "b");
	add_group(w, SCOPE_CGROUP, "core", false, cycles, 2);
	start(w);
	return (struct levels){ add_cgroup(w, "/a"), add_cgroup(w, "/a/x"), add_cgroup(w, "/a/y"),
				add_cgroup(w, "/b") };
}

/* A second of a and b, of which x and y have a half each, with 20,000 events; a has seen it as so many thousands. */
static void run_levels(struct count_world *w, const struct levels *levels, uint64_t share, uint64_t seen)
{
	run(levels->a, 0, 1000, 100, 100, seen * 100);
	run(levels->x, 0, 500, share, share, 20000 * share / 500);
	run(levels->y, 0, 500, share, share, 20000 * share / 500);
	run(levels->b, 0, 1000, 200, 200, 8000);
	session_tick(w->session, NULL);
}

static bool is_shown(const struct count_world *w, const struct cgroup *cgroup)
{
	return row_of(w, ALL, cgroup)->cells[0].measured;
}

static bool are_shown(const struct count_world *w, const struct levels *levels)
{
	bool shown = is_shown(w, levels->a);

	assert_int_equal(is_shown(w, levels->x), shown);
	assert_int_equal(is_shown(w, levels->y), shown);
	assert_true(is_shown(w, levels->b));
	return shown;
}

/* Of levels that agree, each is shown when enough of it was observed, with all that was counted. */
static void test_levels_that_agree(void **state)
{
	struct count_world *w = *state;
	const struct levels levels = begin_levels(w);

	for (uint64_t i = 1; i <= 4; i++) {
		run_levels(w, &levels, 100, 40);
		assert_int_equal(are_shown(w, &levels), i >= 2);
		assert_int_equal(row_of(w, ALL, levels.a)->cells[0].total, 40000 * i);
		assert_state(w, SCOPE_CGROUP, 0, EVENT_MULTIPLEXED,
			     i < 2 ? "too little was observed" : "totals are estimated");
	}
	assert_int_equal(lies(w, LIE_CHILD), 0);
}

/* Where they do not, none is shown, whichever is right; until they agree again over all that was counted. */
static void test_levels_that_contradict(void **state)
{
	struct count_world *w = *state;
	const struct levels levels = begin_levels(w);

	for (int i = 0; i < 3; i++)
		run_levels(w, &levels, 100, 35);
	assert_false(are_shown(w, &levels));
	assert_state(w, SCOPE_CGROUP, 0, EVENT_MULTIPLEXED, "where they contradict those of the cgroups below");
	/* Also while nothing runs. */
	session_tick(w->session, NULL);
	assert_false(are_shown(w, &levels));
	assert_state(w, SCOPE_CGROUP, 0, EVENT_MULTIPLEXED, "shares the PMU: totals are estimated; where they");
	assert_true(lies(w, LIE_CHILD) >= 3);
	for (int i = 0; i < 3; i++)
		run_levels(w, &levels, 100, 44);
	assert_true(are_shown(w, &levels));
	assert_cell(w, ALL, levels.a, 0, true, 3 * 35000 + 3 * 44000);
	/* Nor may a cgroup without tasks of its own have more. */
	for (int i = 0; i < 3; i++)
		run_levels(w, &levels, 100, 50);
	assert_false(are_shown(w, &levels));
	/* Also when it goes. */
	session_remove_cgroup(w->session, levels.x, true);
	assert_false(is_shown(w, levels.x));
}

/* A cgroup with tasks of its own has more than those below it, and no less. */
static void test_levels_with_tasks(void **state)
{
	struct count_world *w = *state;
	const struct levels levels = begin_levels(w);

	for (int i = 0; i < 3; i++) {
		run(levels.a, 0, 1000, 100, 100, 4000);
		run_levels(w, &levels, 100, 40);
	}
	assert_true(are_shown(w, &levels));
	for (int i = 0; i < 10; i++) {
		run(levels.a, 0, 100, 10, 10, 100);
		run_levels(w, &levels, 100, 10);
	}
	assert_false(are_shown(w, &levels));
}

/* What was counted in a cgroup that is gone stays in its parent. */
static void test_levels_of_the_gone(void **state)
{
	struct count_world *w = *state;
	const struct levels levels = begin_levels(w);

	for (int i = 0; i < 3; i++)
		run_levels(w, &levels, 100, 40);
	session_remove_cgroup(w->session, levels.y, true);
	assert_true(is_shown(w, levels.y));
	run(levels.x, 0, 1000, 200, 200, 8000);
	run(levels.a, 0, 1000, 200, 200, 8000);
	session_tick(w->session, NULL);
	assert_true(is_shown(w, levels.a) && is_shown(w, levels.x));
	assert_int_equal(lies(w, LIE_CHILD), 0);
}

/* What ran all of the time is no estimate. Nobody knows whether one is right of which no level below was observed. */
static void test_levels_that_ran_always(void **state)
{
	struct count_world *w = *state;
	const struct levels levels = begin_levels(w);

	for (int i = 0; i < 6; i++) {
		run(levels.x, 0, 500, 500, 500, 20000);
		run(levels.y, 0, 500, 1, 1, 40);
		run(levels.a, 0, 1000, 400, 400, 16000);
		session_tick(w->session, NULL);
	}
	assert_true(is_shown(w, levels.x));
	assert_false(is_shown(w, levels.y) || is_shown(w, levels.a));
}

/* A reload forgets nothing of it. */
static void test_levels_over_a_reload(void **state)
{
	struct count_world *w = *state;
	const struct levels levels = begin_levels(w);
	struct session *old;

	for (int i = 0; i < 3; i++)
		run_levels(w, &levels, 100, 40);
	add_group(w, SCOPE_CGROUP, "core", false, cycles, 2);
	old = reload_begin(w);
	(void)add_cgroup(w, "/a");
	(void)add_cgroup(w, "/a/x");
	(void)add_cgroup(w, "/a/y");
	(void)add_cgroup(w, "/b");
	takeover_end(w, old);
	session_tick(w->session, NULL);
	assert_true(are_shown(w, &levels));
	for (int i = 0; i < 2; i++)
		run_levels(w, &levels, 100, 20);
	assert_false(are_shown(w, &levels));
}

/* How many readings it takes until levels of which a has seen so many thousands are shown, or not. */
static int count_until(struct count_world *w, const struct levels *levels, uint64_t seen, bool shown)
{
	int readings = 0;

	while (are_shown(w, levels) != shown) {
		run_levels(w, levels, 100, seen);
		readings++;
		assert_true(readings < 1000);
	}
	return readings;
}

/* Where nothing runs, nothing else becomes true. */
static void pass_time(struct count_world *w, const struct levels *levels, bool shown)
{
	for (int i = 0; i < 100; i++) {
		fake_perf.clock += 100ULL * SECOND;
		session_tick(w->session, NULL);
		assert_int_equal(are_shown(w, levels), shown);
	}
}

/* Neither do hours of agreement hide a contradiction of a minute, nor does an old contradiction hide what agrees since.
 * Five seconds of each level are observed in 50 readings. */
static void test_levels_lately(void **state)
{
	struct count_world *w = *state;
	const struct levels levels = begin_levels(w);
	uint64_t total;

	for (int i = 0; i < 3000; i++) {
		run_levels(w, &levels, 100, 40);
		assert_int_equal(are_shown(w, &levels), i > 0);
	}
	assert_int_equal(lies(w, LIE_CHILD), 0);
	assert_in_range(count_until(w, &levels, 25, false), 4, 13);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_MULTIPLEXED, "where they contradict those of the cgroups below");
	for (int i = 0; i < 3000; i++) {
		run_levels(w, &levels, 100, 25);
		assert_false(are_shown(w, &levels));
	}
	/* Nothing is taken from totals meanwhile. */
	total = row_of(w, ALL, levels.a)->cells[0].total;
	assert_in_range(total, 3000 * 40000 + 3004 * 25000, 3000 * 40000 + 3013 * 25000);
	pass_time(w, &levels, false);
	assert_in_range(count_until(w, &levels, 40, true), 100, 200);
	pass_time(w, &levels, true);
}

/* Of what hardly ever runs, enough is observed in the end; and it is not forgotten again. */
static void test_levels_that_hardly_run(void **state)
{
	struct count_world *w = *state;
	const struct levels levels = begin_levels(w);

	for (int i = 1; i <= 3000; i++) {
		run(levels.a, 0, 40, 4, 4, 1600);
		run(levels.x, 0, 20, 2, 2, 800);
		run(levels.y, 0, 20, 2, 2, 800);
		fake_perf.clock += 60ULL * SECOND;
		session_tick(w->session, NULL);
		assert_int_equal(is_shown(w, levels.a), i >= 100);
		assert_int_equal(is_shown(w, levels.x), i >= 100);
	}
	assert_int_equal(lies(w, LIE_CHILD), 0);
}

/* Comparisons are halved when they have enough: x, which hardly ever runs, is compared with p, which is in it, over a
 * longer time than a is with x and y. */
static void test_levels_of_different_paces(void **state)
{
	struct count_world *w = *state;
	const struct levels levels = begin_levels(w);
	const struct cgroup *p = add_cgroup(w, "/a/x/p");

	for (int i = 1; i <= 3000; i++) {
		run(levels.a, 0, 1000, 100, 100, 4000);
		run(levels.y, 0, 920, 92, 92, 3680);
		run(levels.x, 0, 80, 8, 8, 320);
		run(p, 0, 80, 8, 8, 320);
		session_tick(w->session, NULL);
		if (i >= 50)
			assert_true(is_shown(w, levels.a) && is_shown(w, levels.x) && is_shown(w, p));
	}
	for (int i = 0; i < 10; i++) {
		run(p, 0, 500, 100, 100, 20000);
		run(levels.x, 0, 500, 100, 100, 10000);
		run(levels.a, 0, 500, 100, 100, 20000);
		session_tick(w->session, NULL);
	}
	assert_false(is_shown(w, levels.a) || is_shown(w, levels.y) || is_shown(w, p));
}

/* What children had that are gone is forgotten with the rest. */
static void test_levels_of_the_long_gone(void **state)
{
	struct count_world *w = *state;
	const struct levels levels = begin_levels(w);

	for (int i = 0; i < 300; i++)
		run_levels(w, &levels, 100, 40);
	session_remove_cgroup(w->session, levels.y, true);
	for (int i = 0; i < 1000; i++) {
		run(levels.x, 0, 1000, 100, 100, 4000);
		run(levels.a, 0, 1000, 100, 100, 4000);
		session_tick(w->session, NULL);
		assert_true(is_shown(w, levels.a) && is_shown(w, levels.x));
	}
	/* Its last child goes, and tasks of its own come: nothing is left to be compared with. */
	session_remove_cgroup(w->session, levels.x, true);
	for (int i = 0; i < 1000; i++) {
		run(levels.a, 0, 1000, 100, 100, 2000);
		session_tick(w->session, NULL);
		assert_true(is_shown(w, levels.a));
	}
	assert_int_equal(lies(w, LIE_CHILD), 0);
}

/* What ran all of the time is an estimate as soon as it does not. */
static void test_levels_that_ran_always_until_lately(void **state)
{
	struct count_world *w = *state;
	const struct levels levels = begin_levels(w);

	for (int i = 0; i < 3000; i++) {
		run(levels.x, 0, 500, 500, 500, 20000);
		run(levels.a, 0, 500, 500, 500, 20000);
		session_tick(w->session, NULL);
		assert_true(is_shown(w, levels.a) && is_shown(w, levels.x));
	}
	for (int i = 0; i < 20; i++)
		run_levels(w, &levels, 100, 25);
	assert_false(are_shown(w, &levels));
}

/* A CPU's own group runs more of the time while no cgroup does, and so its estimate is too low. */
static void test_cpus_with_less_than_cgroups(void **state)
{
	struct count_world *w = *state;
	struct cgroup *a;

	make_dir(w, "a");
	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	add_group(w, SCOPE_CGROUP, "core", false, cycles, 2);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	a = add_cgroup(w, "/a");
	for (int i = 0; i < 3; i++) {
		run(a, 0, 500, 250, 250, 20000);
		run_cpu(0, 1000, 500, 20000);
		session_tick(w->session, NULL);
	}
	assert_cell(w, 0, NULL, 0, true, 120000);
	for (int i = 0; i < 3; i++) {
		run(a, 0, 500, 250, 250, 20000);
		run_cpu(0, 1000, 750, 20000);
		session_tick(w->session, NULL);
	}
	assert_cell(w, 0, NULL, 0, false, 120000 + 3 * 26667);
	assert_cell(w, ALL, a, 0, true, 240000);
	assert_state(w, SCOPE_CPU, 0, EVENT_MULTIPLEXED, "where they contradict those of the cgroups below");
	/* Lately, as cgroups. */
	for (int i = 0; i < 2010; i++) {
		run(a, 0, 500, 250, 250, 20000);
		run_cpu(0, 1000, i < 2000 ? 500 : 750, 20000);
		session_tick(w->session, NULL);
		assert_true((i >= 100 && i < 2000) <= row_of(w, 0, NULL)->cells[0].measured && is_shown(w, a));
	}
	assert_false(row_of(w, 0, NULL)->cells[0].measured);
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_WORLD(test_what_is_opened),
		IN_WORLD(test_a_kernel_that_loses_the_clock),
		IN_WORLD(test_the_clock_is_not_lost_on_cpus),
		IN_WORLD(test_all_of_the_time),
		IN_WORLD(test_once_found_false),
		IN_WORLD(test_wrong_running_time),
		IN_WORLD(test_too_little),
		IN_WORLD(test_the_last_reading),
		IN_WORLD(test_lag),
		IN_WORLD(test_lag_at_the_end),
		IN_WORLD(test_times_that_cant_be),
		IN_WORLD(test_too_many_cycles),
		IN_WORLD(test_too_many_on_a_cpu),
		IN_WORLD(test_the_cpus_own_clock),
		IN_WORLD(test_over_a_restart),
		IN_WORLD(test_levels_that_agree),
		IN_WORLD(test_levels_that_contradict),
		IN_WORLD(test_levels_with_tasks),
		IN_WORLD(test_levels_of_the_gone),
		IN_WORLD(test_levels_that_ran_always),
		IN_WORLD(test_levels_over_a_reload),
		IN_WORLD(test_levels_lately),
		IN_WORLD(test_levels_that_hardly_run),
		IN_WORLD(test_levels_of_different_paces),
		IN_WORLD(test_levels_of_the_long_gone),
		IN_WORLD(test_levels_that_ran_always_until_lately),
		IN_WORLD(test_cpus_with_less_than_cgroups),
	};

	return cmocka_run_group_tests_name("run-clock", tests, NULL, NULL);
}
