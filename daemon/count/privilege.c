/* SPDX-License-Identifier: MIT */

#include "count/privilege.h"

#include "util/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/resource.h>

#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif


static int read_paranoid(int proc_fd)
{
	_cleanup_(freep) char *text = NULL;
	char *end;
	long v;

	if (read_text_file(proc_fd, "sys/kernel/perf_event_paranoid", FILE_MAX_SYSFS, &text) < 0)
		return PARANOID_UNKNOWN;
	v = strtol(text, &end, 10);
	return *end || end == text || v < -1 || v > 100 ? PARANOID_UNKNOWN : (int)v;
}

static uint64_t read_effective(int proc_fd)
{
	_cleanup_(freep) char *text = NULL;
	const char *line;

	if (read_text_file(proc_fd, "self/status", FILE_MAX_SYSFS, &text) < 0)
		return 0;
	line = strstr(text, "\nCapEff:");
	return line ? strtoull(line + strlen("\nCapEff:"), NULL, 16) : 0;
}

void privilege_read(struct privilege *ret, const char *procroot)
{
	_cleanup_(closep) int proc_fd = open(procroot, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct rlimit limit = {};

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	*ret = (struct privilege){
		.paranoid = PARANOID_UNKNOWN,
		.fd_limit = limit.rlim_cur,
	};
	if (proc_fd < 0)
		return;

	ret->paranoid = read_paranoid(proc_fd);
	ret->effective = read_effective(proc_fd);
	ret->cap_perfmon = ret->effective >> CAP_PERFMON & 1;
	ret->cap_sys_admin = ret->effective >> CAP_SYS_ADMIN & 1;
}

bool privilege_may_count_cpus(const struct privilege *privilege)
{
	return privilege->cap_perfmon || privilege->cap_sys_admin || privilege->paranoid <= 0;
}

int privilege_raise_fd_limit(struct privilege *privilege)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return -errno;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		return -errno;
	privilege->fd_limit = limit.rlim_cur;
	return 0;
}
