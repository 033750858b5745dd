/* SPDX-License-Identifier: MIT */

#include "base/util/file.h"

#include "base/util/buf.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>

int read_text_file(int dirfd, const char *path, size_t max, char **ret)
{
	/* A FIFO or a terminal in the file's place must neither block nor become the controlling terminal. */
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

int open_standard_files(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		/* open(2) takes the lowest number that is free. */
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
			return -errno;
	return 0;
}

int read_exactly_at(int fd, void *to, size_t n, off_t at)
{
	for (size_t done = 0; done < n;) {
		ssize_t got = pread(fd, (char *)to + done, n - done, at + (off_t)done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EBADMSG;
		done += (size_t)got;
	}
	return 0;
}

/* offset: -1 is where the file stands. */
static int write_at(int fd, const char *data, size_t n, off_t offset)
{
	for (size_t at = 0; at < n;) {
		ssize_t written = offset < 0 ? write(fd, data + at, n - at) :
					       pwrite(fd, data + at, n - at, offset + (off_t)at);

		if (written < 0 && errno != EINTR)
			return -errno;
		at += written < 0 ? 0 : (size_t)written;
	}
	return 0;
}

int write_all(int fd, const char *data, size_t n)
{
	return write_at(fd, data, n, -1);
}

int write_all_at(int fd, const void *data, size_t n, off_t at)
{
	return write_at(fd, data, n, at);
}

int write_over(int fd, const char *data, size_t n)
{
	return write_at(fd, data, n, 0);
}

/* Puts the folder's entries on disk. */
static int sync_folder_of(const char *path)
{
	_cleanup_(freep) char *copy = strdup(path);
	_cleanup_(closep) int fd = -1;

	if (!copy)
		return -ENOMEM;
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

/* mkostemp(3) replaces the Xs. Without a word of its own, this could be the end of somebody's "totals.backup". */
#define MARK ".perfmond-"
#define TEMPORARY MARK "XXXXXX"

size_t replace_leftover(const char *name)
{
	size_t n = strlen(name), more = strlen(TEMPORARY);

	return n > more && memcmp(name + n - more, MARK, strlen(MARK)) == 0 ? n - more : 0;
}

/* owner: NULL, or the file's. */
static int replace_with(const char *path, mode_t mode, const struct stat *owner, bool durable, const char *data,
			size_t n)
{
	_cleanup_(freep) char *other = NULL;
	_cleanup_(closep) int fd = -1;
	int r;

	/* In the same folder, since rename(2) does not cross file systems; made with O_EXCL. */
	if (asprintf(&other, "%s" TEMPORARY, path) < 0) {
		other = NULL;
		return -ENOMEM;
	}
	fd = mkostemp(other, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = write_all(fd, data, n);
	if (r == 0 && ((owner && fchown(fd, owner->st_uid, owner->st_gid) < 0) || fchmod(fd, mode) < 0 ||
		       (durable && fsync(fd) < 0) || rename(other, path) < 0))
		r = -errno;
	if (r < 0)
		(void)unlink(other);
	return r < 0 || !durable ? r : sync_folder_of(path);
}

int replace_file(const char *path, mode_t mode, bool durable, const char *data, size_t n)
{
	return replace_with(path, mode, NULL, durable, data, n);
}

int replace_private_file(const char *path, const char *data, size_t n)
{
	_cleanup_(freep) char *copy = strdup(path);
	struct stat folder;

	if (!copy)
		return -ENOMEM;
	if (stat(dirname(copy), &folder) < 0)
		return -errno;
	return replace_with(path, 0400, geteuid() == 0 ? &folder : NULL, false, data, n);
}
