/* SPDX-License-Identifier: MIT */

/* What a removed cgroup has counted, while it lingers: on a kernel that the test plays. */

#include "setup/count-world.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The last counts are read at removal and linger; made again under its path, its series go on. */
static void test_cgroup_life(void **state)
{
	struct count_world *w = *state;
	struct cgroup *a;
	struct cgroup_identity *old;
	struct reason why;
	uint64_t old_id;

	w->options.linger = 3600ULL * SECOND;
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	start(w);
	a = add_cgroup(w, "/a");
	old = cgroup_identity_ref(a->identity);
	old_id = old->id;
	fake_run(old_id, 1, 1000, 1000, 5);
	session_remove_cgroup(w->session, a, true);
	assert_int_equal(fake_perf.nr_open, 0);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 5);
	assert_int_equal(session_stats(w->session).lingering, 1);

	/* A directory made before the old one goes has another inode. */
	make_dir(w, "new");
	remove_dir(w, "a");
	assert_int_equal(renameat(w->root_fd, "new", w->root_fd, "a"), 0);
	cgroup_tree_rescan(w->tree);
	assert_int_equal(cgroup_tree_follow(w->tree, UINT64_MAX, &why), 0);
	a = add_cgroup(w, "/a");
	assert_true(a->identity->id != old_id);
	fake_run(a->identity->id, 0, 1000, 1000, 2);
	session_tick(w->session, NULL);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 7);
	assert_int_equal(session_stats(w->session).lingering, 0);
	cgroup_identity_unref(old);
}

/* One that is made again and can't be opened leaves the last values of the one before as they are. */
static void test_lingers_on(void **state)
{
	struct count_world *w = *state;
	struct reason why = {};
	struct cgroup *a;

	w->options.linger = 3600ULL * SECOND;
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	start(w);
	a = add_cgroup(w, "/a");
	fake_run(a->identity->id, 1, 1000, 1000, 5);
	session_remove_cgroup(w->session, a, true);
	fake_perf.refuse = refuse_all;
	fake_perf.error = EINVAL;
	assert_int_equal(session_add_cgroup(w->session, w->tree, a, &why), CGROUP_FAILED);
	assert_int_equal(session_stats(w->session).lingering, 1);
	session_tick(w->session, NULL);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 5);
}

static void test_cgroup_expires(void **state)
{
	struct count_world *w = *state;
	struct cgroup *a;

	w->options.linger = 1;
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	start(w);
	a = add_cgroup(w, "/a");
	session_read(w->session);
	session_remove_cgroup(w->session, a, true);
	assert_non_null(totals_find(session_totals(w->session), ROW_ALL_CPUS, a->identity));
	session_tick(w->session, NULL);
	assert_null(totals_find(session_totals(w->session), ROW_ALL_CPUS, a->identity));
	assert_int_equal(session_stats(w->session).lingering, 0);
}

/* Of many that come and go, no more linger than may be counted. */
static void check_bounded(struct count_world *w, bool per_cpu)
{
	struct cgroup *cgroup;
	char name[16];

	w->options.cgroup_max = 3;
	w->options.linger = 3600ULL * SECOND;
	w->options.cgroup_per_cpu = per_cpu;
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		make_dir(w, name);
	}
	start(w);
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "/c%d", i);
		cgroup = add_cgroup(w, name);
		session_remove_cgroup(w->session, cgroup, true);
		assert_int_equal(session_stats(w->session).lingering, i < 3 ? i + 1 : 3);
	}
	assert_int_equal(session_stats(w->session).pushed_out, 5);
	assert_int_equal(session_totals(w->session)->nr_rows[SCOPE_CGROUP], per_cpu ? 9 : 3);
	assert_null(
		totals_find(session_totals(w->session), per_cpu ? 5 : ROW_ALL_CPUS, find_cgroup(w, "/c4")->identity));
	assert_cell(w, per_cpu ? 0 : ROW_ALL_CPUS, find_cgroup(w, "/c5"), 0, true, 0);

	/* One in the midst of them is there again. */
	cgroup = add_cgroup(w, "/c6");
	assert_int_equal(session_stats(w->session).lingering, 2);
	session_remove_cgroup(w->session, cgroup, true);
	assert_int_equal(session_stats(w->session).lingering, 3);
	fake_perf.clock += w->options.linger;
	session_tick(w->session, NULL);
	assert_int_equal(session_stats(w->session).lingering, 0);
	assert_int_equal(session_stats(w->session).pushed_out, 5);
	assert_int_equal(session_totals(w->session)->nr_rows[SCOPE_CGROUP], 0);
}

static void test_lingering_is_bounded(void **state)
{
	check_bounded(*state, false);
}

/* Cgroups are counted, and not their rows. */
static void test_lingering_per_cpu_is_bounded(void **state)
{
	check_bounded(*state, true);
}

/* Another cgroup at the same path. A directory that is made before the old one goes has another inode. */
static struct cgroup *make_again(struct count_world *w, const char *name)
{
	struct reason why;
	char label[16];

	make_dir(w, "new");
	remove_dir(w, name);
	assert_int_equal(renameat(w->root_fd, "new", w->root_fd, name), 0);
	cgroup_tree_rescan(w->tree);
	assert_int_equal(cgroup_tree_follow(w->tree, UINT64_MAX, &why), 0);
	snprintf(label, sizeof(label), "/%s", name);
	return find_cgroup(w, label);
}

/* Between two ticks an hour may pass: a scrape shows no row that has lingered long enough, and nothing takes it up
 * again. */
static void test_expires_between_ticks(void **state)
{
	struct count_world *w = *state;
	struct cgroup *a, *b;

	w->options.cgroup_max = 1;
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	make_dir(w, "b");
	start(w);
	a = add_cgroup(w, "/a");
	fake_run(a->identity->id, 1, 1000, 1000, 5);
	session_remove_cgroup(w->session, a, true);
	fake_perf.clock += w->options.linger / 2;
	session_read(w->session);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 5);

	fake_perf.clock += w->options.linger / 2;
	session_read(w->session);
	assert_int_equal(session_stats(w->session).lingering, 0);
	assert_null(totals_find(session_totals(w->session), ROW_ALL_CPUS, a->identity));

	/* Without a reading meanwhile. */
	a = add_cgroup(w, "/a");
	fake_run(a->identity->id, 1, 1000, 1000, 5);
	session_remove_cgroup(w->session, a, true);
	fake_perf.clock += w->options.linger;
	a = make_again(w, "a");
	add_cgroup(w, "/a");
	assert_cell(w, ROW_ALL_CPUS, a, 0, false, 0);
	session_remove_cgroup(w->session, a, false);

	/* It is not pushed out: its time was over. */
	a = add_cgroup(w, "/a");
	session_read(w->session);
	session_remove_cgroup(w->session, a, true);
	b = add_cgroup(w, "/b");
	session_read(w->session);
	fake_perf.clock += w->options.linger;
	session_remove_cgroup(w->session, b, true);
	assert_int_equal(session_stats(w->session).lingering, 1);
	assert_int_equal(session_stats(w->session).pushed_out, 0);
}

/* The time of a group that was enabled and never ran is a series as well, which does not fall. */
static void test_times_linger(void **state)
{
	struct count_world *w = *state;
	struct cgroup *a;

	add_group(w, SCOPE_CGROUP, "core", false, cycles, 2);
	make_dir(w, "a");
	start(w);
	a = add_cgroup(w, "/a");
	fake_run(a->identity->id, 1, 3000, 0, 0);
	session_read(w->session);
	assert_cell(w, ROW_ALL_CPUS, a, 0, false, 0);
	session_remove_cgroup(w->session, a, true);
	assert_int_equal(session_stats(w->session).lingering, 1);
	assert_int_equal(row_of(w, ROW_ALL_CPUS, a)->times[0].enabled, 3000);

	a = make_again(w, "a");
	add_cgroup(w, "/a");
	fake_run(a->identity->id, 1, 500, 0, 0);
	session_read(w->session);
	assert_int_equal(row_of(w, ROW_ALL_CPUS, a)->times[0].enabled, 3500);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_cgroup_life),
		TEST(test_lingers_on),
		TEST(test_cgroup_expires),
		TEST(test_expires_between_ticks),
		TEST(test_times_linger),
		TEST(test_lingering_is_bounded),
		TEST(test_lingering_per_cpu_is_bounded),
	};

	return cmocka_run_group_tests_name("linger", tests, NULL, NULL);
}
