/* SPDX-License-Identifier: MIT */

/* Finding tracefs, and what is in it. */

#include "base/util/file.h"
#include "counting/event/catalog/folder.h"
#include "counting/event/catalog/tracefs.h"
#include "counting/event/catalog/tracelist.h"
#include "setup/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ROOT_MOUNT "21 1 0:19 / / rw - ext4 /dev/vda rw\n"
#define TRACEFS "42 23 0:13 / /sys/kernel/tracing rw,relatime - tracefs none rw\n"
#define DEBUGFS "31 23 0:7 / /sys/kernel/debug rw,nosuid shared:5 - debugfs debugfs rw\n"
#define AUTOMOUNT "43 31 0:13 / /sys/kernel/debug/tracing rw,relatime - tracefs tracefs rw\n"

static void test_find(_unused_ void **state)
{
	static const struct {
		const char *mountinfo;
		const char *want; /* NULL: -ENOENT */
	} table[] = {
		{ ROOT_MOUNT TRACEFS DEBUGFS, "/sys/kernel/tracing" },
		{ ROOT_MOUNT DEBUGFS TRACEFS, "/sys/kernel/tracing" },
		{ ROOT_MOUNT DEBUGFS, "/sys/kernel/debug/tracing" },
		{ DEBUGFS AUTOMOUNT, "/sys/kernel/debug/tracing" },
		{ "42 23 0:13 / /my\\040traces rw - tracefs none rw\n", "/my traces" },
		{ "noise\n\n42 23\n" TRACEFS, "/sys/kernel/tracing" },
		{ "42 23 0:13 /instances/a /a rw - tracefs none rw\n" DEBUGFS, "/sys/kernel/debug/tracing" },
		{ "42 23 0:13 /instances/a /a rw - tracefs none rw\n", NULL },
		{ ROOT_MOUNT, NULL },
		{ "", NULL },
		{ "tracefs\n- tracefs\n", NULL },
	};
	char *dir = tree_new(NULL), *file = tree_path(dir, "mountinfo"), *found = NULL;
	struct reason why = {};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		int r;

		tree_text(dir, "mountinfo", table[i].mountinfo);
		r = tracefs_find(file, &found, &why);
		assert_int_equal(r, table[i].want ? 0 : -ENOENT);
		if (table[i].want)
			assert_string_equal(found, table[i].want);
		else
			assert_non_null(strstr(why.text, "tracefs is not mounted"));
		free(found);
		found = NULL;
	}

	tree_remove(dir, "mountinfo");
	assert_int_equal(tracefs_find(file, &found, &why), -ENOENT);
	assert_non_null(strstr(why.text, "mountinfo: No such file"));
	assert_null(found);
	free(file);
	tree_free(dir);
}

static const struct tree_file files[] = {
	{ "events/sched/sched_switch/id", "372\n" },
	{ "events/sched/sched_wakeup/id", "371\n" },
	{ "events/sched/enable", "0\n" },
	{ "events/syscalls/sys_enter_getppid/id", "21\n" },
	{ "events/ftrace/print/format", "name: print\n" },
	{ "events/broken/empty/id", "" },
	{ "events/broken/text/id", "many\n" },
	{ "events/broken/folder/id/x", "" },
	{ "events/header_page", "" },
	{},
};

static void check_id(const char *root, const char *subsystem, const char *name, int error, const char *part)
{
	struct reason why = {};
	uint64_t id = 42;

	assert_int_equal(tracefs_id(root, subsystem, name, &id, &why), error);
	if (!strstr(why.text, part))
		fail_msg("'%s' has no '%s'", why.text, part);
	assert_int_equal(id, 42);
	assert_int_equal(tracefs_id(root, subsystem, name, &id, NULL), error);
}

static void test_id(_unused_ void **state)
{
	char *root = tree_new(files), *gone = tree_path(root, "gone");
	uint64_t id = 0;

	assert_int_equal(tracefs_id(root, "sched", "sched_switch", &id, NULL), 0);
	assert_int_equal(id, 372);
	check_id(root, "sched", "gone", -ENOENT, "this kernel has no tracepoint 'sched:gone'");
	check_id(root, "gone", "gone", -ENOENT, "this kernel has no tracepoint 'gone:gone'");
	check_id(root, "sched", "enable", -ENOENT, "no tracepoint 'sched:enable'");
	check_id(root, "broken", "empty", -EBADMSG, "events/broken/empty/id holds no number");
	check_id(root, "broken", "text", -EBADMSG, "holds no number");
	check_id(root, "broken", "folder", -EISDIR, "Is a directory");
	check_id(NULL, "sched", "sched_switch", -ENODEV, "tracefs is not mounted; mount it with");
	check_id(gone, "sched", "sched_switch", -ENODEV, "is tracefs mounted");
	free(gone);
	tree_free(root);
}

/* tracefs is mode 700 as the kernel mounts it. Root may look into anything: another user has to try. */
static void test_not_readable(_unused_ void **state)
{
	char *root = tree_new(files);
	struct reason why = {};
	uid_t uid = geteuid();

	assert_int_equal(chmod(root, 0), 0);
	if (uid == 0)
		assert_int_equal(seteuid(65534), 0);
	check_id(root, "sched", "sched_switch", -EACCES, "is readable by root alone");
	check_id(root, "sched", "sched_switch", -EACCES, "run perfmond by its unit");
	assert_false(tracefs_is_readable(root));
	assert_int_equal(tracefs_save(root, "/dev/null/none", &why), -EACCES);
	assert_non_null(strstr(why.text, "/events: Permission denied"));
	assert_int_equal(seteuid(uid), 0);
	assert_int_equal(chmod(root, 0700), 0);
	tree_free(root);
}

struct seen {
	char text[256];
	int stop_at;
};

static int see(void *userdata, const char *subsystem, const char *name)
{
	struct seen *seen = userdata;
	size_t n = strlen(seen->text);

	(void)snprintf(seen->text + n, sizeof(seen->text) - n, "%s:%s ", subsystem, name);
	return --seen->stop_at == 0 ? 42 : 0;
}

static void test_walk(_unused_ void **state)
{
	char *root = tree_new(files);
	struct seen seen = {};

	assert_int_equal(tracefs_walk(root, see, &seen), 0);
	assert_string_equal(seen.text, "broken:empty broken:folder broken:text sched:sched_switch sched:sched_wakeup "
				       "syscalls:sys_enter_getppid ");
	seen = (struct seen){ .stop_at = 2 };
	assert_int_equal(tracefs_walk(root, see, &seen), 42);
	assert_string_equal(seen.text, "broken:empty broken:folder ");

	seen = (struct seen){};
	tree_remove(root, "events");
	assert_int_equal(tracefs_walk(root, see, &seen), 0);
	assert_int_equal(tracefs_walk(NULL, see, &seen), 0);
	assert_string_equal(seen.text, "");
	tree_free(root);
}

/* --- a list in tracefs's place */

static void test_list_lines(_unused_ void **state)
{
	char text[] = "sched:sched_switch 372\n"
		      "\n"
		      "sched:sched_wakeup\n" /* no id */
		      "sched 7\n"	     /* no name */
		      "sched: 7\n"
		      ":name 7\n"
		      "a:b 7 8\n"
		      "a:b -7\n"
		      "a:b  7\n"
		      "a:b 18446744073709551616\n" /* out of range */
		      "a\tb:c 7\n"
		      "a:b\33[m 7\n"
		      "x-1:y_2 0x10\n"
		      "last:one 18446744073709551615";
	static const struct tracepoint want[] = { { "sched", "sched_switch", 372 },
						  { "x-1", "y_2", 16 },
						  { "last", "one", UINT64_MAX } };
	char *cursor = text;
	struct tracepoint tracepoint;

	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		assert_true(tracelist_next(&cursor, &tracepoint));
		assert_string_equal(tracepoint.subsystem, want[i].subsystem);
		assert_string_equal(tracepoint.name, want[i].name);
		assert_int_equal(tracepoint.id, want[i].id);
	}
	assert_false(tracelist_next(&cursor, &tracepoint));
	assert_false(tracelist_next(&cursor, &tracepoint));
}

static void check_text(const char *path, const char *want)
{
	_cleanup_(freep) char *text = NULL;

	assert_int_equal(read_text_file(AT_FDCWD, path, 4096, &text), 0);
	assert_string_equal(text, want);
}

/* What is saved answers as the original does. */
static void test_save(_unused_ void **state)
{
	char *root = tree_new(files), *dir = tree_new(NULL), *list = tree_path(dir, "list");
	struct name_array names = {};
	struct reason why = {};
	struct seen seen = {};
	uint64_t id = 0;
	struct stat st;
	mode_t mask = umask(0077);

	tree_text(dir, "target", "untouched");
	tree_link(dir, "list", "target");
	assert_int_equal(tracefs_save(root, list, &why), 3);
	(void)umask(mask);
	assert_int_equal(lstat(list, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0644);
	check_text(list, "sched:sched_switch 372\nsched:sched_wakeup 371\nsyscalls:sys_enter_getppid 21");
	assert_int_equal(folder_read(AT_FDCWD, dir, &names), 0);
	assert_int_equal(names.nr, 2);
	name_array_release(&names);

	assert_int_equal(tracefs_id(list, "sched", "sched_wakeup", &id, NULL), 0);
	assert_int_equal(id, 371);
	check_id(list, "sched", "gone", -ENOENT, "this kernel has no tracepoint 'sched:gone' (a module may be missing");
	check_id(list, "gone", "sched_switch", -ENOENT, list);
	assert_int_equal(tracefs_walk(list, see, &seen), 0);
	assert_string_equal(seen.text, "sched:sched_switch sched:sched_wakeup syscalls:sys_enter_getppid ");
	seen = (struct seen){ .stop_at = 2 };
	assert_int_equal(tracefs_walk(list, see, &seen), 42);

	/* An older one is replaced, and stays where there is nothing new. */
	tree_remove(root, "events/sched");
	assert_int_equal(tracefs_save(root, list, &why), 1);
	check_text(list, "syscalls:sys_enter_getppid 21");
	tree_remove(root, "events/syscalls");
	assert_int_equal(tracefs_save(root, list, &why), -ENOENT);
	assert_non_null(strstr(why.text, "there are no tracepoints"));
	tree_remove(root, "events");
	assert_int_equal(tracefs_save(root, list, &why), -ENOENT);
	assert_non_null(strstr(why.text, "/events: No such file"));
	assert_false(tracefs_is_readable(root));
	check_text(list, "syscalls:sys_enter_getppid 21");

	free(list);
	tree_free(dir);
	tree_free(root);
}

static void test_save_nowhere(_unused_ void **state)
{
	char *root = tree_new(files), *gone = tree_path(root, "gone/list"), *folder = tree_path(root, "events");
	struct name_array names = {};
	struct reason why = {};

	assert_true(tracefs_is_readable(root));
	assert_int_equal(tracefs_save(root, gone, &why), -ENOENT);
	assert_non_null(strstr(why.text, "gone/list: No such file"));
	assert_int_equal(tracefs_save(root, folder, &why), -EISDIR);
	assert_int_equal(folder_read(AT_FDCWD, root, &names), 0);
	assert_int_equal(names.nr, 1);
	name_array_release(&names);
	free(folder);
	free(gone);
	tree_free(root);
}

static void test_list_of_foreign_bytes(_unused_ void **state)
{
	char *dir = tree_new(NULL), *list = tree_path(dir, "list");
	struct seen seen = {};
	uint64_t id;

	tree_bytes(dir, "list", "a:b 1\0\n", 7);
	check_id(list, "a", "b", -EBADMSG, "list: Bad message");
	assert_int_equal(tracefs_walk(list, see, &seen), 0);
	assert_string_equal(seen.text, "");
	tree_text(dir, "list", "");
	check_id(list, "a", "b", -ENOENT, "no tracepoint 'a:b'");
	tree_text(dir, "list", "a:b 1\na:b 2\n");
	assert_int_equal(tracefs_id(list, "a", "b", &id, NULL), 0);
	assert_int_equal(id, 1);
	free(list);
	tree_free(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_find),	     cmocka_unit_test(test_id),
		cmocka_unit_test(test_not_readable), cmocka_unit_test(test_walk),
		cmocka_unit_test(test_list_lines),   cmocka_unit_test(test_save),
		cmocka_unit_test(test_save_nowhere), cmocka_unit_test(test_list_of_foreign_bytes),
	};

	return cmocka_run_group_tests_name("tracefs", tests, NULL, NULL);
}
