/* SPDX-License-Identifier: MIT */

/* Connections that end in the middle, and too few files for those that come: nobody is kept waiting for them. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "setup/limits.h"
#include "setup/web-fixture.h"

#include "base/util/clock.h"

#include <string.h>
#include <sys/socket.h>

#define HALF "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n"
#define WHOLE HALF "\r\n"
#define MANY 20

/* Turns of the loop until so many connections are there. */
static void until_connected(struct fixture *f, size_t nr)
{
	turn_until(f, f->fake->stats.connections == nr);
}

/* No request's time is over. */
static int setup(void **state)
{
	struct fixture *f;

	assert_int_equal(fixture_setup(state), 0);
	f = *state;
	f->options->request_timeout = 3600 * (uint64_t)NS_PER_S;
	fixture_restart(f);
	return 0;
}

/* While the server has no turn. */
static void put(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* The end comes together with the bytes before it, also of the connection as a whole. */
static void test_ends_at_once(void **state)
{
	struct fixture *f = *state;

	for (int whole = 0; whole < 2; whole++)
		for (int closes = 0; closes < 2; closes++) {
			int fd = dial(f, 0);

			put(fd, whole ? WHOLE : HALF);
			if (closes)
				close(fd);
			else
				assert_int_equal(shutdown(fd, SHUT_WR), 0);
			for (int i = 0; i < 3; i++)
				turn(f);
			until_connected(f, 0);
			if (whole && !closes) {
				_cleanup_(freep) char *reply = receive(f, fd, false);

				assert_int_equal(status_of(reply), 200);
			}
			if (!closes)
				close(fd);
			assert_idle(f);
		}
	assert_int_equal(f->fake->stats.dropped_request, 0);
	assert_works(f);
}

/* A second request of which a half comes, and then the end. */
static void test_second_request_ends(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *reply = NULL;
	int fd = dial(f, 0);

	send_text(f, fd, WHOLE);
	reply = receive(f, fd, false);
	assert_int_equal(status_of(reply), 200);
	send_text(f, fd, HALF);
	close(fd);
	until_connected(f, 0);
	assert_works(f);
}

/* Bytes arrive one by one, and then the rest: a client that has not closed the connection is left alone. */
static void test_slow_and_whole(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *reply = NULL;
	_cleanup_(closep) int fd = dial(f, 0);

	for (const char *p = WHOLE; *p; p++) {
		send_all(f, fd, p, 1);
		turn(f);
	}
	reply = receive(f, fd, false);
	assert_int_equal(status_of(reply), 200);
}

/* Those that hang on to a half of a request have taken all files: the slow make room for those that come. */
static void test_few_files(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *reply = NULL;
	int slow[4], fd;
	rlim_t old;

	for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
		slow[i] = dial(f, 0);
		put(slow[i], HALF);
	}
	fd = dial(f, 0);
	put(fd, WHOLE);
	old = limit_files(next_file() + 2);
	until_connected(f, 2);
	assert_int_equal(f->fake->stats.refused_failed, 1);

	/* Two at a time, once they are slow. */
	reply = receive(f, fd, false);
	assert_int_equal(status_of(reply), 200);
	(void)limit_files(old);
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++)
		close(slow[i]);
	close(fd);
	until_connected(f, 0);
}

/* They have gone before they were taken: as fast as that is found out, others come. */
static void test_few_files_and_gone(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *reply = NULL;
	int gone[MANY], fd;
	rlim_t old;

	for (size_t i = 0; i < MANY; i++) {
		gone[i] = dial(f, 0);
		put(gone[i], HALF);
	}
	fd = dial(f, 0);
	put(fd, WHOLE);
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(shutdown(gone[i], SHUT_WR), 0);
	old = limit_files(next_file() + 1);
	/* Nobody becomes slow. */
	f->stopped_ns = clock_monotonic_ns();
	reply = receive(f, fd, false);
	assert_int_equal(status_of(reply), 200);
	f->stopped_ns = 0;
	(void)limit_files(old);
	for (size_t i = 0; i < MANY; i++)
		close(gone[i]);
	close(fd);
	until_connected(f, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_ends_at_once, setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_second_request_ends, setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_slow_and_whole, setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_few_files, setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_few_files_and_gone, setup, fixture_teardown),
	};

	return cmocka_run_group_tests_name("web-ends", tests, NULL, NULL);
}
