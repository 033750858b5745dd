/* SPDX-License-Identifier: MIT */

/*
 * cgroup/cgroup: the tree, over plain directories, which inotify treats like cgroups, and at the end over real cgroups
 * below one that the test makes.
 */

#include "base/util/text.h"
#include "setup/needs.h"
#include "setup/watched.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

/* --- the first scan */

static void test_empty(_unused_ void **state)
{
	struct watched w;

	watched_make(&w);
	assert_int_equal(cgroup_tree_size(w.tree), 0);
	watched_start(&w);
	watched_expect(&w, "+/\n");
	assert_int_equal(cgroup_tree_size(w.tree), 1);
	assert_string_equal(watched_find(&w, "/")->identity->label, "/");
	assert_int_equal(watched_find(&w, "/")->depth, 0);
	assert_true(watched_find(&w, "/")->wanted);
	assert_false(cgroup_tree_is_incomplete(w.tree));
	assert_null(cgroup_tree_problem(w.tree));
	watched_free(&w);
}

static void test_first_scan(_unused_ void **state)
{
	struct watched w;
	struct cgroup *c;
	unsigned depth = 0;

	watched_make(&w);
	watched_mkdir(&w, "a/b/c");
	watched_mkdir(&w, "a/d");
	watched_mkdir(&w, "e/f/g/h");
	watched_mkdir(&w, "i");
	scratch_text(&w.scratch, "a/file", "x");
	assert_int_equal(symlink("a", scratch_path(&w.scratch, "link")), 0);
	watched_start(&w);
	watched_check(&w);
	assert_int_equal(cgroup_tree_size(w.tree), 10);

	/* Breadth-first. */
	TAILQ_FOREACH(c, cgroup_tree_all(w.tree), in_all) {
		assert_true(c->depth >= depth);
		depth = c->depth;
	}
	assert_int_equal(depth, 4);
	assert_int_equal(cgroup_tree_stats(w.tree).watches, 10);
	assert_int_equal(cgroup_tree_stats(w.tree).watches_missing, 0);
	watched_forget(&w);
	watched_follow(&w);
	watched_expect(&w, "");
	watched_free(&w);
}

static void test_slashes_at_the_end(_unused_ void **state)
{
	struct watched w = {};
	char path[128];

	scratch_make(&w.scratch);
	(void)snprintf(path, sizeof(path), "%s///", w.scratch.path);
	watched_open(&w, path, &admit_all);
	watched_mkdir(&w, "a/b");
	watched_start(&w);
	watched_expect(&w, "+/\n+/a\n+/a/b\n");
	watched_check(&w);
	watched_free(&w);
}

static void test_no_mount(_unused_ void **state)
{
	struct watched w = {};

	scratch_make(&w.scratch);
	scratch_text(&w.scratch, "file", "x");
	watched_open(&w, scratch_path(&w.scratch, "gone"), &admit_all);
	assert_int_equal(cgroup_tree_start(w.tree, &w.why), -ENOENT);
	assert_non_null(strstr(w.why.text, scratch_path(&w.scratch, "gone")));
	cgroup_tree_free(w.tree);
	watched_open(&w, scratch_path(&w.scratch, "file"), &admit_all);
	assert_int_equal(cgroup_tree_start(w.tree, &w.why), -ENOTDIR);
	watched_expect(&w, "");
	watched_free(&w);
}

/* --- following */

static void test_come_and_go(_unused_ void **state)
{
	struct watched w;

	watched_make(&w);
	watched_start(&w);
	watched_forget(&w);

	watched_mkdir(&w, "a");
	watched_follow(&w);
	watched_expect(&w, "+/a\n");
	watched_mkdir(&w, "a/b");
	watched_follow(&w);
	watched_expect(&w, "+/a/b\n");
	scratch_text(&w.scratch, "a/file", "x");
	assert_int_equal(unlink(scratch_path(&w.scratch, "a/file")), 0);
	watched_follow(&w);
	watched_expect(&w, "");
	watched_check(&w);
	watched_rmdir(&w, "a/b");
	watched_follow(&w);
	watched_expect(&w, "-/a/b\n");
	watched_rmdir(&w, "a");
	watched_follow(&w);
	watched_expect(&w, "-/a\n");
	watched_check(&w);
	assert_int_equal(cgroup_tree_stats(w.tree).watches, 1);
	assert_int_equal(cgroup_tree_stats(w.tree).watches_missing, 0);
	assert_int_equal(cgroup_tree_stats(w.tree).missed, 0);
	watched_free(&w);
}

static void test_tree_made_at_once(_unused_ void **state)
{
	struct watched w;

	watched_make(&w);
	watched_start(&w);
	watched_forget(&w);
	watched_mkdir(&w, "a/b/c/d");
	watched_follow(&w);
	watched_expect(&w, "+/a\n+/a/b\n+/a/b/c\n+/a/b/c/d\n");

	/* Watched from then on, at every depth. */
	watched_mkdir(&w, "a/b/c/d/e");
	watched_mkdir(&w, "a/x");
	watched_follow(&w);
	watched_expect(&w, "+/a/b/c/d/e\n+/a/x\n");
	watched_check(&w);
	watched_free(&w);
}

static void test_tree_removed_at_once(_unused_ void **state)
{
	struct watched w;

	watched_make(&w);
	watched_mkdir(&w, "a/b/c");
	watched_start(&w);
	watched_forget(&w);
	watched_rmdir(&w, "a/b/c");
	watched_rmdir(&w, "a/b");
	watched_rmdir(&w, "a");
	watched_follow(&w);
	watched_expect(&w, "-/a/b/c\n-/a/b\n-/a\n");
	watched_check(&w);
	watched_free(&w);
}

static void test_short_life(_unused_ void **state)
{
	struct watched w;

	watched_make(&w);
	watched_start(&w);
	watched_forget(&w);
	watched_mkdir(&w, "a");
	watched_rmdir(&w, "a");
	watched_follow(&w);
	watched_expect(&w, "");
	assert_int_equal(cgroup_tree_stats(w.tree).missed, 1);
	assert_false(cgroup_tree_is_incomplete(w.tree));
	watched_free(&w);
}

/* Each life but the last is over before anybody looks. */
static void test_short_lives(_unused_ void **state)
{
	static char *const names[] = { (char *)"/new", (char *)"/left-out" };
	struct cgroup_filter filter = admit_all;
	struct watched w;

	filter.exclude = names;
	filter.nr_exclude = 2;
	watched_make(&w);
	cgroup_tree_set_filter(w.tree, &filter);
	watched_mkdir(&w, "old");
	watched_start(&w);
	watched_expect(&w, "+/\n+/old\n");
	watched_mkdir(&w, "a");
	watched_rmdir(&w, "a");
	watched_mkdir(&w, "a");
	watched_mkdir(&w, "left-out");
	watched_rmdir(&w, "left-out");
	watched_mkdir(&w, "left-out");
	watched_follow(&w);
	watched_expect(&w, "+/a\n+/left-out\n");
	assert_int_equal(cgroup_tree_stats(w.tree).missed, 1);

	/* Those that are known, by an event or by a reading, are not among them. */
	watched_remake(&w, "a");
	watched_remake(&w, "old");
	watched_follow(&w);
	watched_expect(&w, "-/a\n+/a\n-/old\n+/old\n");
	assert_int_equal(cgroup_tree_stats(w.tree).missed, 1);
	watched_remake(&w, "a");
	watched_remake(&w, "a");
	watched_remake(&w, "a");
	watched_follow(&w);
	watched_expect(&w, "-/a\n+/a\n");
	assert_int_equal(cgroup_tree_stats(w.tree).missed, 3);
	watched_remake(&w, "a");
	watched_remake(&w, "a");
	watched_rmdir(&w, "a");
	watched_follow(&w);
	watched_expect(&w, "-/a\n");
	assert_int_equal(cgroup_tree_stats(w.tree).missed, 5);

	/* By a reading that comes before its event, or after. */
	for (int i = 0; i < 8; i++) {
		cgroup_tree_rescan(w.tree);
		watched_mkdir(&w, "b");
		watched_follow(&w);
		watched_rmdir(&w, "b");
		watched_follow(&w);
	}
	assert_int_equal(cgroup_tree_stats(w.tree).missed, 5);
	watched_free(&w);
}

static void test_made_again(_unused_ void **state)
{
	struct watched w;
	uint64_t id;

	watched_make(&w);
	watched_mkdir(&w, "a");
	watched_start(&w);
	watched_forget(&w);
	id = watched_find(&w, "/a")->identity->id;

	watched_remake(&w, "a");
	watched_follow(&w);
	watched_expect(&w, "-/a\n+/a\n");
	assert_int_not_equal(watched_find(&w, "/a")->identity->id, id);
	watched_check(&w);

	/* Its events are those of the new one. */
	watched_mkdir(&w, "a/b");
	watched_follow(&w);
	watched_expect(&w, "+/a/b\n");

	/* Several times between two events, the last time with something in it. */
	watched_rmdir(&w, "a/b");
	watched_remake(&w, "a");
	watched_remake(&w, "a");
	watched_mkdir(&w, "a/c");
	watched_follow(&w);
	watched_expect(&w, "-/a/b\n-/a\n+/a\n+/a/c\n");
	watched_check(&w);

	/* What is in the new one is nothing of the old one's, although it has the same path. */
	watched_rmdir(&w, "a/c");
	watched_remake(&w, "a");
	watched_mkdir(&w, "a/c");
	watched_follow(&w);
	watched_expect(&w, "-/a/c\n-/a\n+/a\n+/a/c\n");
	watched_check(&w);
	watched_free(&w);
}

static void test_renamed(_unused_ void **state)
{
	struct watched w;

	watched_make(&w);
	watched_mkdir(&w, "a/b/c");
	watched_start(&w);
	watched_forget(&w);

	watched_rename(&w, "a", "z");
	watched_follow(&w);
	watched_expect(&w, "-/a/b/c\n-/a/b\n-/a\n+/z\n+/z/b\n+/z/b/c\n");
	watched_check(&w);
	assert_false(cgroup_tree_is_incomplete(w.tree));
	watched_mkdir(&w, "z/b/c/d");
	watched_follow(&w);
	watched_expect(&w, "+/z/b/c/d\n");

	watched_free(&w);
}

static void test_moved_away(_unused_ void **state)
{
	struct watched w = {};

	scratch_make(&w.scratch);
	watched_mkdir(&w, "mount/a/b");
	watched_open(&w, scratch_path(&w.scratch, "mount"), &admit_all);
	watched_start(&w);
	watched_forget(&w);
	watched_rename(&w, "mount/a", "away");
	watched_follow(&w);
	watched_expect(&w, "-/a/b\n-/a\n");

	/* Not watched any more. */
	watched_mkdir(&w, "away/c");
	watched_follow(&w);
	watched_expect(&w, "");
	watched_rename(&w, "away", "mount/a");
	watched_follow(&w);
	watched_compare(&w, scratch_path(&w.scratch, "mount"));
	assert_int_equal(cgroup_tree_stats(w.tree).watches, 4);
	watched_free(&w);
}

/* The new place is found by reading before the event of the old one comes: one directory in two places. */
static void test_moved_ahead_of_its_event(_unused_ void **state)
{
	struct watched w;

	watched_make(&w);
	watched_mkdir(&w, "a/b");
	watched_start(&w);
	watched_forget(&w);
	watched_mkdir(&w, "z");
	watched_rename(&w, "a", "z/a");
	watched_follow(&w);
	watched_expect(&w, "+/z\n+/z/a\n+/z/a/b\n-/a/b\n-/a\n");
	watched_check(&w);
	assert_true(cgroup_tree_is_incomplete(w.tree));
	watched_rescan(&w);
	assert_false(cgroup_tree_is_incomplete(w.tree));
	watched_mkdir(&w, "z/a/b/c");
	watched_follow(&w);
	watched_expect(&w, "+/z/a/b/c\n");
	watched_free(&w);
}

static void test_names(_unused_ void **state)
{
	static const char *const names[] = {
		"quo\"te",   "back\\slash", "new\nline",    "tab\t", " ",	"*",	"-",
		"b\xc3\xbc", "\xff\xfe",    "\xef\xbf\xbd", "...",   ".hidden", "\x01", "%s%n",
	};
	struct watched w;
	char longest[NAME_MAX + 1], path[NAME_MAX + 2];

	watched_make(&w);
	watched_start(&w);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_(freep) char *label = NULL;
		struct cgroup *c;

		watched_mkdir(&w, names[i]);
		watched_follow(&w);
		(void)snprintf(path, sizeof(path), "/%s", names[i]);
		c = watched_find(&w, path);
		assert_non_null(c);
		assert_string_equal(c->path, path);
		label = utf8_printable(path);
		assert_string_equal(c->identity->label, label);
	}
	memset(longest, 'x', NAME_MAX);
	longest[NAME_MAX] = '\0';
	watched_mkdir(&w, longest);
	watched_follow(&w);
	watched_check(&w);

	watched_forget(&w);
	watched_rescan(&w);
	watched_expect(&w, "");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		watched_rmdir(&w, names[i]);
	watched_follow(&w);
	watched_check(&w);
	assert_int_equal(cgroup_tree_size(w.tree), 2);
	watched_free(&w);
}

/* --- filters */

static void test_admits(_unused_ void **state)
{
	char *two[] = { (char *)"/system.slice/*", (char *)"/machine.slice/**" };
	char *out[] = { (char *)"**/x.service" };
	const struct cgroup_filter filter = { .include = two, .nr_include = 2, .exclude = out, .nr_exclude = 1 };
	const struct cgroup_filter none = {};

	assert_true(cgroup_filter_admits(&filter, "/system.slice/a.service"));
	assert_true(cgroup_filter_admits(&filter, "/machine.slice/a/b"));
	assert_false(cgroup_filter_admits(&filter, "/system.slice/a.service/b"));
	assert_false(cgroup_filter_admits(&filter, "/system.slice/x.service"));
	assert_false(cgroup_filter_admits(&filter, "/user.slice"));
	assert_false(cgroup_filter_admits(&filter, "/"));
	assert_true(cgroup_filter_admits(&admit_all, "/"));
	assert_true(cgroup_filter_admits(&admit_all, "/a/b"));
	assert_false(cgroup_filter_admits(&none, "/"));
}

static void test_set_filter(_unused_ void **state)
{
	char *only_a[] = { (char *)"/a/**" };
	const struct cgroup_filter filter = { .include = only_a, .nr_include = 1 };
	struct watched w;

	watched_make(&w);
	watched_mkdir(&w, "a/b");
	watched_start(&w);
	watched_forget(&w);

	cgroup_tree_set_filter(w.tree, &filter);
	watched_expect(&w, "~/\n~/a\n");
	assert_false(watched_find(&w, "/")->wanted);
	assert_false(watched_find(&w, "/a")->wanted);
	assert_true(watched_find(&w, "/a/b")->wanted);
	watched_mkdir(&w, "a/c");
	watched_mkdir(&w, "d");
	watched_follow(&w);
	assert_true(watched_find(&w, "/a/c")->wanted);
	assert_false(watched_find(&w, "/d")->wanted);
	watched_forget(&w);
	cgroup_tree_set_filter(w.tree, &filter);
	watched_expect(&w, "");
	cgroup_tree_set_filter(w.tree, NULL);
	watched_expect(&w, "~/a/b\n~/a/c\n");
	watched_free(&w);
}

/* --- opening */

static void test_open(_unused_ void **state)
{
	struct watched w;
	struct stat st;
	int fd;

	watched_make(&w);
	watched_mkdir(&w, "a");
	watched_mkdir(&w, "b");
	watched_start(&w);
	fd = cgroup_open(w.tree, watched_find(&w, "/a"));
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_ino, watched_find(&w, "/a")->identity->id);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_false(fcntl(fd, F_GETFL) & O_PATH);
	close(fd);
	fd = cgroup_open(w.tree, watched_find(&w, "/"));
	assert_true(fd >= 0);
	close(fd);

	watched_remake(&w, "a");
	assert_int_equal(cgroup_open(w.tree, watched_find(&w, "/a")), -ENOENT);
	watched_rmdir(&w, "b");
	assert_int_equal(cgroup_open(w.tree, watched_find(&w, "/b")), -ENOENT);
	scratch_text(&w.scratch, "b", "a file");
	assert_int_equal(cgroup_open(w.tree, watched_find(&w, "/b")), -ENOENT);
	assert_int_equal(unlink(scratch_path(&w.scratch, "b")), 0);
	assert_int_equal(symlink("a", scratch_path(&w.scratch, "b")), 0);
	assert_int_equal(cgroup_open(w.tree, watched_find(&w, "/b")), -ENOENT);
	watched_follow(&w);
	watched_check(&w);
	watched_free(&w);
}

/* --- anything, in any order */

/* Whatever happens between two calls, the tree is the folder afterwards. */
static void test_anything(_unused_ void **state)
{
	struct watched w;
	unsigned random = 7, done = 0, rescans = 0;

	watched_make(&w);
	watched_start(&w);
	for (int i = 0; i < 2500; i++) {
		for (unsigned n = watched_draw(&random, 8); n; n--)
			done += watched_change(&w, &random);
		watched_follow(&w);
		/* A directory that was moved may be without a watch, and change unseen. */
		if (cgroup_tree_is_incomplete(w.tree) || watched_draw(&random, 20) == 0) {
			watched_rescan(&w);
			rescans++;
		}
		watched_check(&w);
		watched_forget(&w);
	}
	if (done < 2000)
		fail_msg("only %u of the operations did something", done);
	assert_in_range(rescans, 1, 1000);
	watched_free(&w);
}

/* --- real cgroups */

struct real {
	struct watched w;
	char path[PATH_MAX];
};

static void real_remove(const struct real *real)
{
	static const char *const names[] = { "/a/b/c", "/a/b", "/a", "/d", "" };
	char path[PATH_MAX + 16];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		(void)snprintf(path, sizeof(path), "%s%s", real->path, names[i]);
		(void)rmdir(path);
	}
}

static void real_mkdir(const struct real *real, const char *name)
{
	char path[PATH_MAX + 16];

	(void)snprintf(path, sizeof(path), "%s/%s", real->path, name);
	assert_int_equal(mkdir(path, 0755), 0);
}

static void real_rmdir(const struct real *real, const char *name)
{
	char path[PATH_MAX + 16];

	(void)snprintf(path, sizeof(path), "%s/%s", real->path, name);
	assert_int_equal(rmdir(path), 0);
}

static void real_make(struct real *real)
{
	_cleanup_(cgroup_mount_release) struct cgroup_mount mount = {};
	struct reason why = {};

	*real = (struct real){};
	if (cgroup_mount_find(&mount, "/proc/self/mountinfo", &why) < 0)
		fail_msg("%s", why.text);
	(void)snprintf(real->path, sizeof(real->path), "%s/perfmond-unit-%d", mount.path, getpid());
	if (mkdir(real->path, 0755) < 0)
		fail_msg("can't make a cgroup at %s: %s", real->path, strerror(errno));
	watched_open(&real->w, real->path, &admit_all);
}

static int leave_real(void **state)
{
	struct real *real = *state;

	if (real) {
		cgroup_tree_free(real->w.tree);
		buf_release(&real->w.log);
		real_remove(real);
		free(real);
	}
	return 0;
}

static int enter_real(void **state)
{
	*state = calloc(1, sizeof(struct real));
	return *state ? 0 : -1;
}

static void test_real(void **state)
{
	struct real *real = *state;
	struct watched *w = &real->w;
	uint64_t id;
	int fd;

	needs("cgroup");
	real_make(real);
	real_mkdir(real, "a");
	watched_start(w);
	watched_expect(w, "+/\n+/a\n");
	real_mkdir(real, "a/b");
	real_mkdir(real, "a/b/c");
	real_mkdir(real, "d");
	watched_follow(w);
	watched_expect(w, "+/a/b\n+/a/b/c\n+/d\n");
	watched_compare(w, real->path);
	assert_false(cgroup_tree_is_incomplete(w->tree));

	/* A directory that is held open keeps the removed cgroup, and is seen to go all the same. */
	fd = cgroup_open(w->tree, watched_find(w, "/a/b/c"));
	assert_true(fd >= 0);
	real_rmdir(real, "a/b/c");
	watched_follow(w);
	watched_expect(w, "-/a/b/c\n");

	/* The kernel gives no id twice. */
	id = watched_find(w, "/d")->identity->id;
	real_rmdir(real, "d");
	real_mkdir(real, "d");
	watched_follow(w);
	watched_expect(w, "-/d\n+/d\n");
	assert_int_not_equal(watched_find(w, "/d")->identity->id, id);
	close(fd);

	real_rmdir(real, "a/b");
	watched_rescan(w);
	watched_expect(w, "-/a/b\n");
	watched_follow(w);
	watched_expect(w, "");
	watched_compare(w, real->path);
	assert_int_equal(cgroup_tree_stats(w->tree).missed, 0);
	assert_int_equal(cgroup_tree_stats(w->tree).watches, 3);
}

/* Whatever comes and goes between two looks: each was reported, or is counted as missed. */
static void expect_none_forgotten(struct real *real, bool rescans)
{
	static const char *const names[] = { "a", "d" };
	struct watched *w = &real->w;
	unsigned random = 1, made = 0, reported = 0;

	needs("cgroup");
	real_make(real);
	watched_start(w);
	watched_forget(w);
	for (int i = 0; i < 30000; i++) {
		char path[PATH_MAX + 16];

		(void)snprintf(path, sizeof(path), "%s/%s", real->path, names[watched_draw(&random, 2)]);
		if (rescans && watched_draw(&random, 20) == 0)
			cgroup_tree_rescan(w->tree);
		if (watched_draw(&random, 3) == 0) {
			assert_true(cgroup_tree_follow(w->tree, 0, &w->why) >= 0);
		} else if (watched_draw(&random, 2)) {
			made += mkdir(path, 0755) == 0;
		} else {
			(void)rmdir(path);
		}
	}
	watched_follow(w);
	watched_compare(w, real->path);
	for (size_t i = 0; i < w->log.len; i++)
		reported += w->log.data[i] == '+';
	assert_in_range(reported, 500, made - 500);
	assert_int_equal(reported + cgroup_tree_stats(w->tree).missed, made);
}

static void test_real_none_forgotten(void **state)
{
	expect_none_forgotten(*state, false);
}

static void test_real_none_forgotten_by_rescans(void **state)
{
	expect_none_forgotten(*state, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_first_scan),
		cmocka_unit_test(test_slashes_at_the_end),
		cmocka_unit_test(test_no_mount),
		cmocka_unit_test(test_come_and_go),
		cmocka_unit_test(test_tree_made_at_once),
		cmocka_unit_test(test_tree_removed_at_once),
		cmocka_unit_test(test_short_life),
		cmocka_unit_test(test_short_lives),
		cmocka_unit_test(test_made_again),
		cmocka_unit_test(test_renamed),
		cmocka_unit_test(test_moved_away),
		cmocka_unit_test(test_moved_ahead_of_its_event),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_admits),
		cmocka_unit_test(test_set_filter),
		cmocka_unit_test(test_open),
		cmocka_unit_test(test_anything),
		cmocka_unit_test_setup_teardown(test_real, enter_real, leave_real),
		cmocka_unit_test_setup_teardown(test_real_none_forgotten, enter_real, leave_real),
		cmocka_unit_test_setup_teardown(test_real_none_forgotten_by_rescans, enter_real, leave_real),
	};

	return watched_run("cgroup", tests);
}
