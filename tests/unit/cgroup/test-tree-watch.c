/* SPDX-License-Identifier: MIT */

/*
 * cgroup/cgroup when inotify refuses watches. The test takes the place of inotify_add_watch(), because the real limit
 * (fs.inotify.max_user_watches) holds for the whole machine.
 */

#include "setup/watched.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/inotify.h>

#include <cmocka.h>

static struct {
	unsigned allowed; /* so many calls succeed */
	int error;	  /* … and the others fail with this */
	unsigned refused;
} inotify;

int __real_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask);

int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask)
{
	if (inotify.allowed > 0) {
		inotify.allowed--;
		return __real_inotify_add_watch(fd, path, mask);
	}
	inotify.refused++;
	errno = inotify.error;
	return -1;
}

static void allow(unsigned nr, int error)
{
	inotify.allowed = nr;
	inotify.error = error;
	inotify.refused = 0;
}

static void start_with(struct watched *w, unsigned watches, int error)
{
	watched_make(w);
	scratch_mkdir(&w->scratch, "a/b/c");
	allow(watches, error);
	assert_int_equal(cgroup_tree_start(w->tree, &w->why), 0);
	watched_expect(w, "+/\n+/a\n+/a/b\n+/a/b/c\n");
}

static void test_no_watches_left(_unused_ void **state)
{
	struct watched w;
	struct cgroup_tree_stats stats;

	start_with(&w, 2, ENOSPC);
	stats = cgroup_tree_stats(w.tree);
	assert_int_equal(stats.watches, 2);
	assert_int_equal(stats.watches_missing, 2);
	assert_true(cgroup_tree_is_incomplete(w.tree));
	assert_non_null(strstr(cgroup_tree_problem(w.tree), "fs.inotify.max_user_watches"));
	/* Having been told once, it does not ask for every directory. */
	assert_int_equal(inotify.refused, 1);

	/* What is watched is followed, the rest is found by rescans. */
	scratch_mkdir(&w.scratch, "a/new");
	scratch_mkdir(&w.scratch, "a/b/new");
	watched_follow(&w);
	watched_expect(&w, "+/a/new\n");
	watched_rescan(&w);
	watched_expect(&w, "+/a/b/new\n");
	watched_compare(&w, w.scratch.path);
	assert_true(cgroup_tree_is_incomplete(w.tree));
	scratch_rmdir(&w.scratch, "a/b/c");
	scratch_rmdir(&w.scratch, "a/b/new");
	scratch_rmdir(&w.scratch, "a/b");
	watched_follow(&w);
	watched_expect(&w, "-/a/b/c\n-/a/b/new\n-/a/b\n");
	watched_compare(&w, w.scratch.path);
	watched_free(&w);
}

static void test_watches_are_back(_unused_ void **state)
{
	struct watched w;

	start_with(&w, 1, ENOSPC);
	assert_int_equal(cgroup_tree_stats(w.tree).watches_missing, 3);
	allow(UINT_MAX, 0);
	watched_rescan(&w);
	watched_expect(&w, "");
	assert_int_equal(cgroup_tree_stats(w.tree).watches, 4);
	assert_int_equal(cgroup_tree_stats(w.tree).watches_missing, 0);
	assert_false(cgroup_tree_is_incomplete(w.tree));
	assert_null(cgroup_tree_problem(w.tree));
	scratch_mkdir(&w.scratch, "a/b/c/d");
	watched_follow(&w);
	watched_expect(&w, "+/a/b/c/d\n");
	watched_free(&w);
}

/* A refusal that is about one directory does not keep the others from being asked for. */
static void test_one_refused(_unused_ void **state)
{
	struct watched w;

	start_with(&w, 0, EACCES);
	assert_int_equal(inotify.refused, 4 + 3); /* leaves are not read, where it is tried again */
	assert_int_equal(cgroup_tree_stats(w.tree).watches_missing, 4);
	assert_non_null(strstr(cgroup_tree_problem(w.tree), strerror(EACCES)));
	watched_free(&w);
}

/* Directories that come and go leave no watch behind in the figures. */
static void test_figures(_unused_ void **state)
{
	struct watched w;

	start_with(&w, 3, ENOSPC);
	for (int i = 0; i < 10; i++) {
		scratch_mkdir(&w.scratch, "a/x/y");
		watched_follow(&w);
		scratch_rmdir(&w.scratch, "a/x/y");
		scratch_rmdir(&w.scratch, "a/x");
		watched_follow(&w);
		watched_rescan(&w);
	}
	assert_int_equal(cgroup_tree_stats(w.tree).watches, 3);
	assert_int_equal(cgroup_tree_stats(w.tree).watches_missing, 1);
	watched_compare(&w, w.scratch.path);
	watched_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_watches_left),
		cmocka_unit_test(test_watches_are_back),
		cmocka_unit_test(test_one_refused),
		cmocka_unit_test(test_figures),
	};

	return watched_run("cgroup-watch", tests);
}
