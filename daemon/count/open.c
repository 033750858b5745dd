/* SPDX-License-Identifier: MIT */

#include "count/open.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

const char *scope_name(enum scope scope)
{
	static const char *const names[_SCOPE_MAX] = {
		[SCOPE_CPU] = "cpu",
		[SCOPE_CGROUP] = "cgroup",
	};

	return names[scope];
}

const char *event_state_name(enum event_state state)
{
	static const char *const names[_EVENT_STATE_MAX] = {
		[EVENT_OK] = "ok",
		[EVENT_MULTIPLEXED] = "multiplexed",
		[EVENT_NEVER_SCHEDULED] = "never_scheduled",
		[EVENT_STALLED] = "stalled",
		[EVENT_UNSUPPORTED] = "unsupported",
		[EVENT_DENIED] = "denied",
		[EVENT_FAILED] = "failed",
	};

	return names[state];
}

int perf_open(const struct event *event, int cpu, int cgroup_fd, int group_fd)
{
	union event_attr whole;
	struct perf_event_attr *attr = &whole.attr;
	unsigned long flags = PERF_FLAG_FD_CLOEXEC;
	long fd;

	event_attr(&whole, event);
	attr->read_format = PERF_FORMAT_GROUP | PERF_FORMAT_ID | PERF_FORMAT_TOTAL_TIME_ENABLED |
			   PERF_FORMAT_TOTAL_TIME_RUNNING;
	/* A member follows its leader: with the leader disabled until the group is complete, no member
	 * starts later than another. Only a leader can be pinned or exclusive. */
	attr->disabled = group_fd < 0;
	if (group_fd >= 0) {
		attr->pinned = 0;
		attr->exclusive = 0;
	}
	if (cgroup_fd >= 0)
		flags |= PERF_FLAG_PID_CGROUP;

	fd = syscall(SYS_perf_event_open, attr, cgroup_fd, cpu, group_fd, flags);
	return fd < 0 ? -errno : (int)fd;
}

int perf_enable_group(int leader_fd)
{
	return ioctl(leader_fd, PERF_EVENT_IOC_ENABLE, 0) < 0 ? -errno : 0;
}

static bool is_hardware(const struct event *event)
{
	return event->attr.type == PERF_TYPE_HARDWARE || event->attr.type == PERF_TYPE_HW_CACHE ||
	       event->attr.type == PERF_TYPE_RAW;
}

static enum event_state explain_denied(int error, const struct event *event, const struct privilege *privilege,
				       struct reason *why)
{
	const char *errname = error == -EPERM ? "EPERM" : "EACCES";

	if (!privilege_may_count_cpus(privilege) && privilege->paranoid != PARANOID_UNKNOWN)
		reason_set(why, 0,
			   "not permitted: give the process CAP_PERFMON (kernel.perf_event_paranoid is %d, and without "
			   "the capability system-wide counting needs 0 or less)",
			   privilege->paranoid);
	else if (!privilege_may_count_cpus(privilege))
		reason_set(why, 0, "not permitted: give the process CAP_PERFMON");
	else if (privilege->paranoid >= 4 && privilege->paranoid != PARANOID_UNKNOWN)
		reason_set(why, 0,
			   "not permitted (%s) in spite of CAP_PERFMON: kernel.perf_event_paranoid is %d, which "
			   "distribution kernels take for CAP_SYS_ADMIN only; set it to 3 or less",
			   errname, privilege->paranoid);
	else if (event->attr.exclude_hv || event->attr.exclude_idle || event->attr.exclude_guest ||
		 event->attr.exclude_host)
		reason_set(why, 0, "refused (%s): this PMU can't leave out what the modifier in '%s' asks it to",
			   errname, event->text);
	else
		reason_set(why, 0,
			   "refused (%s) in spite of CAP_PERFMON: a seccomp filter (a container runtime's, or "
			   "SystemCallFilter=) or a security module forbids perf_event_open",
			   errname);
	return EVENT_DENIED;
}

static enum event_state explain_unsupported(int error, const struct event *event, enum scope scope, struct reason *why)
{
	if (is_hardware(event))
		reason_set(why, 0,
			   "no PMU of this machine counts it (%s): a virtual machine without a virtual PMU, or a PMU "
			   "that lacks this event",
			   error == -ENOENT ? "ENOENT" : "EOPNOTSUPP");
	else if (scope == SCOPE_CGROUP)
		reason_set(why, 0, "PMU '%s' does not count it per cgroup", event->pmu);
	else
		reason_set(why, 0, "PMU '%s' does not have it", event->pmu);
	return EVENT_UNSUPPORTED;
}

static enum event_state explain_invalid(const struct event *event, enum scope scope, struct reason *why)
{
	if (scope == SCOPE_CGROUP)
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
	case -ENODEV:
		reason_set(why, 0, "CPU %d is offline, or PMU '%s' does not count there (ENODEV)", cpu, event->pmu);
		return EVENT_UNSUPPORTED;
	case -ENOSYS:
		reason_set(why, 0, "this kernel has no perf events, or a seccomp filter hides them (ENOSYS)");
		return EVENT_UNSUPPORTED;
	case -EINVAL:
		return explain_invalid(event, scope, why);
	case -EBUSY:
		reason_set(why, 0, "another user holds the PMU exclusively (EBUSY)");
		return EVENT_FAILED;
	case -ENOSPC:
		reason_set(why, 0, "all hardware breakpoints of CPU %d are in use (ENOSPC)", cpu);
		return EVENT_FAILED;
	case -E2BIG:
		reason_set(why, 0,
			   "this kernel is older than perfmond's build and does not know all of its attributes "
			   "(E2BIG)");
		return EVENT_FAILED;
	case -EMFILE:
		reason_set(why, 0,
			   "the process's limit of %" PRIu64 " open files is reached: raise LimitNOFILE= (EMFILE)",
			   privilege->fd_limit);
		return EVENT_FAILED;
	case -ENFILE:
		reason_set(why, 0, "the system's limit of open files is reached: raise fs.file-max (ENFILE)");
		return EVENT_FAILED;
	case -ENOMEM:
		reason_set(why, 0, "the kernel has no memory for it (ENOMEM)");
		return EVENT_FAILED;
	default:
		reason_set(why, 0, "perf_event_open on CPU %d: %s", cpu, strerror(-error));
		return EVENT_FAILED;
	}
}
