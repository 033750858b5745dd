/* SPDX-License-Identifier: MIT */

/* Whether a CPU has been offline, on a kernel that the test plays. */

#include "counting/session/cpu-canary.h"

#include "base/util/clock.h"
#include "setup/count-restart.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static int reset(_unused_ void **state)
{
	fake_perf_reset();
	return 0;
}

static void check(struct cpu_canary *canary, bool broken)
{
	cpu_canary_check(canary, clock_monotonic_ns());
	assert_int_equal(canary->broken, broken);
}

static void test_breaks(_unused_ void **state)
{
	struct cpu_canary canary;

	cpu_canary_open(&canary, 3, clock_monotonic_ns());
	assert_int_equal(fake_perf.nr_open, 1);
	assert_int_equal(fake_perf.events[0].cpu, 3);
	assert_int_equal(fake_perf.events[0].attr.config, PERF_COUNT_SW_DUMMY);
	/* Its time is looked at after a while only. */
	check(&canary, false);
	for (int i = 0; i < 3; i++) {
		fake_run(0, 3, 1000, 1000, 0);
		check(&canary, false);
		check(&canary, false);
	}
	fake_take_apart(3);
	check(&canary, false);
	fake_run(0, 3, 1000, 1000, 0);
	check(&canary, true);
	cpu_canary_close(&canary);
	assert_int_equal(canary.fd, -1);
	assert_int_equal(fake_perf.nr_open, 0);
	cpu_canary_close(&canary);
}

/* It goes on until the CPU goes: that shows at the second look. */
static void test_breaks_between_looks(_unused_ void **state)
{
	struct cpu_canary canary;

	cpu_canary_open(&canary, 3, clock_monotonic_ns());
	fake_run(0, 3, 1000, 1000, 0);
	check(&canary, false);
	fake_run(0, 3, 500, 500, 0);
	fake_take_apart(3);
	check(&canary, false);
	fake_perf.clock += SECOND;
	check(&canary, true);
	cpu_canary_close(&canary);
}

static void test_not_open(_unused_ void **state)
{
	struct cpu_canary canary;

	fake_perf.refuse = refuse_all;
	fake_perf.error = EMFILE;
	cpu_canary_open(&canary, 3, clock_monotonic_ns());
	assert_int_equal(canary.fd, -1);
	fake_perf.clock += SECOND;
	check(&canary, false);
	fake_perf.error = ENODEV;
	cpu_canary_open(&canary, 3, clock_monotonic_ns());
	assert_int_equal(canary.fd, -1);
	check(&canary, true);
	cpu_canary_close(&canary);
}

/* Cgroups are counted by a lone event each, and no canary could be opened. */
static struct count_world *start_without_files(void **made)
{
	struct count_world *w;

	assert_int_equal(world_setup(made), 0);
	w = *made;
	add_group(w, SCOPE_CGROUP, "software", false, software, 1);
	make_plan(w);
	fake_perf.refuse = refuse_all;
	fake_perf.error = EMFILE;
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	return w;
}

/* Only CPUs on which nothing else tells have one, and one that could not be opened is tried again. */
static void test_of_a_count(_unused_ void **state)
{
	_cleanup_(cpulist_release) struct cpulist lost = {};
	struct count_world *w;
	void *made;

	w = start_without_files(&made);
	assert_int_equal(session_stats(w->session).fds, 0);
	fake_perf.refuse = NULL;
	session_mend_cpus(w->session);
	assert_int_equal(session_stats(w->session).fds, 3);
	assert_int_equal(fake_perf.nr_open, 3);
	session_mend_cpus(w->session);
	assert_int_equal(fake_perf.nr_open, 3);

	for (int i = 0; i < 2; i++)
		fake_run(0, w->cpus.cpu[i], 1000, 1000, 0);
	session_tick(w->session, NULL);
	assert_int_equal(session_find_lost(w->session, &lost), 0);
	assert_int_equal(lost.nr, 1);
	assert_int_equal(lost.cpu[0], 5);
	assert_int_equal(world_teardown(&made), 0);
}

static void test_not_needed(_unused_ void **state)
{
	struct count_world *w;
	void *made;

	assert_int_equal(world_setup(&made), 0);
	w = made;
	add_group(w, SCOPE_CPU, "software", false, software, 1);
	add_group(w, SCOPE_CGROUP, "software", false, software, 1);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	assert_int_equal(fake_perf.nr_open, 3);
	assert_int_equal(world_teardown(&made), 0);
}

/* They are among the open files that there is room for. */
static void test_take_room(_unused_ void **state)
{
	struct reason why = {};
	struct count_world *w;
	void *made;

	assert_int_equal(world_setup(&made), 0);
	w = made;
	w->privilege.fd_limit = 10 + 3 + 2;
	add_group(w, SCOPE_CGROUP, "software", false, software, 1);
	make_dir(w, "a");
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	assert_int_equal(session_room(w->session), 0);
	assert_int_equal(session_add_cgroup(w->session, w->tree, find_cgroup(w, "/a"), &why), CGROUP_OVER_FDS);
	assert_non_null(strstr(why.text, "3 are open"));
	w->privilege.fd_limit++;
	assert_int_equal(session_room(w->session), 1);
	(void)add_cgroup(w, "/a");
	assert_int_equal(world_teardown(&made), 0);
}

/* --- over a restart */

/* A CPU that nothing but cgroups is counted on, where has_cpus is not set: events that are alone in their groups, so
 * that by themselves they can't tell that the CPU has been offline. */
static void add_groups(struct count_world *w, bool has_cpus)
{
	if (has_cpus)
		add_group(w, SCOPE_CPU, "software", true, software, 1);
	add_group(w, SCOPE_CGROUP, "software", true, software, 1);
}

static struct count_world *start_world(void **made, bool has_cpus)
{
	struct count_world *w;

	assert_int_equal(world_setup(made), 0);
	w = *made;
	make_dir(w, "a");
	add_groups(w, has_cpus);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	(void)add_cgroup(w, "/a");
	return w;
}

/* Only this CPU; -1: none. */
static void assert_lost(const struct session *session, int cpu)
{
	_cleanup_(cpulist_release) struct cpulist lost = {};

	assert_int_equal(session_find_lost(session, &lost), 0);
	assert_int_equal(lost.nr, cpu >= 0);
	if (lost.nr)
		assert_int_equal(lost.cpu[0], cpu);
}

/* /a runs on all CPUs, and that is counted. */
static void assert_counts(const struct count_world *w)
{
	const struct cgroup *a = find_cgroup(w, "/a");
	uint64_t total = row_of(w, ROW_ALL_CPUS, a)->cells[0].total;

	for (size_t i = 0; i < w->cpus.nr; i++)
		fake_run(a->identity->id, w->cpus.cpu[i], 1000, 1000, 5);
	run_cpus(w, 1000, 1000, 1);
	session_tick(w->session, NULL);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, total + 5 * w->cpus.nr);
}

/* Nothing has happened: nothing is opened anew. A CPU was offline while no daemon ran: that shows a little later, as if
 * it had run. */
static void test_goes_on(_unused_ void **state)
{
	void *made;
	struct count_world *w = start_world(&made, false);
	struct saved saved;

	for (int round = 0; round < 2; round++) {
		run_cpus(w, 1000, 1000, 1);
		session_tick(w->session, NULL);
		assert_lost(w->session, -1);
		stop(w, &saved);
		assert_int_equal(saved.nr, 6);
		run_cpus(w, 1000, 1000, 1);
		if (round == 1)
			fake_take_apart(1);
		add_groups(w, false);
		go_on(w, restore(w, &saved, NONE_MISSING));
		assert_int_equal(session_stats(w->session).changes, 0);
		run_cpus(w, 1000, 1000, 1);
		session_tick(w->session, NULL);
		assert_lost(w->session, round == 1 ? 1 : -1);
	}
	add_groups(w, false);
	go_on(w, w->session);
	assert_counts(w);
	assert_lost(w->session, -1);
	assert_int_equal(world_teardown(&made), 0);
}

/* It was seen to break, and before anything came of it the daemon ended. */
static void test_broken_at_the_end(_unused_ void **state)
{
	void *made;
	struct count_world *w = start_world(&made, false);
	struct session *restored;
	struct saved saved;

	fake_take_apart(5);
	run_cpus(w, 1000, 1000, 1);
	session_tick(w->session, NULL);
	assert_lost(w->session, 5);
	stop(w, &saved);
	assert_int_equal(saved.nr, 5);
	restored = restore(w, &saved, NONE_MISSING);
	assert_lost(restored, 5);
	add_groups(w, false);
	go_on(w, restored);
	assert_counts(w);
	assert_lost(w->session, -1);
	assert_int_equal(world_teardown(&made), 0);
}

/* What could have told of a CPU was not kept, a canary or an event of the whole CPU: it may have been offline. */
static void check_missing(bool has_cpus)
{
	for (size_t missing = 0; missing < 6; missing++) {
		void *made;
		struct count_world *w = start_world(&made, has_cpus);
		struct session *restored;
		struct saved saved;
		int cpu;
		bool tells;

		run_cpus(w, 1000, 1000, 1);
		session_tick(w->session, NULL);
		stop(w, &saved);
		assert_int_equal(saved.nr, 6);
		cpu = fake_perf.events[saved.fds[missing] - FAKE_FD].cpu;
		tells = fake_perf.events[saved.fds[missing] - FAKE_FD].cgroup == 0;
		if (tells)
			fake_take_apart(cpu);
		restored = restore(w, &saved, missing);
		assert_lost(restored, tells ? cpu : -1);
		add_groups(w, has_cpus);
		go_on(w, restored);
		assert_counts(w);
		assert_lost(w->session, -1);
		assert_int_equal(world_teardown(&made), 0);
	}
}

static void test_not_kept(_unused_ void **state)
{
	check_missing(false);
	check_missing(true);
}

/* What is kept is brought up to date when one is opened later than the rest, or is needed no more. */
static void test_are_changes(_unused_ void **state)
{
	struct session *old;
	struct count_world *w;
	void *made;

	w = start_without_files(&made);
	assert_int_equal(session_stats(w->session).changes, 0);
	fake_perf.refuse = NULL;
	session_mend_cpus(w->session);
	assert_int_equal(session_stats(w->session).changes, 3);

	old = reload_begin(w);
	takeover_end(w, old);
	assert_int_equal(session_stats(w->session).changes, 6);
	assert_int_equal(world_teardown(&made), 0);
}

/* Nothing was kept, as after a stop: nothing of it can have been lost to a CPU that was offline. */
static void test_nothing_kept(_unused_ void **state)
{
	for (int round = 0; round < 2; round++) {
		struct stored_pool pool = { .max = SIZE_MAX };
		void *made;
		struct count_world *w = start_world(&made, round == 1);
		struct reason why = {};
		struct session *from;
		struct saved saved;

		run_cpus(w, 1000, 1000, 1);
		session_tick(w->session, NULL);
		stop(w, &saved);
		for (size_t i = 0; i < saved.nr; i++)
			safe_close(saved.fds[i]);
		assert_int_equal(
			session_restore(&from, saved.image.data, saved.image.len, BOOT, &w->privilege, &pool, &why), 0);
		buf_release(&saved.image);
		add_groups(w, round == 1);
		make_plan(w);
		takeover_begin(w, from);
		assert_int_equal(session_lost(w->session)->nr, 0);
		assert_int_equal(session_add_cpus(w->session), 0);
		(void)add_cgroup(w, "/a");
		takeover_end(w, from);
		assert_counts(w);
		assert_int_equal(world_teardown(&made), 0);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, reset)
	const struct CMUnitTest tests[] = {
		TEST(test_breaks),	 TEST(test_breaks_between_looks), TEST(test_not_open),
		TEST(test_of_a_count),	 TEST(test_not_needed),		  TEST(test_take_room),
		TEST(test_goes_on),	 TEST(test_broken_at_the_end),	  TEST(test_not_kept),
		TEST(test_nothing_kept), TEST(test_are_changes),
	};

	return cmocka_run_group_tests_name("cpu-canary", tests, NULL, NULL);
}
