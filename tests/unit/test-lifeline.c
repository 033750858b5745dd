/* SPDX-License-Identifier: MIT */

/* Whether a CPU has been offline, on a kernel that the test plays. */

#include "count/lifeline.h"

#include "count-world.h"

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

static int refuse(const struct fake_event *event, int nr_members)
{
	(void)event;
	(void)nr_members;
	return fake_perf.error;
}

static void check(struct lifeline *lifeline, bool broken)
{
	lifeline_check(lifeline, count_now());
	assert_int_equal(lifeline->broken, broken);
}

static void test_breaks(_unused_ void **state)
{
	struct lifeline lifeline;

	lifeline_open(&lifeline, 3, count_now());
	assert_int_equal(fake_perf.nr_open, 1);
	assert_int_equal(fake_perf.events[0].cpu, 3);
	assert_int_equal(fake_perf.events[0].attr.config, PERF_COUNT_SW_DUMMY);
	/* Its time is looked at after a while only. */
	check(&lifeline, false);
	for (int i = 0; i < 3; i++) {
		fake_run(0, 3, 1000, 1000, 0);
		check(&lifeline, false);
		check(&lifeline, false);
	}
	fake_take_apart(3);
	check(&lifeline, false);
	fake_run(0, 3, 1000, 1000, 0);
	check(&lifeline, true);
	lifeline_close(&lifeline);
	assert_int_equal(lifeline.fd, -1);
	assert_int_equal(fake_perf.nr_open, 0);
	lifeline_close(&lifeline);
}

/* It goes on until the CPU goes: that shows at the second look. */
static void test_breaks_between_looks(_unused_ void **state)
{
	struct lifeline lifeline;

	lifeline_open(&lifeline, 3, count_now());
	fake_run(0, 3, 1000, 1000, 0);
	check(&lifeline, false);
	fake_run(0, 3, 500, 500, 0);
	fake_take_apart(3);
	check(&lifeline, false);
	fake_perf.clock += SECOND;
	check(&lifeline, true);
	lifeline_close(&lifeline);
}

static void test_not_open(_unused_ void **state)
{
	struct lifeline lifeline;

	fake_perf.refuse = refuse;
	fake_perf.error = EMFILE;
	lifeline_open(&lifeline, 3, count_now());
	assert_int_equal(lifeline.fd, -1);
	fake_perf.clock += SECOND;
	check(&lifeline, false);
	fake_perf.error = ENODEV;
	lifeline_open(&lifeline, 3, count_now());
	assert_int_equal(lifeline.fd, -1);
	check(&lifeline, true);
	lifeline_close(&lifeline);
}

/* Only CPUs on which nothing else tells have one, and one that could not be opened is tried again. */
static void test_of_a_count(_unused_ void **state)
{
	_cleanup_(cpulist_release) struct cpulist lost = {};
	struct world *w;
	void *made;

	assert_int_equal(world_setup(&made), 0);
	w = made;
	add_group(w, SCOPE_CGROUP, "software", false, software, 1);
	make_plan(w);
	fake_perf.refuse = refuse;
	fake_perf.error = EMFILE;
	start(w);
	assert_int_equal(count_add_cpus(w->count), 0);
	assert_int_equal(count_stats(w->count).fds, 0);
	fake_perf.refuse = NULL;
	count_mend_cpus(w->count);
	assert_int_equal(count_stats(w->count).fds, 3);
	assert_int_equal(fake_perf.nr_open, 3);
	count_mend_cpus(w->count);
	assert_int_equal(fake_perf.nr_open, 3);

	for (int i = 0; i < 2; i++)
		fake_run(0, w->cpus.cpu[i], 1000, 1000, 0);
	count_tick(w->count, NULL);
	assert_int_equal(count_find_lost(w->count, &lost), 0);
	assert_int_equal(lost.nr, 1);
	assert_int_equal(lost.cpu[0], 5);
	assert_int_equal(world_teardown(&made), 0);
}

static void test_not_needed(_unused_ void **state)
{
	struct world *w;
	void *made;

	assert_int_equal(world_setup(&made), 0);
	w = made;
	add_group(w, SCOPE_CPU, "software", false, software, 1);
	add_group(w, SCOPE_CGROUP, "software", false, software, 1);
	start(w);
	assert_int_equal(count_add_cpus(w->count), 0);
	assert_int_equal(fake_perf.nr_open, 3);
	assert_int_equal(world_teardown(&made), 0);
}

/* They are among the open files that there is room for. */
static void test_take_room(_unused_ void **state)
{
	struct reason why = {};
	struct world *w;
	void *made;

	assert_int_equal(world_setup(&made), 0);
	w = made;
	w->privilege.fd_limit = 10 + 3 + 2;
	add_group(w, SCOPE_CGROUP, "software", false, software, 1);
	make_dir(w, "a");
	start(w);
	assert_int_equal(count_add_cpus(w->count), 0);
	assert_int_equal(count_room(w->count), 0);
	assert_int_equal(count_add_cgroup(w->count, w->tree, find_cgroup(w, "/a"), &why), CGROUP_OVER_FDS);
	assert_non_null(strstr(why.text, "3 are open"));
	w->privilege.fd_limit++;
	assert_int_equal(count_room(w->count), 1);
	(void)add_cgroup(w, "/a");
	assert_int_equal(world_teardown(&made), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, reset)
	const struct CMUnitTest tests[] = {
		TEST(test_breaks),
		TEST(test_breaks_between_looks),
		TEST(test_not_open),
		TEST(test_of_a_count),
		TEST(test_not_needed),
		TEST(test_take_room),
	};

	return cmocka_run_group_tests_name("lifeline", tests, NULL, NULL);
}
