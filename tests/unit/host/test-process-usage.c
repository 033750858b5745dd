/* SPDX-License-Identifier: MIT */

/* What this process uses, by the procfs of this machine, and by one that the test plays. */

#include "base/host/process-usage.h"

#include "base/util/cleanup.h"
#include "base/util/clock.h"
#include "base/util/file.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* More than are counted one by one. */
#define MANY 100000

/* The procfs that is played: zeroed, it is that of the machine. */
static struct played {
	bool is_old; /* the folder of files has no size, as before Linux 6.2 */
	int stat_error, opendir_error;
	const char *statm; /* in place of the file's text */
	int statm_error;
} played;

int __wrap_stat(const char *path, struct stat *st);
int __real_stat(const char *path, struct stat *st);
DIR *__wrap_opendir(const char *path);
DIR *__real_opendir(const char *path);
int __wrap_read_text_file(int dirfd, const char *path, size_t max, char **ret);
int __real_read_text_file(int dirfd, const char *path, size_t max, char **ret);

int __wrap_stat(const char *path, struct stat *st)
{
	int r = __real_stat(path, st);

	if (r == 0 && played.is_old)
		st->st_size = 0;
	errno = played.stat_error ?: errno;
	return played.stat_error ? -1 : r;
}

DIR *__wrap_opendir(const char *path)
{
	errno = played.opendir_error;
	return played.opendir_error ? NULL : __real_opendir(path);
}

int __wrap_read_text_file(int dirfd, const char *path, size_t max, char **ret)
{
	if (played.statm_error)
		return -played.statm_error;
	if (!played.statm)
		return __real_read_text_file(dirfd, path, max, ret);
	*ret = strdup(played.statm);
	assert_non_null(*ret);
	return 0;
}

static uint64_t open_fds(uint64_t at_least)
{
	return process_usage_read(at_least).open_fds;
}

/* By its size, and one by one: without the file that is open for the count. */
static void test_open_files_are_counted_exactly(_unused_ void **state)
{
	static const struct played ways[] = { {}, { .is_old = true }, { .stat_error = EACCES } };
	uint64_t before = open_fds(0);
	int fds[50];

	assert_true(before >= 3 && before != USAGE_UNKNOWN);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		assert_true((fds[i] = dup(STDERR_FILENO)) >= 0);
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		played = ways[i];
		assert_int_equal(open_fds(ARRAY_SIZE(fds)), before + ARRAY_SIZE(fds));
	}
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	assert_int_equal(open_fds(0), before);
}

/* Thousands are not counted one by one; the folder's size costs nothing. */
static void test_too_many_open_files_are_not_counted_one_by_one(_unused_ void **state)
{
	struct stat st;

	assert_int_equal(stat("/proc/self/fd", &st), 0);
	if (st.st_size > 0)
		assert_int_equal(open_fds(MANY), open_fds(0));
	played.is_old = true;
	assert_true(open_fds(MANY) == USAGE_UNKNOWN);
	assert_true(open_fds(0) != USAGE_UNKNOWN);
	played.opendir_error = EMFILE;
	assert_true(open_fds(0) == USAGE_UNKNOWN);
}

static void test_memory_is_in_bytes(_unused_ void **state)
{
	static const struct {
		const char *text;
		int error;
		uint64_t virtual_pages, resident_pages;
	} cases[] = {
		{ "3000 700 300 20 0 900 0", 0, 3000, 700 },
		{ "5000000000 4000000000 1", 0, 5000000000, 4000000000 },
		/* It is not known, and told as 0. */
		{ "3000", 0, 0, 0 },
		{ "", 0, 0, 0 },
		{ "", EMFILE, 0, 0 },
	};
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct process_usage usage = process_usage_read(0);

	assert_true(usage.resident_bytes > 0 && usage.virtual_bytes >= usage.resident_bytes);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		played = (struct played){ .statm = cases[i].text, .statm_error = cases[i].error };
		usage = process_usage_read(0);
		assert_int_equal(usage.virtual_bytes, cases[i].virtual_pages * page);
		assert_int_equal(usage.resident_bytes, cases[i].resident_pages * page);
	}
}

static uint64_t own_cpu_ns(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
	return rusage_ns(&usage);
}

static void test_cpu_time_is_that_of_the_process(_unused_ void **state)
{
	uint64_t before, now, after;

	/* So that user and system time are not 0. */
	while (own_cpu_ns() < 20000000)
		(void)getppid();
	before = own_cpu_ns();
	now = process_usage_read(0).cpu_ns;
	after = own_cpu_ns();
	assert_true(before <= now && now <= after);
}

static int setup(_unused_ void **state)
{
	played = (struct played){};
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_open_files_are_counted_exactly, setup),
		cmocka_unit_test_setup(test_too_many_open_files_are_not_counted_one_by_one, setup),
		cmocka_unit_test_setup(test_memory_is_in_bytes, setup),
		cmocka_unit_test_setup(test_cpu_time_is_that_of_the_process, setup),
	};

	return cmocka_run_group_tests_name("process-usage", tests, NULL, NULL);
}
