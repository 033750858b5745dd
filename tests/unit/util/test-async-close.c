/* SPDX-License-Identifier: MIT */

#include "base/util/async-close.h"

#include "setup/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>

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
	struct async_close *closer;
	int ends[NR][2];

	assert_int_equal(async_close_new(&closer), 0);
	for (int i = 0; i < NR; i++) {
		make_pipe(ends[i]);
		assert_false(is_closed(ends[i][0]));
		async_close_submit(closer, ends[i][1]);
	}
	async_close_submit(closer, -1);
	async_close_free(closer);
	for (int i = 0; i < NR; i++) {
		assert_true(is_closed(ends[i][0]));
		close(ends[i][0]);
	}
}

static void test_pending(_unused_ void **state)
{
	struct async_close *closer;
	int ends[2];

	assert_int_equal(async_close_new(&closer), 0);
	assert_int_equal(async_close_pending(closer), 0);
	make_pipe(ends);
	async_close_submit(closer, ends[1]);
	while (async_close_pending(closer))
		usleep(1000);
	assert_true(is_closed(ends[0]));
	close(ends[0]);
	async_close_free(closer);
}

/* More than fit the queue: nobody waits, and all are closed. */
static void test_a_full_queue(_unused_ void **state)
{
	struct async_close *closer;
	int ends[2];

	assert_int_equal(async_close_new(&closer), 0);
	make_pipe(ends);
	for (int i = 0; i < 100000; i++) {
		int copy = fcntl(ends[1], F_DUPFD_CLOEXEC, 0);

		if (copy >= 0)
			async_close_submit(closer, copy);
		else
			assert_int_equal(errno, EMFILE);
	}
	async_close_submit(closer, ends[1]);
	async_close_free(closer);
	assert_true(is_closed(ends[0]));
	close(ends[0]);
}

static void test_without_a_closer(_unused_ void **state)
{
	int ends[2];

	make_pipe(ends);
	async_close_submit(NULL, ends[1]);
	assert_true(is_closed(ends[0]));
	assert_int_equal(async_close_pending(NULL), 0);
	assert_null(async_close_free(NULL));
	close(ends[0]);
}

/* It needs no file of its own: it is there to give them back. */
static void test_no_files_left(_unused_ void **state)
{
	struct async_close *closer = NULL;
	rlim_t before;
	int ends[2];

	make_pipe(ends);
	before = limit_files(0);
	assert_int_equal(async_close_new(&closer), 0);
	async_close_submit(closer, ends[1]);
	async_close_free(closer);
	(void)limit_files(before);
	assert_true(is_closed(ends[0]));
	close(ends[0]);
}

/* What comes while it is paused is closed afterwards, also what comes in between two pauses. */
static void test_paused(_unused_ void **state)
{
	enum { NR = 200 };
	struct async_close *closer;
	int ends[NR][2];

	assert_int_equal(async_close_new(&closer), 0);
	async_close_pause(closer);
	async_close_pause(closer);
	for (int i = 0; i < NR; i++) {
		make_pipe(ends[i]);
		async_close_submit(closer, ends[i][1]);
	}
	async_close_resume(closer);
	usleep(20000);
	assert_int_equal(async_close_pending(closer), NR);
	async_close_resume(closer);
	while (async_close_pending(closer))
		usleep(1000);
	for (int i = 0; i < NR; i++) {
		assert_true(is_closed(ends[i][0]));
		close(ends[i][0]);
	}
	async_close_free(closer);
	async_close_pause(NULL);
	async_close_resume(NULL);
}

/* The end waits for nobody. */
static void test_ended_while_paused(_unused_ void **state)
{
	struct async_close *closer;
	int ends[2];

	make_pipe(ends);
	assert_int_equal(async_close_new(&closer), 0);
	async_close_pause(closer);
	async_close_submit(closer, ends[1]);
	async_close_free(closer);
	assert_true(is_closed(ends[0]));
	close(ends[0]);
}

/* When the pause has begun, no file is being closed: one that was is waited for, and no other is taken. */
static void test_pause_waits_for_one(_unused_ void **state)
{
	struct async_close *closer;
	size_t pending;
	int ends[2];

	make_pipe(ends);
	assert_int_equal(async_close_new(&closer), 0);
	for (int i = 0; i < 100; i++)
		for (int k = 0; k < 20; k++) {
			async_close_submit(closer, fcntl(ends[1], F_DUPFD_CLOEXEC, 0));
			async_close_pause(closer);
			pending = async_close_pending(closer);
			sched_yield();
			assert_int_equal(async_close_pending(closer), pending);
			async_close_resume(closer);
		}
	async_close_free(closer);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_is_closed),	   cmocka_unit_test(test_pending),
		cmocka_unit_test(test_a_full_queue),	   cmocka_unit_test(test_without_a_closer),
		cmocka_unit_test(test_no_files_left),	   cmocka_unit_test(test_paused),
		cmocka_unit_test(test_ended_while_paused), cmocka_unit_test(test_pause_waits_for_one),
	};

	return cmocka_run_group_tests_name("closer", tests, NULL, NULL);
}
