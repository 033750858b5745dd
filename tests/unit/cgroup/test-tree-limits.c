/* SPDX-License-Identifier: MIT */

/*
 * cgroup/cgroup when something is short: the queue, fds, permission, the length of a path, the limit of the tree, and
 * the mount itself.
 */

#include "setup/limits.h"
#include "setup/needs.h"
#include "setup/watched.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cmocka.h>

/* --- more events than are kept */

static void test_overflow(_unused_ void **state)
{
	struct watched w;
	unsigned long max = queued_events_max();
	char name[32];

	watched_make(&w);
	watched_mkdir(&w, "old");
	watched_start(&w);
	watched_forget(&w);
	for (unsigned long i = 0; i < max / 2 + 10; i++) {
		(void)snprintf(name, sizeof(name), "%lu", i);
		watched_mkdir(&w, name);
		watched_rmdir(&w, name);
	}
	watched_rmdir(&w, "old");
	watched_mkdir(&w, "lost/deep/down");
	watched_follow(&w);
	assert_int_equal(cgroup_tree_stats(w.tree).overflows, 1);
	watched_expect(&w, "-/old\n+/lost\n+/lost/deep\n+/lost/deep/down\n");
	watched_check(&w);
	assert_false(cgroup_tree_is_incomplete(w.tree));
	assert_int_equal(cgroup_tree_stats(w.tree).rescans, 1);
	watched_mkdir(&w, "lost/deep/down/new");
	watched_follow(&w);
	watched_expect(&w, "+/lost/deep/down/new\n");
	watched_free(&w);
}

/* --- without inotify, without fds, without permission */

static void test_without_inotify(_unused_ void **state)
{
	struct watched w = {};
	rlim_t old;

	scratch_make(&w.scratch);
	old = limit_files(next_file());
	watched_open(&w, w.scratch.path, &admit_all);
	(void)limit_files(old);

	assert_int_equal(cgroup_tree_fd(w.tree), -1);
	watched_mkdir(&w, "a/b");
	watched_start(&w);
	watched_expect(&w, "+/\n+/a\n+/a/b\n");
	assert_int_equal(cgroup_tree_stats(w.tree).watches_missing, 3);
	assert_true(cgroup_tree_is_incomplete(w.tree));
	assert_non_null(strstr(cgroup_tree_problem(w.tree), "fs.inotify.max_user_instances"));
	watched_follow(&w);

	watched_mkdir(&w, "a/c/d");
	watched_mkdir(&w, "e");
	watched_rmdir(&w, "a/b");
	watched_rescan(&w);
	watched_expect(&w, "+/e\n-/a/b\n+/a/c\n+/a/c/d\n");
	watched_check(&w);
	watched_remake(&w, "e");
	watched_rescan(&w);
	watched_expect(&w, "-/e\n+/e\n");
	watched_check(&w);
	watched_rescan(&w);
	watched_expect(&w, "");
	watched_free(&w);
}

/* The tree is told that an fd could not be had, which must not look like a removal. */
static void test_without_fds(_unused_ void **state)
{
	struct watched w;
	rlim_t old, next;

	watched_make(&w);
	watched_mkdir(&w, "a/b");
	next = next_file();
	old = limit_files(next);
	assert_int_equal(cgroup_tree_start(w.tree, &w.why), -EMFILE);
	assert_non_null(strstr(w.why.text, w.scratch.path));
	watched_expect(&w, "");
	(void)limit_files(next + 1);
	/* One fd: enough to look at the mount, not enough to read it and look at what is in it. */
	assert_int_equal(cgroup_tree_start(w.tree, &w.why), -EMFILE);
	watched_expect(&w, "+/\n");
	assert_true(cgroup_tree_is_incomplete(w.tree));
	(void)limit_files(old);
	watched_rescan(&w);
	watched_expect(&w, "+/a\n+/a/b\n");
	assert_false(cgroup_tree_is_incomplete(w.tree));

	watched_mkdir(&w, "c");
	watched_rmdir(&w, "a/b");
	(void)limit_files(next);
	assert_int_equal(watched_try(&w), -EMFILE);
	cgroup_tree_rescan(w.tree);
	assert_int_equal(watched_try(&w), -EMFILE);
	watched_expect(&w, "");
	(void)limit_files(old);
	assert_true(cgroup_tree_is_incomplete(w.tree));
	watched_rescan(&w);
	assert_false(cgroup_tree_is_incomplete(w.tree));
	watched_check(&w);
	watched_free(&w);
}

static void test_without_permission(_unused_ void **state)
{
	struct watched w;
	bool root = geteuid() == 0;

	watched_make(&w);
	assert_int_equal(chmod(w.scratch.path, 0755), 0);
	watched_mkdir(&w, "a/b");
	watched_mkdir(&w, "c");
	assert_int_equal(chmod(scratch_path(&w.scratch, "a"), 0), 0);
	if (root)
		assert_int_equal(seteuid(65534), 0);
	watched_start(&w);

	/* It is known to be there, and no more. */
	assert_non_null(watched_find(&w, "/a"));
	assert_null(watched_find(&w, "/a/b"));
	assert_non_null(watched_find(&w, "/c"));
	assert_int_equal(cgroup_open(w.tree, watched_find(&w, "/a")), -EACCES);
	assert_int_equal(cgroup_tree_stats(w.tree).watches_missing, 1);
	assert_true(cgroup_tree_is_incomplete(w.tree));
	assert_non_null(cgroup_tree_problem(w.tree));

	if (root)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(chmod(scratch_path(&w.scratch, "a"), 0755), 0);
	watched_rescan(&w);
	watched_check(&w);
	assert_false(cgroup_tree_is_incomplete(w.tree));
	assert_null(cgroup_tree_problem(w.tree));
	watched_free(&w);
}

/* May list the folder, and not look at what is in it. */
static void test_without_search(_unused_ void **state)
{
	struct watched w;
	bool root = geteuid() == 0;

	watched_make(&w);
	assert_int_equal(chmod(w.scratch.path, 0755), 0);
	watched_mkdir(&w, "a/b");
	assert_int_equal(chmod(scratch_path(&w.scratch, "a"), 0444), 0);
	if (root)
		assert_int_equal(seteuid(65534), 0);
	watched_start(&w);
	watched_expect(&w, "+/\n+/a\n");
	assert_int_equal(cgroup_tree_stats(w.tree).left_out, 1);
	if (root)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(chmod(scratch_path(&w.scratch, "a"), 0755), 0);
	watched_rescan(&w);
	assert_int_equal(cgroup_tree_stats(w.tree).left_out, 0);
	watched_check(&w);
	watched_free(&w);
}

/* May go through the folder, and not list what is in it: how many are in it is known all the same. */
static void test_without_listing(_unused_ void **state)
{
	struct watched w;
	bool root = geteuid() == 0;

	watched_make(&w);
	assert_int_equal(chmod(w.scratch.path, 0755), 0);
	watched_mkdir(&w, "a/b");
	watched_mkdir(&w, "a/c");
	watched_mkdir(&w, "d");
	assert_int_equal(chmod(scratch_path(&w.scratch, "a"), 0311), 0);
	if (root)
		assert_int_equal(seteuid(65534), 0);
	watched_start(&w);
	assert_int_equal(cgroup_tree_size(w.tree), 3);
	assert_int_equal(cgroup_tree_stats(w.tree).unlisted, 2);
	assert_string_equal(cgroup_tree_unlisted(w.tree), "/a/…: no permission to look at it");
	watched_rescan(&w);
	assert_int_equal(cgroup_tree_stats(w.tree).unlisted, 2);
	if (root)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(chmod(scratch_path(&w.scratch, "a"), 0755), 0);
	watched_rescan(&w);
	assert_int_equal(cgroup_tree_stats(w.tree).unlisted, 0);
	assert_null(cgroup_tree_unlisted(w.tree));
	watched_check(&w);
	watched_free(&w);
}

/* --- bounds */

static void make_deep(const struct watched *w, const char *name, unsigned levels)
{
	int fd = open(w->scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (unsigned i = 0; i < levels; i++) {
		int below;

		assert_int_equal(mkdirat(fd, name, 0755), 0);
		below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(below >= 0);
		close(fd);
		fd = below;
	}
	close(fd);
}

static void test_deep(_unused_ void **state)
{
	struct watched w;
	size_t known, length;

	watched_make(&w);
	watched_start(&w);
	make_deep(&w, "d", 2500);
	watched_follow(&w);

	/* The last that is known has the longest path that fits; what is below has none. */
	length = strlen(w.scratch.path);
	known = (PATH_MAX - 1 - length) / 2;
	assert_int_equal(cgroup_tree_size(w.tree), known + 1);
	assert_int_equal(cgroup_tree_stats(w.tree).left_out, 1);
	assert_int_equal(strlen(TAILQ_LAST(cgroup_tree_all(w.tree), cgroup_list)->path), known * 2);

	watched_forget(&w);
	watched_rescan(&w);
	watched_expect(&w, "");
	assert_int_equal(cgroup_tree_stats(w.tree).left_out, 1);
	assert_false(cgroup_tree_is_incomplete(w.tree));

	/* Removed from above at once. */
	watched_rename(&w, "d", "e");
	watched_follow(&w);
	assert_int_equal(cgroup_tree_size(w.tree), known + 1);
	assert_int_equal(cgroup_tree_stats(w.tree).left_out, 1);
	watched_free(&w);
}

static void test_long_names(_unused_ void **state)
{
	struct watched w;
	char name[NAME_MAX + 1];

	memset(name, 'n', NAME_MAX);
	name[NAME_MAX] = '\0';
	watched_make(&w);
	make_deep(&w, name, 20);
	watched_start(&w);
	assert_int_equal(cgroup_tree_size(w.tree), 16);
	assert_int_equal(cgroup_tree_stats(w.tree).left_out, 1);
	watched_free(&w);
}

/* What is left out and wanted is told, with an example that is short; what is excluded is nobody's business. */
static void test_unlisted(_unused_ void **state)
{
	static char *all[] = { (char *)"**" }, *none[] = { (char *)"/nnn*/**" };
	const struct cgroup_filter wanted = { .include = all, .nr_include = 1 };
	const struct cgroup_filter unwanted = { .include = all, .nr_include = 1, .exclude = none, .nr_exclude = 1 };
	struct watched w;
	char name[NAME_MAX + 1];
	const char *example;

	memset(name, 'n', NAME_MAX);
	name[NAME_MAX] = '\0';
	watched_make(&w);
	make_deep(&w, name, 20);
	watched_start(&w);
	assert_int_equal(cgroup_tree_stats(w.tree).left_out, 1);
	cgroup_tree_set_filter(w.tree, &unwanted);
	watched_follow(&w);
	assert_int_equal(cgroup_tree_stats(w.tree).unlisted, 0);
	assert_null(cgroup_tree_unlisted(w.tree));

	cgroup_tree_set_filter(w.tree, &wanted);
	watched_follow(&w);
	assert_int_equal(cgroup_tree_stats(w.tree).unlisted, 1);
	example = cgroup_tree_unlisted(w.tree);
	assert_non_null(example);
	assert_memory_equal(example, "/nnn", 4);
	assert_non_null(strstr(example, "n…: its path is longer than the kernel takes"));
	assert_true(strlen(example) < 300);

	/* It goes with what it is in. */
	watched_rename(&w, name, "short");
	watched_follow(&w);
	assert_int_equal(cgroup_tree_stats(w.tree).unlisted, 1);
	assert_memory_equal(cgroup_tree_unlisted(w.tree), "/short/nnn", 10);
	watched_free(&w);
}

/* Read, and then told of by an event: it is counted twice until the next reading, which is asked for. */
static void test_left_out_twice(_unused_ void **state)
{
	struct watched w;
	char name[NAME_MAX + 1];
	struct cgroup *last;
	int fd;

	memset(name, 'n', NAME_MAX);
	name[NAME_MAX] = '\0';
	watched_make(&w);
	make_deep(&w, name, 15);
	watched_start(&w);
	last = TAILQ_LAST(cgroup_tree_all(w.tree), cgroup_list);
	fd = cgroup_open(w.tree, last);
	assert_int_equal(mkdirat(fd, name, 0755), 0);
	watched_rescan(&w);
	assert_int_equal(cgroup_tree_stats(w.tree).left_out, 1);
	watched_follow(&w);
	assert_true(cgroup_tree_is_incomplete(w.tree));
	watched_rescan(&w);
	assert_int_equal(cgroup_tree_stats(w.tree).left_out, 1);
	assert_false(cgroup_tree_is_incomplete(w.tree));

	assert_int_equal(unlinkat(fd, name, AT_REMOVEDIR), 0);
	watched_follow(&w);
	assert_int_equal(cgroup_tree_stats(w.tree).left_out, 0);
	close(fd);
	watched_free(&w);
}

static void test_limit(_unused_ void **state)
{
	struct watched w;
	char name[16];

	watched_make(&w);
	cgroup_tree_set_limit(w.tree, 6);
	for (int i = 0; i < 8; i++) {
		(void)snprintf(name, sizeof(name), "%d", i);
		watched_mkdir(&w, name);
	}
	watched_start(&w);
	assert_int_equal(cgroup_tree_size(w.tree), 6);
	assert_int_equal(cgroup_tree_stats(w.tree).left_out, 3);
	assert_true(cgroup_tree_is_incomplete(w.tree));

	watched_mkdir(&w, "one-more");
	watched_follow(&w);
	assert_int_equal(cgroup_tree_size(w.tree), 6);
	assert_int_equal(cgroup_tree_stats(w.tree).left_out, 4);
	watched_rmdir(&w, "one-more");
	watched_follow(&w);
	assert_int_equal(cgroup_tree_stats(w.tree).left_out, 3);

	/* There is room when others go. */
	for (int i = 0; i < 4; i++) {
		(void)snprintf(name, sizeof(name), "%d", i);
		watched_rmdir(&w, name);
	}
	watched_follow(&w);
	watched_rescan(&w);
	assert_int_equal(cgroup_tree_stats(w.tree).left_out, 0);
	assert_false(cgroup_tree_is_incomplete(w.tree));
	watched_check(&w);
	watched_free(&w);
}

static void test_many(_unused_ void **state)
{
	struct watched w;
	char name[32];

	watched_make(&w);
	for (int i = 0; i < 10000; i++) {
		(void)snprintf(name, sizeof(name), i % 2 ? "%d" : "%d/x", i);
		watched_mkdir(&w, name);
	}
	watched_start(&w);
	assert_int_equal(cgroup_tree_size(w.tree), 15001);
	watched_check(&w);
	watched_forget(&w);
	watched_rescan(&w);
	watched_expect(&w, "");

	/* All at once, from above. */
	for (int i = 0; i < 10000; i++) {
		(void)snprintf(name, sizeof(name), "%d/x", i);
		if (i % 2 == 0)
			watched_rmdir(&w, name);
		(void)snprintf(name, sizeof(name), "%d", i);
		watched_rmdir(&w, name);
	}
	watched_follow(&w);
	if (cgroup_tree_is_incomplete(w.tree))
		watched_rescan(&w);
	watched_check(&w);
	assert_int_equal(cgroup_tree_size(w.tree), 1);
	watched_free(&w);
}

/* --- the mount goes away */

static void test_mount_replaced(_unused_ void **state)
{
	struct watched w = {};

	scratch_make(&w.scratch);
	watched_mkdir(&w, "mount/a");
	watched_open(&w, scratch_path(&w.scratch, "mount"), &admit_all);
	watched_start(&w);
	watched_expect(&w, "+/\n+/a\n");

	watched_mkdir(&w, "new/b");
	watched_rmdir(&w, "mount/a");
	watched_rmdir(&w, "mount");
	assert_int_equal(watched_try(&w), -ENOENT);
	watched_expect(&w, "-/a\n");
	assert_int_equal(cgroup_tree_stats(w.tree).watches, 0);
	assert_int_equal(cgroup_tree_stats(w.tree).watches_missing, 1);
	assert_true(cgroup_tree_is_incomplete(w.tree));

	watched_rename(&w, "new", "mount");
	watched_rescan(&w);
	watched_expect(&w, "-/\n+/\n+/b\n");
	watched_compare(&w, scratch_path(&w.scratch, "mount"));
	assert_false(cgroup_tree_is_incomplete(w.tree));
	watched_free(&w);
}

/* One directory in two places, for which inotify has one watch; the second is followed by rescans. */
/* The same directories at another path: nothing is reported but what has changed there meanwhile. */
static void test_mount_moved(_unused_ void **state)
{
	struct watched w = {};

	scratch_make(&w.scratch);
	watched_mkdir(&w, "mount/a/b");
	watched_open(&w, scratch_path(&w.scratch, "mount"), &admit_all);
	watched_start(&w);
	watched_expect(&w, "+/\n+/a\n+/a/b\n");

	watched_rename(&w, "mount", "moved");
	watched_mkdir(&w, "moved/c");
	assert_int_equal(cgroup_tree_move(w.tree, scratch_path(&w.scratch, "moved/")), 0);
	assert_true(cgroup_tree_has_more(w.tree));
	watched_follow(&w);
	watched_expect(&w, "+/c\n");
	/* Its watches are of the directories, wherever they are. */
	watched_mkdir(&w, "moved/a/d");
	watched_rmdir(&w, "moved/c");
	watched_follow(&w);
	watched_expect(&w, "+/a/d\n-/c\n");
	watched_compare(&w, scratch_path(&w.scratch, "moved"));
	assert_false(cgroup_tree_is_incomplete(w.tree));
	watched_free(&w);
}

/* The top of a part of the tree is not "/", in globs neither; those below it have their paths. */
static void test_part(_unused_ void **state)
{
	char *globs[] = { (char *)"/a/**", (char *)"/." };
	const struct cgroup_filter filter = { .include = globs, .nr_include = ARRAY_SIZE(globs) };
	struct watched w = {};

	scratch_make(&w.scratch);
	watched_mkdir(&w, "mount/a/b");
	watched_open(&w, scratch_path(&w.scratch, "mount"), &filter);
	cgroup_tree_set_part(w.tree);
	watched_start(&w);
	assert_string_equal(TAILQ_FIRST(cgroup_tree_all(w.tree))->identity->label, CGROUP_PART_LABEL);
	assert_string_equal(TAILQ_FIRST(cgroup_tree_all(w.tree))->path, "/");
	assert_true(TAILQ_FIRST(cgroup_tree_all(w.tree))->wanted);
	watched_mkdir(&w, "mount/a/c");
	watched_follow(&w);
	watched_compare(&w, scratch_path(&w.scratch, "mount"));
	watched_free(&w);
}

static void test_bind_mount(_unused_ void **state)
{
	struct watched w;

	needs("mount-namespace");
	watched_make(&w);
	watched_mkdir(&w, "a/x");
	watched_mkdir(&w, "b");
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount(scratch_path(&w.scratch, "a"), scratch_path(&w.scratch, "b"), NULL, MS_BIND, NULL) < 0)
		fail_msg("can't make a bind mount: %s", strerror(errno));

	watched_start(&w);
	assert_int_equal(cgroup_tree_size(w.tree), 5);
	watched_check(&w);
	assert_int_equal(cgroup_tree_stats(w.tree).watches_missing, 2);
	assert_true(cgroup_tree_is_incomplete(w.tree));
	watched_mkdir(&w, "a/y");
	watched_follow(&w);
	watched_rescan(&w);
	watched_check(&w);
	assert_int_equal(cgroup_tree_size(w.tree), 7);
	watched_forget(&w);
	watched_rescan(&w);
	watched_expect(&w, "");
	assert_int_equal(umount(scratch_path(&w.scratch, "b")), 0);
	watched_follow(&w);
	watched_rescan(&w);
	watched_check(&w);
	assert_false(cgroup_tree_is_incomplete(w.tree));
	watched_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_overflow),       cmocka_unit_test(test_without_inotify),
		cmocka_unit_test(test_without_fds),    cmocka_unit_test(test_without_permission),
		cmocka_unit_test(test_without_search), cmocka_unit_test(test_deep),
		cmocka_unit_test(test_long_names),     cmocka_unit_test(test_left_out_twice),
		cmocka_unit_test(test_unlisted),       cmocka_unit_test(test_without_listing),
		cmocka_unit_test(test_limit),	       cmocka_unit_test(test_many),
		cmocka_unit_test(test_mount_replaced), cmocka_unit_test(test_mount_moved),
		cmocka_unit_test(test_part),	       cmocka_unit_test(test_bind_mount),
	};

	return watched_run("cgroup-limits", tests);
}
