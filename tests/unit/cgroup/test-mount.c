/* SPDX-License-Identifier: MIT */

/* util/mountinfo and cgroup/mount: the mount that perf's cgroups are in. */

#include "base/cgroup/mount.h"
#include "base/util/mountinfo.h"
#include "setup/needs.h"
#include "setup/scratch.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

#define V2_ONLY                                                                                                        \
	"22 27 0:21 / /proc rw,relatime - proc proc rw\n"                                                              \
	"23 27 0:22 / /sys rw,relatime shared:7 - sysfs sysfs rw\n"                                                    \
	"30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 "                      \
	"rw,nsdelegate,memory_recursiveprot\n"

/* systemd's hybrid layout: v1 controllers, and cgroup2 for systemd's own use. */
#define HYBRID                                                                                                         \
	"31 23 0:28 / /sys/fs/cgroup ro,nosuid shared:8 - tmpfs tmpfs ro,mode=755\n"                                   \
	"32 31 0:29 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"                            \
	"33 31 0:30 / /sys/fs/cgroup/systemd rw shared:10 - cgroup cgroup rw,xattr,name=systemd\n"                     \
	"34 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw shared:11 - cgroup cgroup rw,cpu,cpuacct\n"

#define V1_PERF "35 31 0:32 / /sys/fs/cgroup/perf_event rw shared:12 - cgroup cgroup rw,perf_event\n"

/* The mounts of a text, one after another. */
struct lines {
	char *mounts[16][4];
	uint64_t ids[16];
	size_t nr, at;
};

static int take_line(void *userdata, const struct mountinfo *mount)
{
	struct lines *lines = userdata;
	const char *fields[] = { mount->root, mount->mount_point, mount->fstype, mount->options };

	assert_true(lines->nr < ARRAY_SIZE(lines->mounts));
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		assert_non_null(lines->mounts[lines->nr][i] = strdup(fields[i]));
	lines->ids[lines->nr++] = mount->id;
	return 0;
}

/* NULL stands for anything. */
static void expect_line(struct lines *lines, const char *root, const char *mount_point, const char *fstype,
			const char *options)
{
	const char *fields[] = { root, mount_point, fstype, options };

	assert_true(lines->at < lines->nr);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (fields[i])
			assert_string_equal(lines->mounts[lines->at][i], fields[i]);
		free(lines->mounts[lines->at][i]);
	}
	lines->at++;
}

/* --- lines */

static void test_lines(_unused_ void **state)
{
	static const char text[] =
		"36 35 98:0 /a\\040b /mnt/1\\0112\\1343\\012\\043 rw master:1 propagate_from:2 - ext3 /dev/r rw,x\n"
		"37 35 0:1 / /no/optional rw - tmpfs tmpfs rw\n"
		"38 35 0:1 / /dash rw shared:1 - tmpfs - rw\n"
		"39 35 0:1 / /no/source rw - tmpfs  rw,size=4k\n"
		"39 35 0:1 / /more/than/known rw - tmpfs tmpfs ro,x y z\n"
		"40 35 0:1 / /last rw - proc proc rw";
	struct lines lines = {};

	assert_int_equal(mountinfo_walk_text(text, take_line, &lines), 0);
	assert_int_equal(lines.nr, 6);
	assert_int_equal(lines.ids[0], 36);
	assert_int_equal(lines.ids[5], 40);
	expect_line(&lines, "/a b", "/mnt/1\t2\\3\n#", "ext3", "rw,x");
	expect_line(&lines, "/", "/no/optional", NULL, NULL);
	expect_line(&lines, "/", "/dash", "tmpfs", "rw");
	expect_line(&lines, "/", "/no/source", "tmpfs", "rw,size=4k");
	expect_line(&lines, "/", "/more/than/known", "tmpfs", "ro,x");
	expect_line(&lines, "/", "/last", "proc", "rw");
}

static void test_broken_lines(_unused_ void **state)
{
	static const char text[] = "\n"
				   "noise\n"
				   "1 2 3:4 / /no/separator rw shared:1 tmpfs tmpfs rw\n"
				   "1 2 3:4 / /no/options rw - tmpfs tmpfs\n"
				   "1 2 3:4 / /nothing/behind rw -\n"
				   "1 2 3:4 / not/absolute rw - tmpfs tmpfs rw\n"
				   "- - - - - - - - -\n"
				   "          \n"
				   "1 2 3:4 / /bad\\escape\\04\\8 rw - tmpfs tmpfs rw\n";
	struct lines lines = {};

	assert_int_equal(mountinfo_walk_text(text, take_line, &lines), 0);
	assert_int_equal(lines.nr, 1);
	expect_line(&lines, "/", "/bad\\escape\\04\\8", "tmpfs", "rw");
}

static int stop_at(void *userdata, const struct mountinfo *mount)
{
	return mount->id == *(uint64_t *)userdata ? 7 : 0;
}

/* Pieces are cut between lines, and what the function says ends the walk. */
static void test_long_texts(_unused_ void **state)
{
	_cleanup_(freep) char *text = malloc(3000 * 100 + 1000 * 100);
	uint64_t last = 3000, none = 3001;
	size_t at = 0;

	assert_non_null(text);
	for (int i = 1; i <= 3000; i++)
		at += (size_t)sprintf(text + at, "%d 1 0:%d / /run/%d rw - tmpfs t rw,mode=%0*d\n", i, i, i, i % 50, i);
	assert_int_equal(mountinfo_walk_text(text, stop_at, &last), 7);
	assert_int_equal(mountinfo_walk_text(text, stop_at, &none), 0);
	/* A line that is longer than any of the kernel's is left out. */
	memset(text, 'x', 3000 * 100);
	memcpy(text, "1 1 0:1 / /", strlen("1 1 0:1 / /"));
	strcpy(text + 3000 * 100 - 20, " rw - tmpfs t rw\n3000 1 0:1 / /a rw - tmpfs t rw\n");
	assert_int_equal(mountinfo_walk_text(text, stop_at, &last), 7);
}

static void test_options(_unused_ void **state)
{
	struct mountinfo mount = { .options = "rw,perf_event,name=perf" };

	assert_true(mountinfo_has_option(&mount, "perf_event"));
	assert_true(mountinfo_has_option(&mount, "rw"));
	assert_true(mountinfo_has_option(&mount, "name"));
	assert_false(mountinfo_has_option(&mount, "perf"));
	assert_false(mountinfo_has_option(&mount, "perf_event,name"));
	mount.options = "";
	assert_false(mountinfo_has_option(&mount, "rw"));
}

/* --- cgroups */

static void find(const char *text, const char *path, int version)
{
	_cleanup_(cgroup_mount_release) struct cgroup_mount mount = {};
	struct reason why = {};
	struct scratch scratch;
	int r;

	scratch_make(&scratch);
	scratch_text(&scratch, "mountinfo", text);
	r = cgroup_mount_find(&mount, scratch_path(&scratch, "mountinfo"), &why);
	scratch_remove(&scratch);

	if (!path) {
		assert_int_equal(r, -ENOENT);
		assert_non_null(strstr(why.text, "mount cgroup2 at /sys/fs/cgroup"));
		assert_null(mount.path);
		return;
	}
	assert_int_equal(r, 0);
	assert_string_equal(mount.path, path);
	assert_int_equal(mount.version, version);
}

static void test_layouts(_unused_ void **state)
{
	find(V2_ONLY, "/sys/fs/cgroup", 2);
	find(HYBRID, "/sys/fs/cgroup/unified", 2);
	/* The kernel refuses cgroup2's directories then, wherever it stands in the list. */
	find(HYBRID V1_PERF, "/sys/fs/cgroup/perf_event", 1);
	find(V1_PERF HYBRID, "/sys/fs/cgroup/perf_event", 1);
	find("35 31 0:32 / /sys/fs/cgroup/cpu,perf_event rw - cgroup cgroup rw,cpu,perf_event\n",
	     "/sys/fs/cgroup/cpu,perf_event", 1);
	find("1 0 0:1 / /proc rw - proc proc rw\n", NULL, 0);
	find("33 31 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n", NULL, 0);
	find("", NULL, 0);
	find("40 1 0:32 / /with\\040space rw - cgroup2 none rw\n", "/with space", 2);
}

static void test_whole_is_preferred(_unused_ void **state)
{
	static const char part[] = "50 1 0:26 /docker/1 /part rw - cgroup2 cgroup2 rw\n";
	static const char whole[] = "51 1 0:26 / /whole rw - cgroup2 cgroup2 rw\n";
	static const char second[] = "52 1 0:26 / /second rw - cgroup2 cgroup2 rw\n";
	char text[512];

	find(part, "/part", 2);
	(void)snprintf(text, sizeof(text), "%s%s%s", part, whole, second);
	find(text, "/whole", 2);
	(void)snprintf(text, sizeof(text), "%s%s", whole, part);
	find(text, "/whole", 2);
}

/* From within cgroup namespaces: what is above the own part shows as "..". */
static void test_most_is_preferred(_unused_ void **state)
{
	static const char *const mounts[] = {
		"50 1 0:26 /../sibling /0 rw - cgroup2 cgroup2 rw\n", "51 1 0:26 /part /1 rw - cgroup2 cgroup2 rw\n",
		"52 1 0:26 / /2 rw - cgroup2 cgroup2 rw\n",	      "53 1 0:26 /.. /3 rw - cgroup2 cgroup2 rw\n",
		"54 1 0:26 /../.. /4 rw - cgroup2 cgroup2 rw\n",      "55 1 0:26 /..part /5 rw - cgroup2 cgroup2 rw\n",
	};
	char text[512];

	find(mounts[0], "/0", 2);
	for (size_t i = 2; i < 5; i++) {
		(void)snprintf(text, sizeof(text), "%s%s%s%s", mounts[0], mounts[1], mounts[i - 1], mounts[i]);
		find(text, (char[]){ '/', (char)('0' + i), '\0' }, 2);
		(void)snprintf(text, sizeof(text), "%s%s%s%s", mounts[i], mounts[i - 1], mounts[1], mounts[0]);
		find(text, (char[]){ '/', (char)('0' + i), '\0' }, 2);
	}
	(void)snprintf(text, sizeof(text), "%s%s", mounts[5], mounts[2]);
	find(text, "/2", 2);
	/* A v1 hierarchy that has perf_event has it all to itself. */
	(void)snprintf(text, sizeof(text), "%s%s", mounts[4], V1_PERF);
	find(text, "/sys/fs/cgroup/perf_event", 1);
}

/* Of more than can be remembered, those that show most are. */
static void test_many_cgroup_mounts(_unused_ void **state)
{
	_cleanup_(freep) char *text = malloc(1000 * 64);
	size_t at = 0;

	assert_non_null(text);
	for (int i = 0; i < 500; i++)
		at += (size_t)sprintf(text + at, "%d 1 0:26 %s /%d rw - cgroup2 c rw\n", i, i == 400 ? "/.." : "/", i);
	find(text, "/400", 2);
}

static void test_mounted_over(_unused_ void **state)
{
	find(V2_ONLY "60 30 0:50 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n", NULL, 0);
	find(V2_ONLY "60 30 0:50 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
		     "61 60 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
	     "/sys/fs/cgroup", 2);
	find(V2_ONLY "61 30 0:26 /part /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup", 2);
	/* What was second then is first. */
	find(V2_ONLY "59 1 0:26 / /other rw - cgroup2 cgroup2 rw\n"
		     "60 30 0:50 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n",
	     "/other", 2);
}

static void test_many_mounts(_unused_ void **state)
{
	_cleanup_(freep) char *text = malloc(20000 * 64 + sizeof(V2_ONLY));
	size_t at = 0;

	assert_non_null(text);
	for (int i = 0; i < 20000; i++)
		at += (size_t)sprintf(text + at, "%d 1 0:%d / /run/%d rw shared:%d - tmpfs tmpfs rw\n", i, i, i, i);
	strcpy(text + at, V2_ONLY);
	find(text, "/sys/fs/cgroup", 2);
}

static void test_no_mountinfo(_unused_ void **state)
{
	struct cgroup_mount mount = {};
	struct reason why;

	assert_int_equal(cgroup_mount_find(&mount, "/nonexistent/mountinfo", &why), -ENOENT);
	assert_non_null(strstr(why.text, "/nonexistent/mountinfo"));
	assert_null(mount.path);
	assert_int_equal(cgroup_mount_find(&mount, "/nonexistent/mountinfo", NULL), -ENOENT);
}

/* --- what the config names */

static int choose(const char *procfs, const char *path, const char *sentence)
{
	_cleanup_(cgroup_mount_release) struct cgroup_mount mount = {};
	struct reason why = {};
	int r = cgroup_mount_choose(&mount, procfs, path, &why);

	if (sentence) {
		assert_true(r < 0);
		assert_null(mount.path);
		if (!strstr(why.text, sentence))
			fail_msg("'%s' is not in: %s", sentence, why.text);
	}
	return r;
}

static void test_named(_unused_ void **state)
{
	struct scratch scratch;

	scratch_make(&scratch);
	scratch_text(&scratch, "file", "");
	assert_int_equal(choose("/proc", "/nonexistent", "mount names /nonexistent: No such file"), -ENOENT);
	assert_int_equal(choose("/proc", scratch_path(&scratch, "file"), "Not a directory"), -ENOTDIR);
	assert_int_equal(choose("/proc", scratch.path, "which is no cgroup hierarchy"), -ENOENT);
	scratch_remove(&scratch);
}

/* procfs's list of controllers says whether perf_event is with cgroup2. */
static void test_hierarchy(_unused_ void **state)
{
	static const struct {
		const char *text;
		int want;
	} table[] = {
		{ "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t7\t1\nperf_event\t0\t5\t1\npids\t8\t5\t1\n",
		  0 },
		{ "#subsys_name\thierarchy\tnum_cgroups\tenabled\nperf_event\t12\t1\t1\n", 12 },
		{ "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t7\t1\n", -1 },
		{ "#subsys_name\nnot_perf_event\t3\t1\t1\n", -1 },
		{ "#\nperf_event\tx\n", -1 },
		{ "#\nperf_event\t-3\n", -1 },
		{ "", -1 },
	};
	struct cgroup_mount mount = {};
	struct scratch scratch;

	scratch_make(&scratch);
	assert_int_equal(cgroup_perf_hierarchy(scratch.path), -1);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		scratch_text(&scratch, "cgroups", table[i].text);
		assert_int_equal(cgroup_perf_hierarchy(scratch.path), table[i].want);
	}
	scratch_text(&scratch, "cgroups", table[1].text);
	if (cgroup_mount_choose(&mount, "/proc", "", NULL) == 0 && mount.version == 2) {
		choose(scratch.path, "", "perf_event is in a v1 hierarchy (number 12) that is not mounted here");
		choose(scratch.path, mount.path, "that is not what [cgroup] mount names");
	}
	cgroup_mount_release(&mount);
	scratch_remove(&scratch);
}

/* What it finds on this machine is a file system of that kind (statfs(2)). */
static void test_this_machine(_unused_ void **state)
{
	_cleanup_(cgroup_mount_release) struct cgroup_mount mount = {};
	struct reason why;
	struct statfs fs;

	needs("cgroup");
	if (cgroup_mount_find(&mount, "/proc/self/mountinfo", &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(statfs(mount.path, &fs), 0);
	assert_int_equal(fs.f_type, mount.version == 2 ? 0x63677270 : 0x27e0eb);

	cgroup_mount_release(&mount);
	assert_int_equal(cgroup_mount_choose(&mount, "/proc", "", &why), 0);
	assert_int_not_equal(mount.top, 0);
	assert_true(cgroup_mount_is_there(&mount));
	mount.id++;
	assert_false(cgroup_mount_is_there(&mount));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_broken_lines),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_whole_is_preferred),
		cmocka_unit_test(test_mounted_over),
		cmocka_unit_test(test_many_mounts),
		cmocka_unit_test(test_no_mountinfo),
		cmocka_unit_test(test_long_texts),
		cmocka_unit_test(test_most_is_preferred),
		cmocka_unit_test(test_many_cgroup_mounts),
		cmocka_unit_test(test_named),
		cmocka_unit_test(test_hierarchy),
		cmocka_unit_test(test_this_machine),
	};

	return cmocka_run_group_tests_name("mount", tests, NULL, NULL);
}
