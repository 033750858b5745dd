/* SPDX-License-Identifier: MIT */

/* Captures as files: bounds, files of others, and what can go wrong. */

#include "profiler/capture/capture-folder.h"

#include "base/util/buf.h"
#include "setup/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Writes a file of so many bytes; what went wrong, or "". */
static const char *put_as(const char *folder, const char *rule, const char *id, size_t size, uint64_t keep,
			  uint64_t max_bytes)
{
	const struct capture_file file = { .id = id, .rule = rule, .keep = keep, .max_bytes = max_bytes };
	static struct reason why;
	_cleanup_(buf_release) struct buf bytes = {};
	int r;

	why.text[0] = '\0';
	for (size_t i = 0; i < size; i++)
		buf_char(&bytes, (char)('a' + i % 26));
	r = capture_folder_write(folder, &file, bytes.data, bytes.len, &why);
	assert_int_equal(r < 0, why.text[0] != '\0');
	return why.text;
}

/* The same, of a rule whose name has no "-2". */
static const char *put(const char *folder, const char *id, size_t size, uint64_t keep, uint64_t max_bytes)
{
	_cleanup_(freep) char *rule = strndup(id, (size_t)(strstr(id, "-2") - id));

	return put_as(folder, rule, id, size, keep, max_bytes);
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* The names in the folder, with a space behind each. */
static const char *names_in(const char *path)
{
	static char text[1024];
	struct dirent **entries;
	int nr = scandir(path, &entries, NULL, compare_names);

	text[0] = '\0';
	for (int i = 0; i < nr; i++) {
		if (entries[i]->d_name[0] != '.')
			(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s ", entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	return text;
}

#define ID(rule, second, number) rule "-20261123T0211" second "Z-" number

static void test_files(void **state)
{
	struct scratch *scratch = *state;
	const char *path = scratch_path(scratch, "captures");
	struct stat st;

	assert_string_equal(put(path, ID("a-b", "01", "1"), 100, 2, 10000), "");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(stat(scratch_path(scratch, "captures/" ID("a-b", "01", "1") ".pb.gz"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(st.st_size, 100);
	/* The rule's oldest goes; another's stays, also where its name begins alike. */
	assert_string_equal(put(path, ID("a", "01", "2"), 100, 2, 10000), "");
	assert_string_equal(put(path, ID("a-b", "02", "9"), 100, 2, 10000), "");
	assert_string_equal(put(path, ID("a-b", "02", "10"), 100, 2, 10000), "");
	assert_string_equal(names_in(path), ID("a", "01", "2") ".pb.gz " ID("a-b", "02", "10") ".pb.gz " ID(
						    "a-b", "02", "9") ".pb.gz ");
	/* Too many bytes in all: the oldest of all go. */
	assert_string_equal(put(path, ID("c", "03", "11"), 750, 2, 1000), "");
	assert_string_equal(names_in(path), ID("a-b", "02", "10") ".pb.gz " ID("a-b", "02", "9") ".pb.gz " ID(
						    "c", "03", "11") ".pb.gz ");
	/* What goes since its rule has enough takes no room from others: 550 + 200 + 200 fit, and 750 does not. */
	assert_string_equal(put(path, ID("d", "04", "12"), 550, 1, 1000), "");
	assert_string_equal(put(path, ID("e", "05", "13"), 200, 1, 1000), "");
	assert_string_equal(names_in(path), ID("d", "04", "12") ".pb.gz " ID("e", "05", "13") ".pb.gz ");
	assert_string_equal(put(path, ID("d", "06", "14"), 700, 1, 1000), "");
	assert_string_equal(names_in(path), ID("d", "06", "14") ".pb.gz " ID("e", "05", "13") ".pb.gz ");
}

/* A rule that keeps one file removes its own older one, and none of another rule: whatever their names have in common,
 * and though a name may look like the end of another's file. */
static void test_names_that_contain_each_other(void **state)
{
	static const char *const rules[] = {
		"a",
		"a-b",
		"a-b-c",
		"a-",
		"a--",
		"-",
		"-a",
		"a-1",
		"a-1-1",
		"1",
		"1-1",
		"A",
		"a-20261123T021101Z",
		"a-20261123T021101Z-",
		"a-20261123T021101Z-1",
		"a-20261123T021101Z-1-20261123T021101Z",
		"20261123T021101Z",
		"20261123T021101Z-1",
		"-20261123T021101Z-1",
		"b20261123T021101Z",
	};
	struct scratch *scratch = *state;
	_cleanup_(freep) char *path = strdup(scratch_path(scratch, "captures"));

	for (unsigned turn = 1; turn <= 2; turn++)
		for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
			char id[100];

			(void)snprintf(id, sizeof(id), "%s-20261123T02110%uZ-%zu", rules[i], turn, i);
			assert_string_equal(put_as(path, rules[i], id, 10, 1, 1000000), "");
		}
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		for (unsigned turn = 1; turn <= 2; turn++) {
			char name[120];

			(void)snprintf(name, sizeof(name), "captures/%s-20261123T02110%uZ-%zu.pb.gz", rules[i], turn,
				       i);
			if ((access(scratch_path(scratch, name), F_OK) == 0) != (turn == 2))
				fail_msg("%s is %s", name, turn == 2 ? "gone" : "there");
		}
}

/* The clock was set back since older files were written, or is wrong now: the oldest goes, and not the newest. */
static void test_clock_that_is_set(void **state)
{
	const struct timespec in_2046[2] = { { .tv_sec = 2400000000 }, { .tv_sec = 2400000000, .tv_nsec = 999999999 } };
	struct scratch *scratch = *state;
	const char *path = scratch_path(scratch, "captures");
	struct capture_saved *saved;
	size_t nr;

	assert_string_equal(put(path, ID("a", "50", "1"), 100, 2, 10000), "");
	assert_string_equal(put(path, ID("a", "10", "2"), 100, 2, 10000), "");
	assert_string_equal(put(path, ID("a", "09", "3"), 100, 2, 10000), "");
	assert_string_equal(names_in(path), ID("a", "09", "3") ".pb.gz " ID("a", "10", "2") ".pb.gz ");
	assert_int_equal(
		utimensat(AT_FDCWD, scratch_path(scratch, "captures/" ID("a", "09", "3") ".pb.gz"), in_2046, 0), 0);
	assert_string_equal(put(path, ID("a", "08", "4"), 100, 2, 10000), "");
	assert_string_equal(put(path, ID("a", "07", "5"), 100, 2, 10000), "");
	assert_string_equal(names_in(path), ID("a", "07", "5") ".pb.gz " ID("a", "08", "4") ".pb.gz ");
	assert_int_equal(capture_folder_list(path, &saved, &nr), 0);
	assert_int_equal(nr, 2);
	assert_string_equal(saved[0].id, ID("a", "07", "5"));
	free(saved);
}

static void test_files_of_others(void **state)
{
	static const char *const others[] = {
		"captures/notes.txt",
		"captures/" ID("a", "01", "") ".pb.gz",
		"captures/" ID("a", "01", "x") ".pb.gz",
		"captures/" ID("", "01", "1") ".pb.gz",
		"captures/" ID("a", "01", "1") ".pb",
		"captures/a-20261123T02110ZZ-1.pb.gz",
		"captures/notes.XXXXXX",
		"captures/" ID("a", "01", "1") ".pb.gz.backup",
	};
	struct scratch *scratch = *state;

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		scratch_text(scratch, others[i], "x");
	scratch_text(scratch, "captures/" ID("a", "01", "1") ".pb.gz.perfmond-AbCdEf", "left behind");
	scratch_text(scratch, "captures/" ID("a", "01", "1") ".pb.gz", "of an earlier run");
	assert_string_equal(put(scratch_path(scratch, "captures"), ID("a", "02", "1"), 10, 1, 100), "");
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_int_equal(access(scratch_path(scratch, others[i]), F_OK), 0);
	assert_int_equal(access(scratch_path(scratch, "captures/" ID("a", "01", "1") ".pb.gz.perfmond-AbCdEf"), F_OK),
			 -1);
	assert_int_equal(access(scratch_path(scratch, "captures/" ID("a", "01", "1") ".pb.gz"), F_OK), -1);
	assert_int_equal(access(scratch_path(scratch, "captures/" ID("a", "02", "1") ".pb.gz"), F_OK), 0);
}

static void check_problem(const char *found, const char *expected)
{
	if (!strstr(found, expected))
		fail_msg("%s", found);
}

static void test_problems(void **state)
{
	struct scratch *scratch = *state;
	_cleanup_(freep) char *path = strdup(scratch_path(scratch, "captures"));

	check_problem(put(NULL, ID("a", "01", "1"), 10, 1, 100), "there is no state directory");
	check_problem(put(scratch_path(scratch, "none/captures"), ID("a", "01", "1"), 10, 1, 100),
		      "can't be made: No such file or directory");
	scratch_text(scratch, "captures", "a file in place of the folder");
	check_problem(put(path, ID("a", "01", "1"), 10, 1, 100), "captures: Not a directory");
	/* It is tried again. */
	assert_int_equal(unlink(path), 0);
	scratch_mkdir(scratch, "captures/" ID("a", "01", "1") ".pb.gz");
	check_problem(put(path, ID("a", "01", "1"), 10, 1, 100), "captures: Is a directory");
	assert_string_equal(put(path, ID("a", "01", "2"), 10, 1, 100), "");
}

/* The file of a capture; NULL: it is not there. */
static void check_answer(const char *folder, const char *id, const char *expected)
{
	const struct profile_question question = { .capture = id, .form = PROFILE_FORM_PPROF };
	_cleanup_(buf_release) struct buf bytes = {};
	struct reason why = {};
	int r = capture_folder_answer(&bytes, folder, &question, &why);

	assert_int_equal(r, expected ? 0 : -ENOENT);
	assert_int_equal(bytes.len, expected ? strlen(expected) : 0);
	if (expected)
		assert_memory_equal(bytes.data, expected, bytes.len);
	else
		assert_non_null(strstr(why.text, "there is no such capture"));
}

static void test_list_and_read(void **state)
{
	struct scratch *scratch = *state;
	_cleanup_(freep) char *path = strdup(scratch_path(scratch, "captures"));
	struct capture_saved *saved;
	size_t nr;

	assert_int_equal(capture_folder_list(NULL, &saved, &nr), 0);
	assert_int_equal(nr, 0);
	free(saved);
	assert_int_equal(capture_folder_list(path, &saved, &nr), 0);
	assert_int_equal(nr, 0);
	free(saved);
	assert_string_equal(put(path, ID("a", "01", "1"), 10, 9, 1000), "");
	assert_string_equal(put(path, ID("b-c", "02", "2"), 20, 9, 1000), "");
	scratch_text(scratch, "captures/notes.txt", "x");
	scratch_text(scratch, "captures/\xff" ID("", "03", "3") ".pb.gz", "x");
	/* Another write is in progress. */
	scratch_text(scratch, "captures/" ID("a", "04", "4") ".pb.gz.perfmond-AbCdEf", "x");
	scratch_text(scratch, "captures/" ID("link", "05", "5"), "x");
	assert_int_equal(symlink("notes.txt", scratch_path(scratch, "captures/" ID("link", "05", "5") ".pb.gz")), 0);
	assert_int_equal(capture_folder_list(path, &saved, &nr), 0);
	assert_int_equal(nr, 2);
	assert_string_equal(saved[0].id, ID("b-c", "02", "2"));
	assert_int_equal(saved[0].bytes, 20);
	assert_string_equal(saved[1].id, ID("a", "01", "1"));
	free(saved);
	assert_int_equal(access(scratch_path(scratch, "captures/" ID("a", "04", "4") ".pb.gz.perfmond-AbCdEf"), F_OK),
			 0);

	check_answer(path, ID("a", "01", "1"), "abcdefghij");
	check_answer(NULL, ID("a", "01", "1"), NULL);
	check_answer(path, ID("a", "01", "2"), NULL);
	check_answer(path, "notes.txt", NULL);
	check_answer(path, "../captures/" ID("a", "01", "1"), NULL);
	check_answer(path, ID("link", "05", "5"), NULL);
}

static void test_it_is_there_whole_and_for_pprof(void **state)
{
	struct scratch *scratch = *state;
	_cleanup_(freep) char *path = strdup(scratch_path(scratch, "captures"));
	const struct profile_question refused[] = {
		{ .form = PROFILE_FORM_TREE },
		{ .form = PROFILE_FORM_PPROF, .from = { .kind = MOMENT_AGO, .ns = 1 } },
		{ .form = PROFILE_FORM_PPROF, .to = { .kind = MOMENT_SINCE_EPOCH, .ns = 1 } },
		{ .form = PROFILE_FORM_PPROF, .cgroup = "/a" },
		{ .form = PROFILE_FORM_PPROF, .command = "x" },
	};

	assert_string_equal(put(path, ID("a", "01", "1"), 10, 9, 1000), "");
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct profile_question question = refused[i];
		_cleanup_(buf_release) struct buf bytes = {};
		struct reason why = {};

		question.capture = ID("a", "01", "1");
		assert_int_equal(capture_folder_answer(&bytes, path, &question, &why), -EINVAL);
		assert_non_null(strstr(why.text, "on disk alone: ask for format=pprof"));
		assert_int_equal(bytes.len, 0);
	}
}

static int setup(void **state)
{
	struct scratch *scratch = calloc(1, sizeof(*scratch));

	assert_non_null(scratch);
	scratch_make(scratch);
	*state = scratch;
	return 0;
}

static int teardown(void **state)
{
	scratch_remove(*state);
	free(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_names_that_contain_each_other, setup, teardown),
		cmocka_unit_test_setup_teardown(test_clock_that_is_set, setup, teardown),
		cmocka_unit_test_setup_teardown(test_files_of_others, setup, teardown),
		cmocka_unit_test_setup_teardown(test_problems, setup, teardown),
		cmocka_unit_test_setup_teardown(test_list_and_read, setup, teardown),
		cmocka_unit_test_setup_teardown(test_it_is_there_whole_and_for_pprof, setup, teardown),
	};

	return cmocka_run_group_tests_name("capture-folder", tests, NULL, NULL);
}
