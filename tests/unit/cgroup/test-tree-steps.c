/* SPDX-License-Identifier: MIT */

/*
 * cgroup/cgroup in steps: a call with a small budget does little, and the tree may change between two calls. The other
 * tests of the tree, which all run in steps too, check the results.
 */

#include "setup/limits.h"
#include "setup/watched.h"

#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int take_step(struct watched *w)
{
	int r = cgroup_tree_follow(w->tree, 0, &w->why);

	assert_in_range(r, 0, 1);
	assert_int_equal(cgroup_tree_has_more(w->tree), r == 1);
	return r;
}

static size_t nr_reports(const struct watched *w)
{
	size_t nr = 0;

	for (size_t i = 0; i < w->log.len; i++)
		nr += w->log.data[i] == '\n';
	return nr;
}

/* To the end; no call may report more than one change. */
static size_t take_small_steps(struct watched *w)
{
	size_t calls = 0;
	int r;

	do {
		size_t before = nr_reports(w);

		r = take_step(w);
		assert_in_range(nr_reports(w), before, before + 1);
		calls++;
	} while (r == 1);
	return calls;
}

static void make_many(const struct watched *w, const char *below, int from, int to)
{
	for (int i = from; i < to; i++) {
		char name[64];

		(void)snprintf(name, sizeof(name), "%s%d", below, i);
		watched_mkdir(w, name);
	}
}

/* --- how little */

static void test_events_wait_in_the_tree(_unused_ void **state)
{
	struct watched w;
	struct pollfd readable;

	watched_make(&w);
	watched_start(&w);
	watched_forget(&w);
	readable = (struct pollfd){ .fd = cgroup_tree_fd(w.tree), .events = POLLIN };
	assert_false(cgroup_tree_has_more(w.tree));
	make_many(&w, "", 0, 300);
	assert_int_equal(poll(&readable, 1, 0), 1);
	while (nr_reports(&w) < 10)
		assert_int_equal(take_step(&w), 1);

	/* All are out of the queue, and most of them not handled. */
	assert_int_equal(poll(&readable, 1, 0), 0);
	assert_true(cgroup_tree_has_more(w.tree));
	assert_int_equal(cgroup_tree_size(w.tree), 11);
	/* What comes later comes after. */
	watched_rmdir(&w, "299");
	assert_true(take_small_steps(&w) >= 290);
	assert_int_equal(cgroup_tree_size(w.tree), 300);
	assert_int_equal(cgroup_tree_stats(w.tree).missed, 1);
	watched_check(&w);
	watched_free(&w);
}

static void test_one_report_a_step(_unused_ void **state)
{
	struct watched w = {};

	scratch_make(&w.scratch);
	watched_mkdir(&w, "mount/a/b/c");
	watched_open(&w, scratch_path(&w.scratch, "mount"), &admit_all);
	watched_start(&w);
	/* A directory with many in it, found by reading. */
	make_many(&w, "away/x", 0, 200);
	make_many(&w, "away/x7/y", 0, 200);
	watched_rename(&w, "away", "mount/a/b/many");
	watched_forget(&w);
	assert_true(take_small_steps(&w) >= 401);
	assert_int_equal(nr_reports(&w), 401);

	/* A subtree that goes at once. */
	watched_rename(&w, "mount/a", "away");
	watched_forget(&w);
	assert_true(take_small_steps(&w) >= 404);
	watched_rename(&w, "away", "mount/a");
	take_small_steps(&w);
	watched_forget(&w);

	/* A mount that is another by now. */
	watched_rename(&w, "mount", "old");
	watched_mkdir(&w, "mount/new");
	cgroup_tree_rescan(w.tree);
	assert_true(take_small_steps(&w) >= 407);
	assert_int_equal(nr_reports(&w), 405 + 2);
	watched_compare(&w, scratch_path(&w.scratch, "mount"));
	watched_free(&w);
}

static void test_large_directory(_unused_ void **state)
{
	struct watched w;

	watched_make(&w);
	cgroup_tree_set_limit(w.tree, 1001);
	make_many(&w, "", 0, 2000);
	watched_start(&w);
	assert_int_equal(cgroup_tree_stats(w.tree).left_out, 1000);
	cgroup_tree_set_limit(w.tree, CGROUP_TREE_LIMIT);
	watched_forget(&w);
	cgroup_tree_rescan(w.tree);
	/* Read twice, since there are new ones. */
	assert_true(take_small_steps(&w) >= 4000);
	assert_int_equal(nr_reports(&w), 1000);
	watched_check(&w);
	watched_free(&w);
}

/* --- changes between two steps */

static const char *const changes[][2] = {
	{ "mount/a/b/c", NULL },      { "mount/d", NULL },
	{ NULL, "mount/a/b/new" },    { NULL, "mount/new/x/y" },
	{ "mount/a", "mount/z" },     { "mount/a/b", "mount/d/b" },
	{ "mount/e/f", "mount/a/f" }, { "mount/d", "mount/e/f/g/d" },
	{ "mount/a/b", "away" },
};

/* A folder is removed, made, or moved. */
static void change(const struct watched *w, const char *from, const char *to)
{
	if (from && to)
		watched_rename(w, from, to);
	else if (from)
		watched_rmdir(w, from);
	else
		watched_mkdir(w, to);
}

/* A rescan of so many steps before a change; false where it was done before. */
static bool change_after(struct watched *w, int steps, const char *const what[2])
{
	bool more = true;

	cgroup_tree_rescan(w->tree);
	while (more && steps--)
		more = take_step(w) == 1;
	change(w, what[0], what[1]);
	take_small_steps(w);
	/* A directory that was moved ahead of the reading has no watch yet. */
	if (cgroup_tree_is_incomplete(w->tree))
		watched_rescan(w);
	return more;
}

static void try_change(const char *const what[2], bool without_inotify)
{
	bool more = true;

	for (int steps = 0; more; steps++) {
		struct watched w = {};
		rlim_t old = 0;

		scratch_make(&w.scratch);
		watched_mkdir(&w, "mount/a/b/c");
		watched_mkdir(&w, "mount/d");
		watched_mkdir(&w, "mount/e/f/g");
		if (without_inotify)
			old = limit_files(0);
		watched_open(&w, scratch_path(&w.scratch, "mount"), &admit_all);
		if (without_inotify)
			(void)limit_files(old);
		assert_int_equal(cgroup_tree_fd(w.tree) < 0, without_inotify);

		watched_start(&w);
		more = change_after(&w, steps, what);
		watched_compare(&w, scratch_path(&w.scratch, "mount"));
		watched_free(&w);
	}
}

static void test_change_at_every_step(_unused_ void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		try_change(changes[i], false);
		try_change(changes[i], true);
	}
}

/* Whatever happens between two steps. */
static void test_anything_between_steps(_unused_ void **state)
{
	struct watched w;
	unsigned random = 11, done = 0;

	watched_make(&w);
	watched_start(&w);
	for (int i = 0; i < 600; i++) {
		for (unsigned n = watched_draw(&random, 60); n; n--) {
			done += watched_change(&w, &random);
			if (watched_draw(&random, 15) == 0)
				cgroup_tree_rescan(w.tree);
			for (unsigned steps = watched_draw(&random, 6); steps; steps--)
				take_step(&w);
		}
		watched_follow(&w);
		if (cgroup_tree_is_incomplete(w.tree))
			watched_rescan(&w);
		watched_check(&w);
		watched_forget(&w);
	}
	if (done < 2000)
		fail_msg("only %u of the operations did something", done);
	watched_free(&w);
}

/* --- rescans among other things */

static void test_rescan_goes_on_among_events(_unused_ void **state)
{
	struct watched w;

	watched_make(&w);
	cgroup_tree_set_limit(w.tree, 2);
	make_many(&w, "", 0, 200);
	watched_start(&w);
	cgroup_tree_set_limit(w.tree, CGROUP_TREE_LIMIT);
	cgroup_tree_rescan(w.tree);

	/* There is always another event. Those that were left out are found by the rescan alone. */
	for (int i = 0; i < 3000; i++) {
		watched_mkdir(&w, "brief");
		watched_rmdir(&w, "brief");
		assert_int_equal(take_step(&w), 1);
	}
	assert_true(cgroup_tree_size(w.tree) >= 201);
	assert_int_equal(cgroup_tree_stats(w.tree).rescans, 1);
	watched_follow(&w);
	watched_check(&w);
	watched_free(&w);
}

static void test_rescan_asked_for_twice(_unused_ void **state)
{
	struct watched w;

	watched_make(&w);
	make_many(&w, "", 0, 10);
	watched_start(&w);
	cgroup_tree_rescan(w.tree);
	cgroup_tree_rescan(w.tree);
	for (int i = 0; i < 5; i++)
		take_step(&w);
	cgroup_tree_rescan(w.tree);
	take_small_steps(&w);
	assert_int_equal(cgroup_tree_stats(w.tree).rescans, 1);
	cgroup_tree_rescan(w.tree);
	assert_true(cgroup_tree_has_more(w.tree));
	take_small_steps(&w);
	assert_int_equal(cgroup_tree_stats(w.tree).rescans, 2);
	watched_free(&w);
}

/* What is lost behind the place where the rescan is, and what is lost before it. */
static void test_overflow_while_rescanning(_unused_ void **state)
{
	struct watched w;
	unsigned long max = queued_events_max();

	watched_make(&w);
	make_many(&w, "a/", 0, 20);
	make_many(&w, "b/", 0, 20);
	watched_start(&w);
	cgroup_tree_rescan(w.tree);
	for (int i = 0; i < 60; i++)
		assert_int_equal(take_step(&w), 1);
	for (unsigned long i = 0; i < max / 2 + 10; i++) {
		watched_mkdir(&w, "brief");
		watched_rmdir(&w, "brief");
	}
	watched_rmdir(&w, "a/3");
	watched_rmdir(&w, "b/3");
	watched_mkdir(&w, "a/new/x");
	watched_mkdir(&w, "b/new/x");
	watched_forget(&w);
	take_small_steps(&w);
	assert_int_equal(cgroup_tree_stats(w.tree).overflows, 1);
	assert_int_equal(cgroup_tree_stats(w.tree).rescans, 2);
	assert_int_equal(nr_reports(&w), 6);
	watched_check(&w);
	assert_false(cgroup_tree_is_incomplete(w.tree));
	watched_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events_wait_in_the_tree), cmocka_unit_test(test_one_report_a_step),
		cmocka_unit_test(test_large_directory),		cmocka_unit_test(test_change_at_every_step),
		cmocka_unit_test(test_anything_between_steps),	cmocka_unit_test(test_rescan_goes_on_among_events),
		cmocka_unit_test(test_rescan_asked_for_twice),	cmocka_unit_test(test_overflow_while_rescanning),
	};

	return cmocka_run_group_tests_name("cgroup-steps", tests, NULL, NULL);
}
