/* SPDX-License-Identifier: MIT */

/* The list of processes that root saves, of a made /proc; and the mappings of this process. */

#include "base/host/maps-reader.h"
#include "base/host/process-list.h"
#include "base/util/buf.h"
#include "base/util/cleanup.h"
#include "base/util/file.h"
#include "setup/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define LIST                                                                                                           \
	"p 12 a name\n"                                                                                                \
	"m 7f0000001000 2000 3000 0123456789abcdef0123456789abcdef01234567 /usr/lib/a lib\n"                           \
	"m 7f0000100000 1000 0 fe:1:2a /usr/bin/program\n"                                                             \
	"p 13 kthread\n"

static void test_save(void **state)
{
	_cleanup_(freep) char *text = NULL, *list = NULL;
	struct scratch scratch, proc;
	struct reason why = {};
	struct stat st;

	(void)state;
	scratch_make(&scratch);
	scratch_make(&proc);
	list = strdup(scratch_path(&scratch, "processes"));
	assert_int_equal(process_list_save(proc.path, list, &why), -ENOENT);
	scratch_text(&proc, "12/comm", "a\tname\n");
	scratch_text(&proc, "12/maps",
		     "7f0000001000-7f0000003000 r-xp 00003000 fe:01 42                         /usr/lib/a lib\n"
		     "7f0000003000-7f0000004000 r--p 00003000 fe:01 42                         /usr/lib/a lib\n"
		     "7f0000005000-7f0000006000 r-xp 00000000 00:00 0 \n");
	scratch_text(&proc, "13/comm", "kthread\n");
	scratch_text(&proc, "self/comm", "no number\n");
	assert_int_equal(process_list_save(proc.path, list, &why), 2);
	assert_int_equal(stat(list, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0400);
	assert_int_equal(read_text_file(AT_FDCWD, list, 4096, &text), 0);
	assert_non_null(strstr(text, "p 13 kthread"));
	assert_non_null(strstr(text, "p 12 a?name\n"
				     "m 7f0000001000 2000 3000 fe:1:2a /usr/lib/a lib\n"
				     "m 7f0000005000 1000 0 0:0:0 //anon"));
	assert_int_equal(process_list_save("/nowhere", list, &why), -ENOENT);
	scratch_remove(&scratch);
	scratch_remove(&proc);
}

/* --- reading */

struct seen {
	unsigned processes, mappings;
};

static int see_process(void *userdata, _unused_ uint32_t pid, const char *comm)
{
	struct seen *seen = userdata;

	seen->processes++;
	return strcmp(comm, "end") == 0 ? -ECANCELED : 0;
}

static int see_mapping(void *userdata, const struct proc_mapping *mapping)
{
	struct seen *seen = userdata;

	assert_true(mapping->path[0]);
	seen->mappings++;
	return 0;
}

static int read_list(const char *text, struct seen *seen)
{
	const struct process_list_reader reader = { see_process, see_mapping, seen };
	_cleanup_(freep) char *copy = strdup(text);

	*seen = (struct seen){};
	return process_list_read(copy, &reader);
}

static void test_malformed(void **state)
{
	static const char *const lines[] = {
		"m 1000 1000 0 0:0:0 /no/process/before\n",
		"p 1\nm 1000 1000 0 0:0:0 /of/none\n",
		"p x y\n",
		"p -1 y\n",
		"p 4294967295 y\n",
		"x 1 2 3\n",
		"\n\n",
		"",
	};
	static const char *const mappings[] = {
		"m 1000 1000 0 0:0:0\n",  "m 1000 1000 0 0:0:0 \n",
		"m 1000 1000 0 0:0 /a\n", "m 1000 1000 0  /a\n",
		"m 1000 1000 0 012 /a\n", "m 1000 1000 0 zz /a\n",
		"m q 1000 0 0:0:0 /a\n",  "m 1000 1000 0 000102030405060708090a0b0c0d0e0f101112131415 /too/long\n",
	};
	char text[256];
	struct seen seen;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		assert_int_equal(read_list(lines[i], &seen), 0);
		assert_int_equal(seen.processes + seen.mappings, 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(mappings); i++) {
		(void)snprintf(text, sizeof(text), "p 1 a\n%s", mappings[i]);
		assert_int_equal(read_list(text, &seen), 0);
		assert_int_equal(seen.processes, 1);
		assert_int_equal(seen.mappings, 0);
	}
	assert_int_equal(read_list(LIST, &seen), 0);
	assert_int_equal(seen.processes, 2);
	assert_int_equal(seen.mappings, 2);
	assert_int_equal(read_list("p 1 end\np 2 more\n", &seen), -ECANCELED);
	assert_int_equal(seen.processes, 1);
}

/* --- mappings */

static int count_mapping(void *userdata, const struct proc_mapping *mapping)
{
	size_t *nr = userdata;

	assert_true(mapping->size > 0);
	assert_non_null(mapping->path);
	(*nr)++;
	return 0;
}

/* The kernel's own list of this process, against the text of its maps. */
static void test_own_maps(void **state)
{
	char line[8192], comm_found[PROC_COMM_SIZE];
	size_t found = 0, expected = 0;
	struct proc_mapping mapping;
	FILE *file = fopen("/proc/self/maps", "re");

	(void)state;
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		/* It is no mapping that the kernel's queries know. */
		expected += proc_maps_parse(&mapping, line) && strcmp(mapping.path, "[vsyscall]") != 0;
	}
	(void)fclose(file);
	assert_int_equal(proc_maps_read("/proc", (uint32_t)getpid(), MAPPINGS_MAX, count_mapping, &found), 0);
	/* The text has it, where there is no query. */
	assert_true(found == expected || found == expected + 1);
	found = 0;
	assert_int_equal(proc_maps_read("/proc", (uint32_t)getpid(), 1, count_mapping, &found), 0);
	assert_int_equal(found, 1);
	assert_int_equal(proc_comm_read("/proc", (uint32_t)getpid(), comm_found), 0);
	assert_true(strlen(comm_found) > 0);
	assert_int_equal(proc_maps_read("/nowhere", 1, 10, count_mapping, &found), -ENOENT);
}

/* Text of many lines, and of one that has no room: that mapping alone is left out. */
static void test_long_text(void **state)
{
	_cleanup_(buf_release) struct buf text = {};
	struct scratch proc;
	size_t found = 0;

	(void)state;
	for (unsigned i = 1; i <= 1000; i++)
		buf_printf(&text, "%x000-%x800 r-xp 0 8:1 5 /file of number %u\n", i, i, i);
	buf_str(&text, "1000-2000 r-xp 0 8:1 5 /");
	for (unsigned i = 0; i < 30000; i++)
		buf_char(&text, 'x');
	buf_str(&text, "\n1000-2000 r-xp 0 8:1 5 /last\n");
	buf_char(&text, '\0');
	assert_false(text.failed);
	scratch_make(&proc);
	scratch_text(&proc, "12/maps", text.data);
	assert_int_equal(proc_maps_read(proc.path, 12, MAPPINGS_MAX, count_mapping, &found), 0);
	assert_int_equal(found, 1001);
	scratch_remove(&proc);
}

static void test_lines(void **state)
{
	static const char *const wrong[] = {
		"",
		"nothing",
		"1000-2000 r-xp",
		"2000-1000 r-xp 0 8:1 5 /a",
		"1000-1000 r-xp 0 8:1 5 /a",
		"1000-2000 r--p 0 8:1 5 /a",
		"1000-2000 x 0 8:1 5 /a",
	};
	struct proc_mapping mapping;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_false(proc_maps_parse(&mapping, wrong[i]));
	assert_true(proc_maps_parse(&mapping, "1000-3000 --xs 5000 fd:1f 99     /a file with spaces (deleted)"));
	assert_int_equal(mapping.start, 0x1000);
	assert_int_equal(mapping.size, 0x2000);
	assert_int_equal(mapping.offset, 0x5000);
	assert_int_equal(mapping.key.major, 0xfd);
	assert_int_equal(mapping.key.minor, 0x1f);
	assert_int_equal(mapping.key.inode, 99);
	assert_string_equal(mapping.path, "/a file with spaces (deleted)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_save),	  cmocka_unit_test(test_malformed), cmocka_unit_test(test_own_maps),
		cmocka_unit_test(test_long_text), cmocka_unit_test(test_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
