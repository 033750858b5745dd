/* SPDX-License-Identifier: MIT */

#include "service/persist/state-folder.h"

#include "base/util/cleanup.h"
#include "base/util/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

/* flock(2) can wait for ever or not at all, so the lock is tried this often. */
#define RETRY_NS 20000000U

/* Removes temporary files of replace_file(). The folder is locked, so whoever wrote them was killed. */
void state_folder_tidy(int folder, const char *file)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	size_t length = strlen(file);

	if (!dir) {
		safe_close(fd);
		return;
	}
	while ((entry = readdir(dir)))
		if (replace_leftover(entry->d_name) == length && strncmp(entry->d_name, file, length) == 0)
			(void)unlinkat(folder, entry->d_name, 0);
	closedir(dir);
}

/* 0, or negative errno; -EWOULDBLOCK: another daemon still holds the lock. */
static int lock_folder(int folder, uint64_t patience)
{
	const struct timespec pause = { .tv_nsec = RETRY_NS };

	for (uint64_t waited = 0; flock(folder, LOCK_EX | LOCK_NB) < 0; waited += RETRY_NS) {
		if (errno != EINTR && (errno != EWOULDBLOCK || waited >= patience))
			return -errno;
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

int state_folder_claim(const char *folder, const char *file, uint64_t patience, struct reason *why)
{
	_cleanup_(closep) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 ? -errno : lock_folder(fd, patience);

	if (r == -EWOULDBLOCK)
		return reason_set(why, -EBUSY,
				  "the state directory %s is in use by another perfmond: end that one, or give this "
				  "one a folder of its own (STATE_DIRECTORY; StateDirectory= of its unit)",
				  folder);
	if (r < 0)
		return reason_set(why, r, "the state directory %s can't be claimed: %s", folder, strerror(-r));
	state_folder_tidy(fd, file);
	return steal_fd(&fd);
}
