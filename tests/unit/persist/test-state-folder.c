/* SPDX-License-Identifier: MIT */

/* The claim on the state directory. The locks are the kernel's; time passes as the test says. */

#include "service/persist/state-folder.h"

#include "base/util/cleanup.h"
#include "setup/limits.h"
#include "setup/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define FILE_NAME "totals"
#define MS 1000000U

/* Another daemon, and the time that the claim has waited for it. */
static struct other {
	int claim;	      /* -1: it has none */
	uint64_t stops_after; /* ns of waiting */
	uint64_t waited;      /* ns */
} other;

/* Errors of the next calls of flock(2), ended by 0. */
static const int *lock_errors;

int __wrap_flock(int fd, int operation);
int __real_flock(int fd, int operation);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);

int __wrap_flock(int fd, int operation)
{
	if (lock_errors && *lock_errors) {
		errno = *lock_errors++;
		return -1;
	}
	return __real_flock(fd, operation);
}

int __wrap_nanosleep(const struct timespec *time, _unused_ struct timespec *left)
{
	other.waited += (uint64_t)time->tv_sec * 1000 * MS + (uint64_t)time->tv_nsec;
	if (other.waited >= other.stops_after)
		other.claim = safe_close(other.claim);
	return 0;
}

static int claim(const char *folder, uint64_t patience, struct reason *why)
{
	why->text[0] = '\0';
	return state_folder_claim(folder, FILE_NAME, patience, why);
}

static void other_claims(const char *folder, uint64_t stops_after)
{
	struct reason why;

	other = (struct other){ .claim = claim(folder, 0, &why), .stops_after = stops_after };
	assert_true(other.claim >= 0);
}

static void test_the_claim_lasts_until_it_is_closed(void **state)
{
	const struct scratch *scratch = *state;
	struct reason why;
	int first, second;

	first = claim(scratch->path, 0, &why);
	assert_true(first >= 0);
	assert_int_equal(fcntl(first, F_GETFD), FD_CLOEXEC);
	assert_int_equal(claim(scratch->path, 0, &why), -EBUSY);
	assert_non_null(strstr(why.text, scratch->path));
	assert_non_null(strstr(why.text, "in use by another perfmond"));
	close(first);
	second = claim(scratch->path, 0, &why);
	assert_true(second >= 0);
	close(second);
	/* There is no lock file: the folder is empty. */
	scratch_mkdir(scratch, "empty");
	close(claim(scratch_path(scratch, "empty"), 0, &why));
	scratch_rmdir(scratch, "empty");
}

static void test_the_claim_waits_for_a_daemon_that_stops(void **state)
{
	static const struct {
		uint64_t stops_after, patience;
		bool claimed;
	} cases[] = {
		{ 0, 0, false },
		{ 300 * MS, 1000 * MS, true },
		{ 1000 * MS, 1000 * MS, true },
		{ 2000 * MS, 1000 * MS, false },
	};
	const struct scratch *scratch = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct reason why;
		int fd;

		other_claims(scratch->path, cases[i].stops_after);
		fd = claim(scratch->path, cases[i].patience, &why);
		assert_int_equal(fd >= 0, cases[i].claimed);
		assert_true(fd >= 0 || fd == -EBUSY);
		/* It ends soon after the other one does, or after its patience does. */
		assert_true(other.waited <= cases[i].patience);
		assert_true(other.waited < cases[i].stops_after + 100 * MS);
		assert_true(cases[i].claimed || other.waited >= cases[i].patience);
		safe_close(fd);
		other.claim = safe_close(other.claim);
	}
}

static void test_a_signal_does_not_end_the_claim(void **state)
{
	static const int interrupted[] = { EINTR, EINTR, 0 };
	const struct scratch *scratch = *state;
	struct reason why;
	int fd;

	lock_errors = interrupted;
	fd = claim(scratch->path, 0, &why);
	assert_true(fd >= 0);
	close(fd);
}

static void test_a_folder_that_can_t_be_locked_is_told(void **state)
{
	static const struct {
		const char *name;
		int lock_errors[2];
		int error;
	} cases[] = {
		{ "none", {}, ENOENT },
		{ "file", {}, ENOTDIR },
		{ "folder", { ENOLCK }, ENOLCK },
		{ "folder", { EOPNOTSUPP }, EOPNOTSUPP },
	};
	const struct scratch *scratch = *state;

	scratch_text(scratch, "file", "");
	scratch_mkdir(scratch, "folder");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *path = scratch_path(scratch, cases[i].name);
		rlim_t next = next_file();
		struct reason why;

		lock_errors = cases[i].lock_errors;
		assert_int_equal(claim(path, 1000 * MS, &why), -cases[i].error);
		assert_non_null(strstr(why.text, path));
		assert_non_null(strstr(why.text, strerror(cases[i].error)));
		assert_int_equal(other.waited, 0);
		assert_int_equal(next_file(), next);
	}
}

static bool is_there(const struct scratch *scratch, const char *name)
{
	return access(scratch_path(scratch, name), F_OK) == 0;
}

static void test_the_claim_removes_what_a_killed_save_left(void **state)
{
	static const struct {
		const char *name;
		bool stays;
	} cases[] = {
		{ "totals", true },
		{ "totals.perfmond-aB3dE6", false },
		{ "totals.perfmond-000000", false },
		{ "totals.perfmond-aB3dE", true },
		{ "totals.perfmond-aB3dE67", true },
		{ "running.perfmond-aB3dE6", true },
		{ "mytotals.perfmond-aB3dE6", true },
		{ "total.perfmond-aB3dE6", true },
		{ "totals-perfmond-aB3dE6", true },
		/* Copies that people make. */
		{ "totals.backup", true },
		{ "totals.230511", true },
		{ "totals.perfmond-backup.bak", true },
	};
	const struct scratch *scratch = *state;
	struct reason why;
	int fd;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		scratch_text(scratch, cases[i].name, "half of them");
	/* While another daemon has the folder it may be saving. */
	other_claims(scratch->path, UINT64_MAX);
	scratch_text(scratch, "totals.perfmond-aB3dE6", "half of them");
	assert_int_equal(claim(scratch->path, 0, &why), -EBUSY);
	assert_true(is_there(scratch, "totals.perfmond-aB3dE6"));
	other.claim = safe_close(other.claim);

	fd = claim(scratch->path, 0, &why);
	assert_true(fd >= 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (is_there(scratch, cases[i].name) != cases[i].stays)
			fail_msg("%s", cases[i].name);
	close(fd);
}

static int setup(void **state)
{
	static struct scratch scratch;

	scratch_make(&scratch);
	*state = &scratch;
	other = (struct other){ .claim = -1 };
	lock_errors = NULL;
	return 0;
}

static int teardown(void **state)
{
	safe_close(other.claim);
	scratch_remove(*state);
	return 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_the_claim_lasts_until_it_is_closed),
		TEST(test_the_claim_waits_for_a_daemon_that_stops),
		TEST(test_a_signal_does_not_end_the_claim),
		TEST(test_a_folder_that_can_t_be_locked_is_told),
		TEST(test_the_claim_removes_what_a_killed_save_left),
	};

	return cmocka_run_group_tests_name("state-folder", tests, NULL, NULL);
}
