/* SPDX-License-Identifier: MIT */

#include "util/file.h"

#include "util/buf.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

int read_text_file(int dirfd, const char *path, size_t max, char **ret)
{
	_cleanup_(closep) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	_cleanup_(buf_release) struct buf b = {};

	if (fd < 0)
		return -errno;

	for (;;) {
		ssize_t n;

		if (!buf_reserve(&b, 4096))
			return -ENOMEM;
		n = read(fd, b.data + b.len, b.cap - b.len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		b.len += (size_t)n;
		if (b.len > max)
			return -EFBIG;
	}

	if (b.len && memchr(b.data, '\0', b.len))
		return -EBADMSG;
	while (b.len && isspace((unsigned char)b.data[b.len - 1]))
		b.len--;

	*ret = buf_steal(&b);
	return *ret ? 0 : -ENOMEM;
}

static int write_all(int fd, const char *data, size_t n)
{
	while (n > 0) {
		ssize_t written = write(fd, data, n);

		if (written < 0 && errno != EINTR)
			return -errno;
		if (written > 0) {
			data += written;
			n -= (size_t)written;
		}
	}
	return 0;
}

int replace_file(const char *path, mode_t mode, const char *data, size_t n)
{
	_cleanup_(freep) char *other = NULL;
	_cleanup_(closep) int fd = -1;
	int r;

	if (asprintf(&other, "%s.XXXXXX", path) < 0) {
		other = NULL;
		return -ENOMEM;
	}
	fd = mkostemp(other, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = write_all(fd, data, n);
	if (r == 0 && (fchmod(fd, mode) < 0 || rename(other, path) < 0))
		r = -errno;
	if (r < 0)
		(void)unlink(other);
	return r;
}
