/* SPDX-License-Identifier: MIT */

/* Files kept in a socket's queue: real ones. */

#include "service/persist/fd-parcel.h"

#include "base/util/cleanup.h"
#include "setup/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static ino_t inode_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

static void close_all(int *fds, int nr)
{
	for (int i = 0; i < nr; i++)
		assert_int_equal(close(fds[i]), 0);
}

static void make_files(int fds[static FD_PARCEL_MAX])
{
	for (int i = 0; i < FD_PARCEL_MAX; i++) {
		fds[i] = memfd_create("file", MFD_CLOEXEC);
		assert_true(fds[i] >= 0);
	}
}

/* The same files, in order, as often as one looks. */
static void test_look(_unused_ void **state)
{
	bool whole;
	static const size_t sizes[] = { 1, 2, 31, FD_PARCEL_MAX };
	size_t before = nr_open_files();
	int fds[FD_PARCEL_MAX], found[FD_PARCEL_MAX];

	make_files(fds);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		_cleanup_(closep) int socket = fd_parcel_new(fds, sizes[i]);

		assert_true(socket >= 0);
		assert_int_equal(fcntl(socket, F_GETFD), FD_CLOEXEC);
		for (int times = 0; times < 3; times++) {
			assert_int_equal(fd_parcel_peek(socket, found, &whole), sizes[i]);
			for (size_t k = 0; k < sizes[i]; k++) {
				assert_int_not_equal(found[k], fds[k]);
				assert_int_equal(inode_of(found[k]), inode_of(fds[k]));
				assert_int_equal(fcntl(found[k], F_GETFD), FD_CLOEXEC);
			}
			close_all(found, (int)sizes[i]);
		}
	}
	close_all(fds, FD_PARCEL_MAX);
	assert_int_equal(nr_open_files(), before);
}

/* They live as long as the socket, whoever else has them. */
static void test_closed_with_the_socket(_unused_ void **state)
{
	bool whole;
	int ends[2], socket, copy, found[FD_PARCEL_MAX];
	char byte;

	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	socket = fd_parcel_new(&ends[1], 1);
	assert_true(socket >= 0);
	close(ends[1]);
	assert_int_equal(read(ends[0], &byte, 1), -1); /* somebody could still write */
	assert_int_equal(errno, EAGAIN);
	copy = dup(socket);
	close(socket);
	assert_int_equal(fd_parcel_peek(copy, found, &whole), 1);
	assert_int_equal(write(found[0], "x", 1), 1);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	close(found[0]);
	close(copy);
	assert_int_equal(read(ends[0], &byte, 1), 0);
	close(ends[0]);
}

static void test_refused(_unused_ void **state)
{
	bool whole;
	size_t before = nr_open_files();
	int fds[FD_PARCEL_MAX + 1] = {}, found[FD_PARCEL_MAX], pair[2];

	assert_int_equal(fd_parcel_new(fds, 0), -EINVAL);
	assert_int_equal(fd_parcel_new(fds, FD_PARCEL_MAX + 1), -EINVAL);
	fds[0] = -1;
	assert_int_equal(fd_parcel_new(fds, 1), -EBADF);
	assert_int_equal(nr_open_files(), before);

	/* Not a parcel: no socket, one with nothing in it, one with a message without files. */
	fds[0] = memfd_create("file", MFD_CLOEXEC);
	assert_int_equal(fd_parcel_peek(fds[0], found, &whole), -ENOTSOCK);
	close(fds[0]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(fd_parcel_peek(pair[0], found, &whole), -EAGAIN);
	assert_int_equal(send(pair[1], "text", 4, 0), 4);
	assert_int_equal(fd_parcel_peek(pair[0], found, &whole), 0);
	close_all(pair, 2);
	assert_int_equal(nr_open_files(), before);
}

/* Descriptors below the limit that are free: others may have been handed to this process. */
static int nr_free_below(rlim_t limit)
{
	int nr = 0;

	for (rlim_t fd = 0; fd < limit; fd++)
		nr += fcntl((int)fd, F_GETFD) < 0;
	return nr;
}

/* As many as may be open; all of them another time. */
static void test_few_files(_unused_ void **state)
{
	bool whole;
	rlim_t limit, few;
	int fds[FD_PARCEL_MAX], found[FD_PARCEL_MAX], nr, room;
	_cleanup_(closep) int socket = -1;

	make_files(fds);
	socket = fd_parcel_new(fds, FD_PARCEL_MAX);
	assert_true(socket >= 0);
	close_all(fds, FD_PARCEL_MAX);
	for (rlim_t more = 0; more < 20; more += 7) {
		size_t before = nr_open_files();

		few = (rlim_t)fds[0] + more;
		room = nr_free_below(few);
		limit = limit_files(few);
		nr = fd_parcel_peek(socket, found, &whole);
		(void)limit_files(limit);
		assert_int_equal(nr, room);
		assert_int_equal(whole, room == FD_PARCEL_MAX);
		close_all(found, nr);
		assert_int_equal(nr_open_files(), before);
	}
	assert_int_equal(fd_parcel_peek(socket, found, &whole), FD_PARCEL_MAX);
	assert_true(whole);
	close_all(found, FD_PARCEL_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_look),
		cmocka_unit_test(test_closed_with_the_socket),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_few_files),
	};

	return cmocka_run_group_tests_name("chunk", tests, NULL, NULL);
}
