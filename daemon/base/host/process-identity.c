/* SPDX-License-Identifier: MIT */

#include "base/host/process-identity.h"

#include "base/util/cleanup.h"
#include "base/util/file.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/* PID_FS_MAGIC of <linux/magic.h> since Linux 6.9. Before, all pidfds have the same inode. */
#define PIDFS 0x50494446

/* EINVAL and, in newer kernels, ENOENT: it is a thread now. */
static bool is_gone(int error)
{
	return error == ESRCH || error == EINVAL || error == ENOENT;
}

int process_identity(uint32_t pid, uint64_t *ret)
{
	_cleanup_(closep) int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	struct statfs fs;
	struct stat st;

	*ret = 0;
	if (fd < 0)
		return is_gone(errno) ? -ESRCH : 0;
	if (fstatfs(fd, &fs) == 0 && fs.f_type == PIDFS && fstat(fd, &st) == 0)
		*ret = st.st_ino;
	return 0;
}
