/* SPDX-License-Identifier: MIT */

#include "service/persist/kept-samples.h"

#include "base/util/file.h"
#include "service/persist/fd-store.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int put_into_store(const struct blob *image)
{
	_cleanup_(closep) int fd = memfd_create(KEPT_SAMPLES_NAME, MFD_CLOEXEC);
	int r = fd < 0 ? -errno : write_all(fd, image->data, image->len);

	return r < 0 ? r : fd_store_put(fd, KEPT_SAMPLES_NAME);
}

int kept_samples_put(const struct blob *image, bool has_fd_store, const char *file, struct reason *why)
{
	int r = -ENOENT;

	if (has_fd_store) {
		r = put_into_store(image);
		return r < 0 ? reason_set(why, r, "they can't be given to systemd's fd store: %s", strerror(-r)) : 0;
	}
	if (!file)
		return reason_set(why, r, "there is neither systemd's fd store nor a state directory");
	r = replace_file(file, 0600, false, image->data, image->len);
	return r < 0 ? reason_set(why, r, "they can't be saved in %s: %s", file, strerror(-r)) : 0;
}

/* A copy: a file on disk can be cut while it is mapped. */
static int read_image(struct blob **ret, int fd)
{
	_cleanup_(buf_release) struct buf bytes = {};
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_size > (off_t)KEPT_SAMPLES_MAX)
		return -EFBIG;
	if (!buf_reserve(&bytes, (size_t)st.st_size + 1))
		return -ENOMEM;
	while (bytes.len < (size_t)st.st_size) {
		ssize_t n = pread(fd, bytes.data + bytes.len, (size_t)st.st_size - bytes.len, (off_t)bytes.len);

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		bytes.len += (size_t)n;
	}
	return blob_new(ret, &bytes);
}

int kept_samples_take(struct blob **ret, int fd, const char *file, struct reason *why)
{
	_cleanup_(closep) int opened = -1;
	int r;

	*ret = NULL;
	if (fd >= 0)
		fd_store_remove(KEPT_SAMPLES_NAME);
	if (file)
		opened = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (opened < 0 && file && errno != ENOENT && fd < 0)
		return reason_set(why, -errno, "%s: %s", file, strerror(errno));
	if (opened >= 0 && unlink(file) < 0)
		return reason_set(why, -errno, "%s can't be removed: %s", file, strerror(errno));
	if (fd < 0 && opened < 0)
		return 0;
	r = read_image(ret, fd >= 0 ? fd : opened);
	return r < 0 ? reason_set(why, r, "they can't be read: %s", strerror(-r)) : 0;
}
