/* SPDX-License-Identifier: MIT */

/* When states are judged: not of a moment, and not as late as a long interval's end. On a played kernel. */

#include "setup/count-world.h"

#include <errno.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The group has so many ms of time on all CPUs, and runs for so many of them. */
static void run(const struct count_world *w, uint64_t enabled, uint64_t running, uint64_t by)
{
	uint64_t start = fake_perf.clock;

	run_cpus(w, enabled * MS, running * MS, by);
	fake_perf.clock = start + enabled * MS;
}

static void begin(struct count_world *w)
{
	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
}

/* Just after the start it is not another group's turn that is a fault. */
static void test_first_moment(void **state)
{
	struct count_world *w = *state;

	begin(w);
	run(w, 3, 0, 0);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, 0, EVENT_MULTIPLEXED, "has not had its turn");
	assert_cell(w, 0, NULL, 0, false, 0);

	/* An interval in which it has no time at all says nothing else. */
	run(w, 0, 0, 0);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, 0, EVENT_MULTIPLEXED, "has not had its turn");
	run(w, 1000, 500, 10);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, 0, EVENT_MULTIPLEXED, "50 %");
}

/* Many CPUs have much time between them in a moment, in which none of them has come to the group. */
static void test_time_of_one_cpu(void **state)
{
	struct count_world *w = *state;

	begin(w);
	run(w, 60, 0, 0);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, 0, EVENT_MULTIPLEXED, "has not had its turn");
	run(w, 60, 0, 0);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, 0, EVENT_NEVER_SCHEDULED, "never ran");
}

/* Readings within a long interval show what has become of it: that it never runs, and that it does. */
static void test_within_an_interval(void **state)
{
	struct count_world *w = *state;

	begin(w);
	run(w, 3, 0, 0);
	session_tick(w->session, NULL);
	run(w, 2000, 0, 0);
	session_read(w->session);
	assert_state(w, SCOPE_CPU, 0, EVENT_NEVER_SCHEDULED, "never ran");
	run(w, 2000, 1000, 10);
	session_read(w->session);
	assert_state(w, SCOPE_CPU, 0, EVENT_MULTIPLEXED, "50 %");
	run(w, 2000, 2000, 10);
	session_read(w->session);
	assert_state(w, SCOPE_CPU, 0, EVENT_OK, NULL);

	/* A moment later there is nothing to tell, at a reading or at the interval's end. */
	run(w, 3, 0, 0);
	session_read(w->session);
	assert_state(w, SCOPE_CPU, 0, EVENT_OK, NULL);
	run(w, 3, 0, 0);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, 0, EVENT_OK, NULL);
	run(w, 1000, 0, 0);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, 0, EVENT_MULTIPLEXED, "did not get the PMU");
}

/* A reading that fails once is no failure for the rest of the hour. */
static void test_failure_within_an_interval(void **state)
{
	struct count_world *w = *state;

	begin(w);
	run(w, 1000, 1000, 1);
	session_tick(w->session, NULL);
	fake_find(HW, 0, 1, 0)->read_errno = EIO;
	run(w, 2000, 2000, 1);
	session_read(w->session);
	assert_state(w, SCOPE_CPU, 0, EVENT_FAILED, "reading on CPU 1");
	fake_find(HW, 0, 1, 0)->read_errno = 0;
	run(w, 2000, 2000, 1);
	session_read(w->session);
	assert_state(w, SCOPE_CPU, 0, EVENT_OK, NULL);
}

/* Events are judged by the whole interval all the same: what stands still on busy CPUs is told at its end. */
static void test_stalls_of_a_long_interval(void **state)
{
	const uint64_t busy[] = { 3U * (uint64_t)SECOND, 3U * (uint64_t)SECOND, 3U * (uint64_t)SECOND };
	struct count_world *w = *state;

	add_group(w, SCOPE_CPU, "core", false, cycles, 2)->events.events[0].steady = true;
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	run(w, 1000, 1000, 0);
	session_tick(w->session, NULL);
	for (int i = 0; i < 3; i++) {
		run(w, 1000, 1000, 0);
		session_read(w->session);
	}
	session_tick(w->session, busy);
	assert_state(w, SCOPE_CPU, 0, EVENT_STALLED, "hardly counts");
}

/* The same of a cgroup on one CPU. */
static void run_cgroup(const struct count_world *w, const char *name, uint64_t enabled, uint64_t running)
{
	uint64_t start = fake_perf.clock;

	fake_run(inode_of(w, name), 0, enabled * MS, running * MS, 10);
	fake_perf.clock = start + enabled * MS;
}

/* A cgroup that has little time is an estimate all the same, and one that was observed all of the time is none, as the
 * event on the whole is none. */
static void test_shares_of_cgroups(void **state)
{
	struct count_world *w = *state;
	const struct cgroup *busy, *scarce;

	add_group(w, SCOPE_CGROUP, "core", false, cycles, 2);
	make_dir(w, "busy");
	make_dir(w, "scarce");
	start(w);
	busy = add_cgroup(w, "/busy");
	scarce = add_cgroup(w, "/scarce");
	for (int i = 0; i < 2; i++) {
		run_cgroup(w, "busy", 200000, 200000);
		run_cgroup(w, "scarce", 1000, 300);
		session_tick(w->session, NULL);
		assert_true(row_of(w, ROW_ALL_CPUS, scarce)->times[0].estimated);
		assert_false(row_of(w, ROW_ALL_CPUS, busy)->times[0].estimated);
		assert_state(w, SCOPE_CGROUP, 0, EVENT_OK, NULL);
	}

	/* While it is idle, its totals are what they were; what it counts then is told at its next interval. */
	run_cgroup(w, "busy", 1000, 1000);
	session_tick(w->session, NULL);
	assert_true(row_of(w, ROW_ALL_CPUS, scarce)->times[0].estimated);
	run_cgroup(w, "scarce", 1000, 300);
	session_tick(w->session, NULL);
	assert_true(row_of(w, ROW_ALL_CPUS, scarce)->times[0].estimated);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_MULTIPLEXED, "30 %");
	run_cgroup(w, "scarce", 1000, 1000);
	session_tick(w->session, NULL);
	assert_false(row_of(w, ROW_ALL_CPUS, scarce)->times[0].estimated);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_OK, NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_first_moment),
		TEST(test_time_of_one_cpu),
		TEST(test_within_an_interval),
		TEST(test_failure_within_an_interval),
		TEST(test_stalls_of_a_long_interval),
		TEST(test_shares_of_cgroups),
	};

	return cmocka_run_group_tests_name("states", tests, NULL, NULL);
}
