/* SPDX-License-Identifier: MIT */

/* Counting on a kernel that the test plays: what the real one can't be made to do. */

#include "setup/count-world.h"

#include <errno.h>
#include <math.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* --- CPUs */

static void test_cpus_exact(void **state)
{
	struct count_world *w = *state;

	add_group(w, SCOPE_CPU, "software", false, software, 2);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	assert_int_equal(fake_perf.nr_open, 6);
	assert_int_equal(session_stats(w->session).fds, 6);
	/* Leaders start disabled and are enabled when their group is whole; members follow them. */
	assert_true(fake_find(SW, 2, 0, 0)->attr.disabled);
	assert_true(fake_find(SW, 2, 0, 0)->started);
	assert_false(fake_find(SW, 3, 0, 0)->attr.disabled);
	assert_int_equal(fake_find(SW, 3, 5, 0)->attr.read_format, PERF_FORMAT_GROUP | PERF_FORMAT_ID |
									   PERF_FORMAT_TOTAL_TIME_ENABLED |
									   PERF_FORMAT_TOTAL_TIME_RUNNING);

	fake_run(0, 5, 1000, 500, 7); /* a lie: software events are never multiplexed */
	fake_find(SW, 3, 5, 0)->value += 100;
	session_read(w->session);
	assert_cell(w, 0, NULL, 0, true, 0);
	assert_cell(w, 5, NULL, 0, true, 7);
	assert_cell(w, 5, NULL, 1, true, 107);

	/* Members in another order than they were opened in are told apart by their ids. */
	fake_find(SW, 2, 5, 0)->reversed = true;
	fake_run(0, 5, 1000, 1000, 1);
	session_read(w->session);
	assert_cell(w, 5, NULL, 0, true, 8);
	assert_cell(w, 5, NULL, 1, true, 108);
}

static void test_cpus_multiplexed(void **state)
{
	struct count_world *w = *state;

	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);

	/* CPU 0 never gets the PMU, CPU 1 half of the time, CPU 5 always. */
	fake_run(0, 0, 1000, 0, 0);
	fake_run(0, 1, 1000, 500, 100);
	fake_run(0, 5, 1000, 1000, 100);
	session_tick(w->session, NULL);
	assert_cell(w, 0, NULL, 0, false, 0);
	assert_cell(w, 1, NULL, 0, true, 200);
	assert_cell(w, 5, NULL, 0, true, 100);
	assert_state(w, SCOPE_CPU, 0, EVENT_MULTIPLEXED, "50 %");

	/* The time that CPU 0 was not observed is covered once it runs. */
	fake_run(0, 0, 1000, 1000, 300);
	fake_run(0, 1, 1000, 0, 0);
	session_tick(w->session, NULL);
	assert_cell(w, 0, NULL, 1, true, 600);
	assert_cell(w, 1, NULL, 1, true, 200);

	fake_run(0, 0, 1000, 1000, 1);
	fake_run(0, 1, 1000, 1000, 1);
	fake_run(0, 5, 1000, 1000, 1);
	session_tick(w->session, NULL);
	assert_cell(w, 1, NULL, 1, true, 202);
	assert_state(w, SCOPE_CPU, 0, EVENT_OK, NULL);
}

static void test_never_scheduled(void **state)
{
	struct count_world *w = *state;

	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	run_cpus(w, SECOND / 5, 0, 0);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, 1, EVENT_NEVER_SCHEDULED, "'core'");
	assert_cell(w, 5, NULL, 1, false, 0);
}

static void test_rates_and_times(void **state)
{
	struct count_world *w = *state;
	const struct totals_row *row;

	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	session_tick(w->session, NULL);
	row = row_of(w, 0, NULL);
	assert_true(isnan(row->rates[0].rate)); /* no interval has ended yet */

	/* More time than has passed on the clock is not believed: the count is taken as it is. */
	fake_run(0, 0, 3600ULL * SECOND, 1800ULL * SECOND, 1000);
	session_tick(w->session, NULL);
	assert_true(row->rates[0].rate > 0 && isfinite(row->rates[0].rate));
	assert_true(row->times[0].enabled < 60ULL * SECOND);
	assert_true(row->times[0].running <= row->times[0].enabled);
	assert_int_equal(row->cells[0].total, 1000);

	/* Nor do times fall; and from there on, counts are scaled again. */
	fake_find(HW, 0, 0, 0)->enabled = 5;
	fake_find(HW, 0, 0, 0)->running = 4;
	session_tick(w->session, NULL);
	assert_true(row->times[0].enabled < 60ULL * SECOND);
	assert_int_equal(row->cells[0].total, 1000);
	fake_run(0, 0, 1000, 500, 7);
	session_tick(w->session, NULL);
	assert_int_equal(row->cells[0].total, 1014);
	assert_int_equal(session_stats(w->session).backwards, 0);

	/* A value that falls adds nothing, and what it passes again is not counted twice. */
	fake_find(HW, 0, 0, 0)->value -= 100;
	session_tick(w->session, NULL);
	assert_int_equal(session_stats(w->session).backwards, 1);
	fake_run(0, 0, 1000, 1000, 101);
	session_tick(w->session, NULL);
	assert_int_equal(row->cells[0].total, 1015);
}

/* A group that can't be read loses its series until it can, and nothing else does. */
/* What a group has counted while another had the PMU is known when it runs again, and is no burst: of a CPU, and of a
 * cgroup that had it on one of two. */
static void test_rates_of_what_waits(void **state)
{
	static const uint64_t tick = SECOND / 10;
	struct count_world *w = *state;
	const struct totals_rate *cpu, *both;
	struct cgroup *a;

	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	add_group(w, SCOPE_CGROUP, "core", false, cycles, 2);
	make_dir(w, "a");
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	a = add_cgroup(w, "/a");
	session_tick(w->session, NULL);
	cpu = row_of(w, 0, NULL)->rates;
	both = row_of(w, ROW_ALL_CPUS, a)->rates;
	for (int i = 0; i < 100; i++) {
		bool waits = i >= 10 && i < 70;

		fake_perf.clock -= 4 * tick; /* that is one tick for all five */
		fake_run(0, 1, tick, tick, 0);
		fake_run(0, 5, tick, tick, 0);
		fake_run(0, 0, tick, waits ? 0 : tick, waits ? 0 : 10);
		fake_run(a->identity->id, 0, tick, waits ? 0 : tick, waits ? 0 : 10);
		fake_run(a->identity->id, 1, tick, tick, 10);
		session_tick(w->session, NULL);
		assert_int_equal(isnan(cpu->rate), waits);
		assert_true(waits || fabs(cpu->rate - 100) < 1);
		assert_true(fabs(both->rate - 200) < 2);
		assert_true(fabs((double)cpu->averages.average[RATE_1M] - 100) < 1);
		assert_true(fabs((double)rate_averages_highest(&both->averages) - 200) < 2);
	}
	assert_cell(w, 0, NULL, 0, true, 1000);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 2000);
}

static void test_read_errors(void **state)
{
	static const struct {
		int error;
		ssize_t cut;
		const char *why;
	} cases[] = {
		{ EIO, -1, "Input/output" },
		{ 0, 0, "it is pinned" },
		{ 0, 24, "another group" },
	};
	struct count_world *w = *state;

	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	add_group(w, SCOPE_CPU, "software", false, software, 2);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fake_event *leader = fake_find(HW, 0, 1, 0);

		leader->read_errno = cases[i].error;
		leader->read_cut = cases[i].cut;
		fake_run(0, 1, 1000, 1000, 10);
		session_tick(w->session, NULL);
		assert_state(w, SCOPE_CPU, 0, EVENT_FAILED, cases[i].why);
		assert_state(w, SCOPE_CPU, 1, EVENT_FAILED, "CPU 1");
		assert_state(w, SCOPE_CPU, 2, EVENT_OK, NULL);
		assert_cell(w, 1, NULL, 0, false, 10 * i);
		assert_cell(w, 0, NULL, 0, true, 0);
		assert_cell(w, 1, NULL, 2, true, 10 * (i + 1));

		leader->read_errno = 0;
		leader->read_cut = -1;
		session_tick(w->session, NULL);
		assert_state(w, SCOPE_CPU, 0, EVENT_OK, NULL);
		assert_cell(w, 1, NULL, 0, true, 10 * (i + 1));
	}
	assert_int_equal(session_stats(w->session).read_errors, ARRAY_SIZE(cases));
}

/* A pinned group that loses its counters is absent, is tried at each reading, and goes on from its total. */
static void test_pinned(void **state)
{
	struct count_world *w = *state;

	add_group(w, SCOPE_CPU, "core", false, cycles, 2)->events.events[0].attr.pinned = 1;
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	fake_run(0, 1, 1000, 1000, 10);
	session_tick(w->session, NULL);
	assert_cell(w, 1, NULL, 0, true, 10);

	fake_perf.counters = 1;
	fake_find(HW, 0, 1, 0)->error = true;
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, 0, EVENT_FAILED, "it is pinned");
	assert_cell(w, 1, NULL, 0, false, 10);
	assert_cell(w, 0, NULL, 0, true, 0);

	fake_perf.counters = 2;
	session_tick(w->session, NULL);
	fake_run(0, 1, 1000, 1000, 5);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, 0, EVENT_OK, NULL);
	assert_cell(w, 1, NULL, 0, true, 15);
}

/* In a cgroup, to try it again succeeds in any case: it is not counted until it has been seen to run. */
static void test_pinned_cgroup(void **state)
{
	struct count_world *w = *state;
	struct cgroup *a;

	make_dir(w, "a");
	add_group(w, SCOPE_CGROUP, "core", false, cycles, 2)->events.events[0].attr.pinned = 1;
	start(w);
	a = add_cgroup(w, "/a");
	fake_perf.counters = 1;
	for (int i = 0; i < 3; i++) {
		fake_run(a->identity->id, 0, 1000, 1000, 10);
		for (int k = 0; k < 3; k++) {
			session_tick(w->session, NULL);
			assert_state(w, SCOPE_CGROUP, 0, EVENT_FAILED, "it is pinned");
			assert_cell(w, ROW_ALL_CPUS, a, 0, false, 0);
		}
	}
	fake_perf.counters = 2;
	session_tick(w->session, NULL);
	fake_run(a->identity->id, 0, 1000, 1000, 10);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_OK, NULL);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 10);
}

static const struct text_event liars[] = { { "steady", HW, 0 }, { "rare", HW, 1 }, { "switches", SW, 3 } };

/* One second of an interval in which CPUs 0 and 5 are busy, and the group runs; the first two events' values
 * grow by `steady` and `rare`. */
static void busy_second(const struct count_world *w, uint64_t cgroup, uint64_t steady, uint64_t rare)
{
	static const uint64_t busy[] = { SECOND, 0, SECOND / 2 };

	for (size_t i = 0; i < w->cpus.nr; i++) {
		fake_run(cgroup, w->cpus.cpu[i], SECOND, SECOND, 0);
		fake_find(HW, 0, w->cpus.cpu[i], cgroup)->value += steady;
		fake_find(HW, 1, w->cpus.cpu[i], cgroup)->value += rare;
	}
	session_tick(w->session, session_is_in_doubt(w->session) ? busy : NULL);
}

static void test_stalled_cpus(void **state)
{
	struct count_world *w = *state;

	add_group(w, SCOPE_CPU, "liars", false, liars, 3)->events.events[0].steady = true;
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);

	/* The first interval raises the doubt; after that, 1.5 s of busy time each. */
	for (int i = 0; i < 7; i++) {
		busy_second(w, 0, 100, 0);
		assert_state(w, SCOPE_CPU, 0, i < 1 ? EVENT_OK : EVENT_STALLED, i < 1 ? NULL : "hardly counts");
		assert_state(w, SCOPE_CPU, 1, EVENT_OK, NULL);
	}
	busy_second(w, 0, 100, 0);
	assert_state(w, SCOPE_CPU, 1, EVENT_STALLED, "nothing in 10 s");
	assert_state(w, SCOPE_CPU, 2, EVENT_OK, NULL);

	busy_second(w, 0, 600000, 1);
	assert_state(w, SCOPE_CPU, 0, EVENT_OK, NULL);
	assert_state(w, SCOPE_CPU, 1, EVENT_OK, NULL);
	assert_cell(w, 5, NULL, 1, true, 1);
	/* One that counts well is no reason to look at CPUs' times any more. */
	busy_second(w, 0, 2000000, 0);
	assert_false(session_is_in_doubt(w->session));
}

/* A cgroup's time is busy time. */
static void test_stalled_cgroups(void **state)
{
	struct count_world *w = *state;
	struct cgroup *a;

	make_dir(w, "a");
	add_group(w, SCOPE_CGROUP, "liars", false, liars, 3)->events.events[0].steady = true;
	start(w);
	a = add_cgroup(w, "/a");
	busy_second(w, a->identity->id, 0, 0);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_STALLED, "hardly counts");
	assert_state(w, SCOPE_CGROUP, 1, EVENT_OK, NULL);
	busy_second(w, a->identity->id, 1000000, 0);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_OK, NULL);
}

/* What cgroups count that live for less than an interval is held against their time as well. */
static void test_not_stalled_by_short_lives(void **state)
{
	struct count_world *w = *state;

	w->options.linger = 0;
	make_dir(w, "a");
	add_group(w, SCOPE_CGROUP, "liars", false, liars, 2)->events.events[0].steady = true;
	start(w);
	for (int i = 0; i < 5; i++) {
		struct cgroup *a = add_cgroup(w, "/a");

		fake_run(a->identity->id, 0, SECOND, SECOND, 3U * SECOND);
		session_remove_cgroup(w->session, a, true);
		session_tick(w->session, NULL);
		assert_state(w, SCOPE_CGROUP, 0, EVENT_OK, NULL);
	}
}

static int refuse_cpu_1(const struct fake_event *event, int nr_members)
{
	return event->cpu == 1 && event->attr.config == 1 && nr_members > 0 ? fake_perf.error : 0;
}

/* A set that can't be opened on one CPU is counted on the others, and says where it is not. */
static void test_one_cpu_refuses(void **state)
{
	struct count_world *w = *state;

	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	make_plan(w);
	fake_perf.error = EBUSY;
	fake_perf.refuse = refuse_cpu_1;
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	assert_int_equal(session_stats(w->session).cpus, 2);
	assert_int_equal(fake_perf.nr_open, 4);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, 1, EVENT_FAILED, "CPU 1");
	assert_cell(w, 0, NULL, 0, true, 0);
	assert_null(totals_find(session_totals(w->session), 1, NULL));

	/* Tried again, it is counted as soon as it can be; the others are left alone. */
	fake_perf.nr_calls = 0;
	session_mend_cpus(w->session);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, 1, EVENT_FAILED, "CPU 1");
	fake_perf.refuse = NULL;
	session_mend_cpus(w->session);
	assert_int_equal(fake_perf.nr_calls, 4);
	assert_int_equal(session_stats(w->session).cpus, 3);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, 1, EVENT_OK, NULL);
	assert_cell(w, 1, NULL, 0, true, 0);
	fake_perf.nr_calls = 0;
	session_mend_cpus(w->session);
	assert_int_equal(fake_perf.nr_calls, 0);
}

/* Of a CPU, and of a cgroup, what could not be opened is tried again beside what is. */
static void test_one_set_refused(void **state)
{
	struct count_world *w = *state;
	struct reason why = {};
	struct cgroup *a;

	make_dir(w, "a");
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		add_group(w, (enum scope)scope, "core", false, cycles, 2);
		add_group(w, (enum scope)scope, "software", false, software, 2);
	}
	make_plan(w);
	fake_perf.error = EBUSY;
	fake_perf.refuse = refuse_cpu_1;
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	a = find_cgroup(w, "/a");
	assert_int_equal(session_add_cgroup(w->session, w->tree, a, &why), CGROUP_COUNTED);
	assert_non_null(strstr(why.text, "EBUSY"));
	fake_run(0, 1, 1000, 1000, 7);
	fake_run(a->identity->id, 1, 1000, 1000, 7);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, 0, EVENT_FAILED, "'instructions'");
	assert_state(w, SCOPE_CPU, 2, EVENT_OK, NULL);
	assert_cell(w, ROW_ALL_CPUS, a, 0, false, 0);
	assert_cell(w, ROW_ALL_CPUS, a, 2, true, 7);

	fake_perf.refuse = NULL;
	fake_perf.nr_calls = 0;
	session_mend_cpus(w->session);
	why.text[0] = '\0';
	assert_int_equal(session_add_cgroup(w->session, w->tree, a, &why), CGROUP_COUNTED);
	assert_string_equal(why.text, "");
	assert_int_equal(fake_perf.nr_calls, 2 + 9);
	fake_run(0, 1, 1000, 1000, 1);
	fake_run(a->identity->id, 1, 1000, 1000, 1);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, 0, EVENT_OK, NULL);
	assert_cell(w, 1, NULL, 0, true, 1);
	assert_cell(w, 1, NULL, 2, true, 8);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 1);
	assert_cell(w, ROW_ALL_CPUS, a, 2, true, 8);
	session_remove_cgroup(w->session, a, false);
}

/* When a CPU goes offline the kernel takes groups apart: what they have counted stays, and is no error. */
static void test_cpu_was_offline(void **state)
{
	struct count_world *w = *state;

	add_group(w, SCOPE_CPU, "software", false, software, 2);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	fake_run(0, 1, 1000, 1000, 7);
	session_tick(w->session, NULL);
	fake_take_apart(1);
	for (int i = 0; i < 3; i++) {
		session_tick(w->session, NULL);
		assert_state(w, SCOPE_CPU, 0, EVENT_OK, NULL);
		assert_cell(w, 1, NULL, 1, true, 7);
	}
	assert_int_equal(session_stats(w->session).read_errors, 0);
}

/* A 0 that was true ends when the group is to run and never gets the PMU. */
static void test_zero_then_pending(void **state)
{
	struct count_world *w = *state;
	struct cgroup *a;

	make_dir(w, "a");
	add_group(w, SCOPE_CGROUP, "core", false, cycles, 2);
	start(w);
	a = add_cgroup(w, "/a");
	session_tick(w->session, NULL);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 0);
	fake_run(a->identity->id, 1, 1000, 0, 0);
	session_tick(w->session, NULL);
	assert_cell(w, ROW_ALL_CPUS, a, 0, false, 0);
	/* So little of the time it was observed, that it says nothing of the rest. */
	fake_run(a->identity->id, 1, 1000, 1000, 5);
	session_tick(w->session, NULL);
	assert_cell(w, ROW_ALL_CPUS, a, 0, false, 0);
	fake_run(a->identity->id, 1, 100 * MS - 2000, 50 * MS - 1000, 5);
	session_tick(w->session, NULL);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 20);
}

static int refuse_member_of_cpu_5(const struct fake_event *event, int nr_members)
{
	return event->cpu == 5 && nr_members == 1 ? ENODEV : 0;
}

/* A CPU that goes offline in the middle of it leaves no half of a group, and no 0 that nobody measured. */
static void test_one_cpu_goes(void **state)
{
	struct count_world *w = *state;

	add_group(w, SCOPE_CPU, "software", false, software, 2);
	make_plan(w);
	fake_perf.refuse = refuse_member_of_cpu_5;
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	assert_int_equal(fake_perf.nr_open, 4);
	assert_int_equal(session_stats(w->session).fds, 4);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, 0, EVENT_OK, NULL);
	assert_cell(w, 0, NULL, 0, true, 0);
	assert_cell(w, 5, NULL, 0, false, 0);
}

/* --- cgroups */

static void test_cgroup_sums(void **state)
{
	struct count_world *w = *state;
	struct cgroup *a, *b;
	uint64_t ino;

	add_group(w, SCOPE_CGROUP, "core", false, cycles, 2);
	make_dir(w, "a");
	make_dir(w, "b");
	ino = inode_of(w, "a");
	start(w);
	a = add_cgroup(w, "/a");
	b = add_cgroup(w, "/b");
	assert_int_equal(fake_perf.nr_open, 2 * (6 + 3));
	assert_true(fake_perf.flags & PERF_FLAG_PID_CGROUP);

	/* b never ran: a true 0. a ran on one CPU only, and there without the PMU: unknown. */
	fake_run(ino, 0, 100 * MS, 0, 0);
	session_tick(w->session, NULL);
	assert_cell(w, ROW_ALL_CPUS, a, 0, false, 0);
	assert_cell(w, ROW_ALL_CPUS, b, 0, true, 0);

	fake_run(ino, 0, 100 * MS, 100 * MS, 10);
	fake_run(ino, 5, 100 * MS, 50 * MS, 3);
	session_tick(w->session, NULL);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 26);
	assert_cell(w, ROW_ALL_CPUS, b, 0, true, 0);

	/* A sum of which a part can't be read is no sum. */
	fake_find(HW, 0, 5, ino)->read_errno = EIO;
	session_tick(w->session, NULL);
	assert_cell(w, ROW_ALL_CPUS, a, 0, false, 26);
}

static void test_cgroup_per_cpu(void **state)
{
	struct count_world *w = *state;
	struct cgroup *a;

	w->options.cgroup_per_cpu = true;
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	start(w);
	a = add_cgroup(w, "/a");
	fake_run(inode_of(w, "a"), 5, 1000, 1000, 9);
	session_tick(w->session, NULL);
	assert_cell(w, 0, a, 0, true, 0);
	assert_cell(w, 5, a, 0, true, 9);
	assert_null(totals_find(session_totals(w->session), ROW_ALL_CPUS, a->identity));
	session_remove_cgroup(w->session, a, false);
	assert_null(totals_find(session_totals(w->session), 5, a->identity));
}

/* All or nothing: a cgroup that does not fit leaves no fd behind and takes nothing from the others. */
static void test_cgroup_limits(void **state)
{
	struct count_world *w = *state;
	struct reason why = {};
	struct cgroup *a, *b;

	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	make_dir(w, "b");
	start(w);
	a = add_cgroup(w, "/a");
	b = find_cgroup(w, "/b");

	for (fake_perf.limit = 6; fake_perf.limit < 12; fake_perf.limit++) {
		fake_perf.refuse = refuse_beyond_limit;
		assert_int_equal(session_add_cgroup(w->session, w->tree, b, &why), CGROUP_OVER_FDS);
		assert_non_null(strstr(why.text, "LimitNOFILE"));
		assert_int_equal(fake_perf.nr_open, 6);
		assert_int_equal(session_stats(w->session).fds, 6);
		assert_null(totals_find(session_totals(w->session), ROW_ALL_CPUS, b->identity));
	}
	fake_perf.refuse = NULL;

	/* Known beforehand: 6 open, 6 more and 10 in reserve are over 21. */
	w->privilege.fd_limit = 21;
	fake_perf.nr_calls = 0;
	assert_int_equal(session_add_cgroup(w->session, w->tree, b, &why), CGROUP_OVER_FDS);
	assert_int_equal(fake_perf.nr_calls, 0);
	assert_non_null(strstr(why.text, "limit of 21"));

	w->privilege.fd_limit = 22;
	assert_int_equal(session_add_cgroup(w->session, w->tree, b, &why), CGROUP_COUNTED);
	session_remove_cgroup(w->session, a, false);
	assert_int_equal(fake_perf.nr_open, 6);
}

static void test_cgroup_max(void **state)
{
	struct count_world *w = *state;
	struct reason why = {};
	struct cgroup *a;

	w->options.cgroup_max = 1;
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	start(w);
	a = add_cgroup(w, "/a");
	assert_int_equal(session_add_cgroup(w->session, w->tree, find_cgroup(w, "/"), &why), CGROUP_OVER_MAX);
	assert_non_null(strstr(why.text, "[cgroup] max"));
	session_remove_cgroup(w->session, a, true);
	assert_int_equal(session_add_cgroup(w->session, w->tree, find_cgroup(w, "/"), &why), CGROUP_COUNTED);
}

static int refuse_cgroups(const struct fake_event *event, int nr_members)
{
	(void)nr_members;
	return event->cgroup ? ENOENT : 0;
}

static void test_cgroup_unknown_or_gone(void **state)
{
	struct count_world *w = *state;
	struct reason why = {};
	struct cgroup *a;

	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	start(w);
	a = find_cgroup(w, "/a");
	fake_perf.refuse = refuse_cgroups;
	assert_int_equal(session_add_cgroup(w->session, w->tree, a, &why), CGROUP_FAILED);
	assert_non_null(strstr(why.text, "subtree_control"));
	fake_perf.refuse = NULL;
	/* A directory made before the old one goes has another inode. */
	make_dir(w, "other");
	remove_dir(w, "a");
	assert_int_equal(session_add_cgroup(w->session, w->tree, a, &why), -ENOENT);
	/* Another one in its place is another cgroup. */
	assert_int_equal(renameat(w->root_fd, "other", w->root_fd, "a"), 0);
	assert_int_equal(session_add_cgroup(w->session, w->tree, a, &why), -ENOENT);
	assert_int_equal(fake_perf.nr_open, 0);
}

static void assert_counted_once(const struct count_world *w, const struct cgroup *cgroup, const struct cgroup *twin)
{
	struct reason why = {};

	assert_int_equal(session_add_cgroup(w->session, w->tree, twin, &why), CGROUP_FAILED);
	assert_non_null(strstr(why.text, "another path"));
	session_remove_cgroup(w->session, twin, false);
	assert_true(session_has_cgroup(w->session, cgroup));
	assert_false(session_has_cgroup(w->session, twin));
	assert_int_equal(session_room(w->session), 1);
	assert_int_equal(fake_perf.nr_open, 6);
}

/* A cgroup that is mounted at a second place is counted at the first, also by the next count; where it ends there, it
 * can be counted at the other. */
static void test_one_cgroup_at_two_paths(void **state)
{
	struct count_world *w = *state;
	struct session *from;
	struct cgroup *a, twin;

	w->options.cgroup_max = 2;
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	start(w);
	a = add_cgroup(w, "/a");
	twin = *a;
	assert_int_equal(cgroup_identity_new(&twin.identity, a->identity->id, "/b"), 0);
	assert_counted_once(w, a, &twin);

	from = w->session;
	w->options.cgroup_per_cpu = true;
	takeover_begin(w, from);
	(void)add_cgroup(w, "/a");
	takeover_end(w, from);
	assert_counted_once(w, a, &twin);

	session_remove_cgroup(w->session, a, false);
	assert_int_equal(session_room(w->session), 2);
	assert_int_equal(session_add_cgroup(w->session, w->tree, &twin, &(struct reason){}), CGROUP_COUNTED);
	cgroup_identity_unref(twin.identity);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_cpus_exact),
		TEST(test_cpus_multiplexed),
		TEST(test_never_scheduled),
		TEST(test_rates_and_times),
		TEST(test_rates_of_what_waits),
		TEST(test_read_errors),
		TEST(test_pinned),
		TEST(test_pinned_cgroup),
		TEST(test_not_stalled_by_short_lives),
		TEST(test_stalled_cpus),
		TEST(test_stalled_cgroups),
		TEST(test_one_cpu_refuses),
		TEST(test_one_set_refused),
		TEST(test_cpu_was_offline),
		TEST(test_zero_then_pending),
		TEST(test_one_cpu_goes),
		TEST(test_cgroup_sums),
		TEST(test_cgroup_per_cpu),
		TEST(test_cgroup_limits),
		TEST(test_cgroup_max),
		TEST(test_cgroup_unknown_or_gone),
		TEST(test_one_cgroup_at_two_paths),
	};

	return cmocka_run_group_tests_name("count", tests, NULL, NULL);
}
