/* SPDX-License-Identifier: MIT */

#include "util/file.h"

#include "util/buf.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>

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
