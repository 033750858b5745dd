/* SPDX-License-Identifier: MIT */

/* cgroup/usage: the CPU time of a cgroup, from texts, from made files, and of a real cgroup. */

#include "base/cgroup/mount.h"
#include "base/cgroup/usage.h"
#include "setup/needs.h"
#include "setup/watched.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_texts(_unused_ void **state)
{
	static const struct {
		const char *text;
		int r;
		uint64_t usec;
	} table[] = {
		{ "usage_usec 69872340000\nuser_usec 31442410000\nsystem_usec 38429930000", 0, 69872340000 },
		{ "user_usec 1\nusage_usec 0\n", 0, 0 },
		{ "usage_usec 18446744073709551615", 0, UINT64_MAX },
		{ "usage_usec 007\nusage_usec 8", 0, 7 },
		{ "nr_usage_usec 1\n\n\nusage_usec 2", 0, 2 },
		{ "", -EBADMSG, 0 },
		{ "\n", -EBADMSG, 0 },
		{ "usage_usec", -EBADMSG, 0 },
		{ "usage_usec ", -EBADMSG, 0 },
		{ "usage_usec\t5", -EBADMSG, 0 },
		{ "usage_usec  5", -EBADMSG, 0 },
		{ "usage_usec -5", -EBADMSG, 0 },
		{ "usage_usec +5", -EBADMSG, 0 },
		{ "usage_usec 5s", -EBADMSG, 0 },
		{ "usage_usec 5 6", -EBADMSG, 0 },
		{ "usage_usec 0x5", -EBADMSG, 0 },
		{ "usage_usec 18446744073709551616", -EBADMSG, 0 },
		{ "usage_usec \nusage_usec 5", -EBADMSG, 0 },
		{ "user_usec 5\n usage_usec 5", -EBADMSG, 0 },
		{ "usage_nsec 5", -EBADMSG, 0 },
		{ "\xff\xfe usage_usec 5", -EBADMSG, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		uint64_t usec = 99;
		int r = cgroup_usage_parse(table[i].text, &usec);

		if (r != table[i].r || usec != (r < 0 ? 99 : table[i].usec))
			fail_msg("'%s': %d", table[i].text, r);
	}
}

static void test_files(_unused_ void **state)
{
	struct watched w;
	struct cgroup *a;
	uint64_t usec = 99;

	watched_make(&w);
	scratch_text(&w.scratch, "a/cpu.stat", "usage_usec 1234\nuser_usec 1000\n");
	scratch_text(&w.scratch, "cpu.stat", "usage_usec 5678\n");
	watched_mkdir(&w, "none");
	watched_start(&w);
	a = watched_find(&w, "/a");
	assert_int_equal(cgroup_usage(w.tree, a, &usec), 0);
	assert_int_equal(usec, 1234);
	assert_int_equal(cgroup_usage(w.tree, watched_find(&w, "/"), &usec), 0);
	assert_int_equal(usec, 5678);
	assert_int_equal(cgroup_usage(w.tree, watched_find(&w, "/none"), &usec), -EOPNOTSUPP);

	scratch_text(&w.scratch, "a/cpu.stat", "usage_usec much\n");
	assert_int_equal(cgroup_usage(w.tree, a, &usec), -EBADMSG);
	/* Another in its place is not asked. */
	watched_rename(&w, "a", "old");
	scratch_text(&w.scratch, "a/cpu.stat", "usage_usec 1\n");
	assert_int_equal(cgroup_usage(w.tree, a, &usec), -ENOENT);
	watched_rmdir(&w, "none");
	assert_int_equal(cgroup_usage(w.tree, watched_find(&w, "/none"), &usec), -ENOENT);
	assert_int_equal(usec, 5678);
	watched_free(&w);
}

/* The root's time grows, since this here is running. */
static void test_machine(_unused_ void **state)
{
	struct cgroup_mount mount = {};
	struct reason why = {};
	struct watched w = {};
	uint64_t before, after;

	needs("cgroup2");
	if (cgroup_mount_find(&mount, "/proc/self/mountinfo", &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(mount.version, 2);
	scratch_make(&w.scratch);
	watched_open(&w, mount.path, &admit_all);
	watched_start(&w);
	assert_int_equal(cgroup_usage(w.tree, watched_find(&w, "/"), &before), 0);
	do
		assert_int_equal(cgroup_usage(w.tree, watched_find(&w, "/"), &after), 0);
	while (after == before);
	assert_true(after > before);
	cgroup_mount_release(&mount);
	watched_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_machine),
	};

	return cmocka_run_group_tests_name("usage", tests, NULL, NULL);
}
