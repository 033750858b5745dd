/* SPDX-License-Identifier: MIT */

/* Reading a part of a file: all of its bytes, or an error. */

#include "base/util/file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static bool reads_bytes;    /* pread(2) reads at most one byte */
static bool is_interrupted; /* the next pread(2) fails with EINTR */

ssize_t __real_pread(int fd, void *to, size_t size, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t size, off_t at);

ssize_t __wrap_pread(int fd, void *to, size_t size, off_t at)
{
	if (is_interrupted) {
		is_interrupted = false;
		errno = EINTR;
		return -1;
	}
	return __real_pread(fd, to, reads_bytes && size > 1 ? 1 : size, at);
}

static void test_reading_exactly(_unused_ void **state)
{
	_cleanup_(closep) int fd = memfd_create("test", MFD_CLOEXEC);
	char got[8] = "";
	int ends[2];

	assert_int_equal(write_all(fd, "abcdef", 6), 0);
	assert_int_equal(read_exactly_at(fd, got, 4, 2), 0);
	assert_string_equal(got, "cdef");
	/* Byte by byte. */
	memset(got, 0, sizeof(got));
	reads_bytes = is_interrupted = true;
	assert_int_equal(read_exactly_at(fd, got, 3, 1), 0);
	assert_string_equal(got, "bcd");
	assert_false(is_interrupted);
	reads_bytes = false;
	assert_int_equal(read_exactly_at(fd, got, 0, 100), 0);
	/* The file ends before. It stands where it stood. */
	assert_int_equal(read_exactly_at(fd, got, 5, 2), -EBADMSG);
	assert_int_equal(read_exactly_at(fd, got, 1, 6), -EBADMSG);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 6);
	assert_int_equal(read_exactly_at(-1, got, 1, 0), -EBADF);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(read_exactly_at(ends[0], got, 1, 0), -ESPIPE);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reading_exactly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
