/* SPDX-License-Identifier: MIT */

#include "util/closer.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
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

/* It needs no file of its own: it is there to give them back. */
static void test_no_files_left(_unused_ void **state)
{
	struct rlimit before, none;
	struct closer *closer = NULL;
	int ends[2];

	make_pipe(ends);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(closer_new(&closer), 0);
	closer_close(closer, ends[1]);
	closer_free(closer);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_true(is_closed(ends[0]));
	close(ends[0]);
}

/* What comes while it is paused is closed afterwards, also what comes in between two pauses. */
static void test_paused(_unused_ void **state)
{
	enum { NR = 200 };
	struct closer *closer;
	int ends[NR][2];

	assert_int_equal(closer_new(&closer), 0);
	closer_pause(closer);
	closer_pause(closer);
	for (int i = 0; i < NR; i++) {
		make_pipe(ends[i]);
		closer_close(closer, ends[i][1]);
	}
	closer_resume(closer);
	usleep(20000);
	assert_int_equal(closer_pending(closer), NR);
	closer_resume(closer);
	while (closer_pending(closer))
		usleep(1000);
	for (int i = 0; i < NR; i++) {
		assert_true(is_closed(ends[i][0]));
		close(ends[i][0]);
	}
	closer_free(closer);
	closer_pause(NULL);
	closer_resume(NULL);
}

/* The end waits for nobody. */
static void test_ended_while_paused(_unused_ void **state)
{
	struct closer *closer;
	int ends[2];

	make_pipe(ends);
	assert_int_equal(closer_new(&closer), 0);
	closer_pause(closer);
	closer_close(closer, ends[1]);
	closer_free(closer);
	assert_true(is_closed(ends[0]));
	close(ends[0]);
}

/* When the pause has begun, no file is being closed: one that was is waited for, and no other is taken. */
static void test_pause_waits_for_one(_unused_ void **state)
{
	struct closer *closer;
	size_t pending;
	int ends[2];

	make_pipe(ends);
	assert_int_equal(closer_new(&closer), 0);
	for (int i = 0; i < 100; i++)
		for (int k = 0; k < 20; k++) {
			closer_close(closer, fcntl(ends[1], F_DUPFD_CLOEXEC, 0));
			closer_pause(closer);
			pending = closer_pending(closer);
			sched_yield();
			assert_int_equal(closer_pending(closer), pending);
			closer_resume(closer);
		}
	closer_free(closer);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_is_closed),	    cmocka_unit_test(test_pending),
		cmocka_unit_test(test_a_full_queue),	    cmocka_unit_test(test_without_a_closer),
		cmocka_unit_test(test_no_files_left),	    cmocka_unit_test(test_paused),
		cmocka_unit_test(test_ended_while_paused),  cmocka_unit_test(test_pause_waits_for_one),
	};

	return cmocka_run_group_tests_name("closer", tests, NULL, NULL);
}
