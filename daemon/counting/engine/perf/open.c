/* SPDX-License-Identifier: MIT */

#include "counting/engine/perf/open.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Does attr use nothing that a kernel whose perf_event_attr has that size does not know? */
static bool fits_size(const union event_attr *attr, size_t size)
{
	const unsigned char *bytes = (const unsigned char *)attr;

	for (size_t i = size; i < attr->attr.size; i++)
		if (bytes[i])
			return false;
	return size >= PERF_ATTR_SIZE_VER0;
}

static int open_event(union event_attr *attr, int cpu, int cgroup_fd, int group_fd)
{
	unsigned long flags = PERF_FLAG_FD_CLOEXEC | (cgroup_fd >= 0 ? PERF_FLAG_PID_CGROUP : 0);
	uint32_t size = attr->attr.size;
	int fd = privilege_open_event(&attr->attr, cgroup_fd, cpu, group_fd, flags);

	/* E2BIG: the kernel has put the size it knows into attr. */
	if (fd == -E2BIG && attr->attr.size < size) {
		uint32_t known = attr->attr.size;

		attr->attr.size = size;
		if (!fits_size(attr, known))
			return -E2BIG;
		attr->attr.size = known;
		fd = privilege_open_event(&attr->attr, cgroup_fd, cpu, group_fd, flags);
	}
	return fd;
}

int perf_open_unfiltered(const struct event *event, const struct perf_event_attr *attr, int cpu, int cgroup_fd,
			 int group_fd, int *ret_refused)
{
	struct event chosen = *event;
	union event_attr whole;
	_cleanup_(closep) int fd = -1;

	chosen.attr = *attr;
	event_attr(&whole, &chosen);
	whole.attr.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_ID | PERF_FORMAT_TOTAL_TIME_ENABLED |
				 PERF_FORMAT_TOTAL_TIME_RUNNING;
	/* A member follows its leader: with the leader disabled until the group is complete, no member
	 * starts later than another. */
	whole.attr.disabled = group_fd < 0;
	fd = open_event(&whole, cpu, cgroup_fd, group_fd);
	if (fd < 0)
		return steal_fd(&fd);
	if (event->filter && ioctl(fd, PERF_EVENT_IOC_SET_FILTER, event->filter) < 0) {
		if (errno == ENOMEM)
			return -ENOMEM;
		*ret_refused = steal_fd(&fd);
		return -EBADMSG;
	}
	return steal_fd(&fd);
}

int perf_open(const struct event *event, const struct perf_event_attr *attr, int cpu, int cgroup_fd, int group_fd)
{
	_cleanup_(closep) int refused = -1;

	return perf_open_unfiltered(event, attr, cpu, cgroup_fd, group_fd, &refused);
}

bool perf_attr_make_plain(struct perf_event_attr *attr, const struct event *event)
{
	bool generic = attr->type == PERF_TYPE_HARDWARE || attr->type == PERF_TYPE_HW_CACHE;

	if (!generic || !(attr->config >> PERF_PMU_TYPE_SHIFT) || !event->cpus.nr)
		return false;
	attr->config &= PERF_HW_EVENT_MASK;
	return true;
}

int perf_enable_group(int leader_fd)
{
	return ioctl(leader_fd, PERF_EVENT_IOC_ENABLE, 0) < 0 ? -errno : 0;
}

bool perf_is_in_error(int leader_fd)
{
	uint64_t little;

	/* It is at its end of file; of any other group this is too little to read (ENOSPC). */
	return read(leader_fd, &little, sizeof(little)) == 0;
}

/* --- errors in words */

static bool is_hardware(const struct event *event)
{
	return event->attr.type == PERF_TYPE_HARDWARE || event->attr.type == PERF_TYPE_HW_CACHE ||
	       event->attr.type == PERF_TYPE_RAW;
}

static enum event_state explain_denied(int error, const struct event *event, const struct privilege *privilege,
				       struct reason *why)
{
	const char *errname = error == -EPERM ? "EPERM" : "EACCES";

	if (!privilege_may_count_cpus(privilege)) {
		privilege_explain(privilege, why);
		reason_prefix(why, 0, "not permitted");
	} else if (!privilege->cap_sys_admin && strcmp(event->pmu, "uprobe") == 0)
		reason_set(why, 0, "refused (%s): this kernel wants CAP_SYS_ADMIN for uprobes, as newer ones do: %s",
			   errname, privilege_sys_admin_hint(privilege));
	else if (!privilege->cap_sys_admin && event->attr.type == PERF_TYPE_BREAKPOINT)
		reason_set(why, 0, "refused (%s): a breakpoint on a kernel address needs CAP_SYS_ADMIN: %s", errname,
			   privilege_sys_admin_hint(privilege));
	else if (!privilege->cap_sys_admin && !privilege->cap_perfmon)
		reason_set(why, 0,
			   "refused (%s): this event needs CAP_PERFMON, also where whole CPUs may be counted "
			   "without, as here (kernel.perf_event_paranoid is %d)",
			   errname, privilege->paranoid);
	else
		reason_set(why, 0,
			   "refused (%s) in spite of %s: a seccomp filter (a container runtime's, or "
			   "SystemCallFilter=) or a security module forbids perf_event_open",
			   errname, privilege->cap_sys_admin ? "CAP_SYS_ADMIN" : "CAP_PERFMON");
	return EVENT_DENIED;
}

static enum event_state explain_unsupported(int error, const struct event *event, enum scope scope, struct reason *why)
{
	const char *errname = error == -ENOENT ? "ENOENT" : "EOPNOTSUPP";

	if (event->no_pmu)
		reason_set(why, 0,
			   "no PMU of this machine counts it (%s): it has no core PMU, as a virtual machine without a "
			   "virtual PMU",
			   errname);
	else if (is_hardware(event))
		reason_set(why, 0, "PMU '%s' does not have this event (%s)", event->pmu, errname);
	else if (event->attr.type == PERF_TYPE_BREAKPOINT)
		reason_set(why, 0, "this CPU has no hardware breakpoints of that kind (%s)", errname);
	else if (strcmp(event->pmu, "kprobe") == 0)
		reason_set(why, 0, "the kernel has no such function, or none that can be probed (%s)", errname);
	else if (scope == SCOPE_CGROUP)
		reason_set(why, 0, "PMU '%s' does not count it per cgroup (%s)", event->pmu, errname);
	else
		reason_set(why, 0, "PMU '%s' does not have it (%s)", event->pmu, errname);
	return EVENT_UNSUPPORTED;
}

/* EINVAL has many causes. The event's kind tells the likeliest. */
static enum event_state explain_invalid(const struct event *event, enum scope scope, struct reason *why)
{
	if (event->attr.type == PERF_TYPE_BREAKPOINT)
		reason_set(why, 0,
			   "the kernel refuses it (EINVAL): CPUs want a breakpoint aligned to its length, of 1, 2, 4 "
			   "or 8 bytes; some have none for reading alone, and some kernels none for execution");
	else if (event->attr.type == PERF_TYPE_TRACEPOINT)
		reason_set(why, 0,
			   "the kernel refuses it (EINVAL): the tracepoint has gone, reload to look it up again");
	else if (strcmp(event->pmu, "kprobe") == 0 || strcmp(event->pmu, "uprobe") == 0)
		reason_set(why, 0, "the kernel refuses it (EINVAL): no probe can stand at that place in the code");
	else if (scope == SCOPE_CGROUP)
		reason_set(why, 0,
			   "the kernel refuses it for cgroups (EINVAL): an event of PMU '%s' with config 0x%" PRIx64
			   " can perhaps be counted per CPU only",
			   event->pmu, (uint64_t)event->attr.config);
	else
		reason_set(why, 0,
			   "the kernel refuses it (EINVAL): PMU '%s' has no event with config 0x%" PRIx64
			   ", or not with these modifiers",
			   event->pmu, (uint64_t)event->attr.config);
	return EVENT_FAILED;
}

static enum event_state explain_too_big(const struct event *event, struct reason *why)
{
	reason_set(why, 0, "this kernel does not know all of its attributes (E2BIG)%s",
		   event->config3 ? ": config3 came with Linux 6.3" : ", it is older than Linux 5.8");
	return EVENT_UNSUPPORTED;
}

static enum event_state explain_no_space(const struct event *event, int cpu, struct reason *why)
{
	if (event->attr.type == PERF_TYPE_BREAKPOINT)
		reason_set(why, 0,
			   "all hardware breakpoints of CPU %d are in use (ENOSPC), of which each event takes one, and "
			   "one more for each cgroup: count fewer, or end the debugger that has them",
			   cpu);
	else
		reason_set(why, 0, "PMU '%s' has no counter left for it on CPU %d (ENOSPC)", event->pmu, cpu);
	return EVENT_FAILED;
}

/* Errors whose sentence depends on the errno alone. Those of the second half are in the man page, and can't come
 * from any call that this daemon makes. */
#define KERNEL_ENOTSUPP 524 /* the kernel's own, which is not meant to get out */

static const struct {
	int error;
	enum event_state state;
	const char *sentence;
} sentences[] = {
	{ EBADMSG, EVENT_FAILED,
	  "the kernel does not take its filter: the fields there are, and their types, stand in the file \"format\" of "
	  "the tracepoint's folder in tracefs" },
	{ ENOSYS, EVENT_UNSUPPORTED, "this kernel has no perf events, or a seccomp filter hides them (ENOSYS)" },
	{ EBUSY, EVENT_FAILED, "another user holds the PMU exclusively (EBUSY); it is tried again every 10 s" },
	{ ENFILE, EVENT_FAILED, "the system's limit of open files is reached: raise fs.file-max (ENFILE)" },
	{ ENOMEM, EVENT_FAILED, "the kernel has no memory for it (ENOMEM)" },
	{ EINTR, EVENT_FAILED, "ftrace has the uprobe at that place already (EINTR): take its probe away first" },
	{ KERNEL_ENOTSUPP, EVENT_FAILED,
	  "no probe can stand at this instruction, or the offset is not the beginning of one (ENOTSUPP)" },

	{ EBADF, EVENT_FAILED, "the group's leader or the cgroup was closed meanwhile (EBADF)" },
	{ EFAULT, EVENT_FAILED, "the kernel can't read the event's attributes (EFAULT)" },
	{ EOVERFLOW, EVENT_FAILED, "a call chain deeper than kernel.perf_event_max_stack was asked for (EOVERFLOW)" },
	{ ESRCH, EVENT_FAILED, "the process to be counted does not exist (ESRCH)" },
};

bool perf_open_may_recover(int error)
{
	return error == -EBUSY || error == -ENOSPC || error == -EMFILE || error == -ENFILE || error == -ENOMEM ||
	       error == -EINTR;
}

enum event_state perf_open_explain(int error, const struct event *event, enum scope scope, int cpu,
				   const struct privilege *privilege, struct reason *why)
{
	switch (error) {
	case -EACCES:
	case -EPERM:
		return explain_denied(error, event, privilege, why);
	case -ENOENT:
	case -EOPNOTSUPP:
		return explain_unsupported(error, event, scope, why);
	case -EINVAL:
		return explain_invalid(event, scope, why);
	case -ENOSPC:
		return explain_no_space(event, cpu, why);
	case -E2BIG:
		return explain_too_big(event, why);
	case -ENODEV:
		reason_set(why, 0, "CPU %d is offline, or PMU '%s' does not count there (ENODEV)", cpu, event->pmu);
		return EVENT_UNSUPPORTED;
	case -EMFILE:
		reason_set(why, 0,
			   "the process's limit of %" PRIu64 " open files is reached: raise LimitNOFILE= (EMFILE)",
			   privilege->fd_limit);
		return EVENT_FAILED;
	}
	for (size_t i = 0; i < ARRAY_SIZE(sentences); i++)
		if (sentences[i].error == -error)
			return (enum event_state)reason_set(why, (int)sentences[i].state, "%s", sentences[i].sentence);
	reason_set(why, 0, "perf_event_open on CPU %d: %s", cpu, strerror(-error));
	return EVENT_FAILED;
}
