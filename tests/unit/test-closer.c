/* SPDX-License-Identifier: MIT */

#include "util/closer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/resource.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A pipe's read end is at its end when all copies of the other are closed. */
static bool is_closed(int from)
{
	char byte;

	return read(from, &byte, 1) == 0;
}

static void make_pipe(int ends[static 2])
{
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
}

static void test_all_is_closed(_unused_ void **state)
{
	enum { NR = 100 };
	struct closer *closer;
	int ends[NR][2];

	assert_int_equal(closer_new(&closer), 0);
	for (int i = 0; i < NR; i++) {
		make_pipe(ends[i]);
		assert_false(is_closed(ends[i][0]));
		closer_close(closer, ends[i][1]);
	}
	closer_close(closer, -1);
	closer_free(closer);
	for (int i = 0; i < NR; i++) {
		assert_true(is_closed(ends[i][0]));
		close(ends[i][0]);
	}
}

static void test_pending(_unused_ void **state)
{
	struct closer *closer;
	int ends[2];

	assert_int_equal(closer_new(&closer), 0);
	assert_int_equal(closer_pending(closer), 0);
	make_pipe(ends);
	closer_close(closer, ends[1]);
	while (closer_pending(closer))
		usleep(1000);
	assert_true(is_closed(ends[0]));
	close(ends[0]);
	closer_free(closer);
}

/* More than fit the queue: nobody waits, and all are closed. */
static void test_a_full_queue(_unused_ void **state)
{
	struct closer *closer;
	int ends[2];

	assert_int_equal(closer_new(&closer), 0);
	make_pipe(ends);
	for (int i = 0; i < 100000; i++) {
		int copy = fcntl(ends[1], F_DUPFD_CLOEXEC, 0);

		if (copy >= 0)
			closer_close(closer, copy);
		else
			assert_int_equal(errno, EMFILE);
	}
	closer_close(closer, ends[1]);
	closer_free(closer);
	assert_true(is_closed(ends[0]));
	close(ends[0]);
}

static void test_without_a_closer(_unused_ void **state)
{
	int ends[2];

	make_pipe(ends);
	closer_close(NULL, ends[1]);
	assert_true(is_closed(ends[0]));
	assert_int_equal(closer_pending(NULL), 0);
	assert_null(closer_free(NULL));
	close(ends[0]);
}

static void test_no_files_left(_unused_ void **state)
{
	struct rlimit before, none;
	struct closer *closer = NULL;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(closer_new(&closer), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_null(closer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_is_closed),	    cmocka_unit_test(test_pending),
		cmocka_unit_test(test_a_full_queue),	    cmocka_unit_test(test_without_a_closer),
		cmocka_unit_test(test_no_files_left),
	};

	return cmocka_run_group_tests_name("closer", tests, NULL, NULL);
}
