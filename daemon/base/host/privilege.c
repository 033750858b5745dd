/* SPDX-License-Identifier: MIT */

#include "base/host/privilege.h"

#include "base/util/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* The lowest level at which the patch of distributions' kernels has an effect. */
#define PARANOID_PATCHED 3

static void free_caps(cap_t *caps)
{
	if (*caps)
		(void)cap_free(*caps);
}

static bool has_cap(cap_t caps, cap_value_t cap, cap_flag_t set)
{
	cap_flag_value_t value = CAP_CLEAR;

	return cap_get_flag(caps, cap, set, &value) == 0 && value == CAP_SET;
}

/* --- capabilities that are only permitted */

/* Those that perfmond or the documents ask for, but CAP_SYS_ADMIN: it is raised for single calls. */
static const cap_value_t used_caps[] = {
	CAP_PERFMON,	      /* counting */
	CAP_BPF,	      /* its engine */
	CAP_DAC_READ_SEARCH,  /* names of containers */
	CAP_SYS_PTRACE,	      /* names in profiles: processes of others, and the files of containers */
	CAP_SYSLOG,	      /* kernel symbols */
	CAP_NET_BIND_SERVICE, /* ports below 1024 */
};

/* Returns 1 if caps were changed, 0 if there is nothing to change, or negative errno. */
static int take_up_permitted(cap_t caps)
{
	int changed = 0;

	for (size_t i = 0; i < ARRAY_SIZE(used_caps); i++) {
		if (!has_cap(caps, used_caps[i], CAP_PERMITTED) || has_cap(caps, used_caps[i], CAP_EFFECTIVE))
			continue;
		if (cap_set_flag(caps, CAP_EFFECTIVE, 1, &used_caps[i], CAP_SET) < 0)
			return -errno;
		changed = 1;
	}
	return changed;
}

int privilege_take_up(struct reason *why)
{
	_cleanup_(free_caps) cap_t caps = cap_get_proc();
	int r = caps ? take_up_permitted(caps) : -errno;

	if (r > 0 && cap_set_proc(caps) < 0)
		r = -errno;
	if (r < 0)
		return reason_set(why, r,
				  "capabilities that are permitted stay without effect: capset: %s: let the seccomp "
				  "filter pass it",
				  strerror(-r));
	return 0;
}

/* --- CAP_SYS_ADMIN, set aside and raised */

static int change_sys_admin(cap_t caps, cap_flag_t set, cap_flag_value_t value)
{
	const cap_value_t sys_admin = CAP_SYS_ADMIN;

	return cap_set_flag(caps, set, 1, &sys_admin, value) < 0 ? -errno : 0;
}

int privilege_set_aside(struct reason *why)
{
	_cleanup_(free_caps) cap_t caps = cap_get_proc();
	int r;

	if (!caps)
		return reason_set(why, -errno, "the capabilities can't be read: %s", strerror(errno));
	if (!has_cap(caps, CAP_SYS_ADMIN, CAP_EFFECTIVE))
		return 0;
	/* The kernel drops a capability from the ambient set with the inheritable one (capabilities(7)). */
	r = change_sys_admin(caps, CAP_EFFECTIVE, CAP_CLEAR);
	if (r >= 0)
		r = change_sys_admin(caps, CAP_INHERITABLE, CAP_CLEAR);
	if (r >= 0 && cap_set_proc(caps) < 0)
		r = -errno;
	return r >= 0 ? 0 :
			reason_set(why, r,
				   "CAP_SYS_ADMIN stays in force all the time: capset: %s: let the seccomp filter pass "
				   "it (SystemCallFilter=capset)",
				   strerror(-r));
}

/* Raises it for the calling thread. *ret_before is the set that lower_sys_admin() restores: it exists before, so that
 * restoring needs no memory. */
static int raise_sys_admin(cap_t *ret_before)
{
	_cleanup_(free_caps) cap_t now = cap_get_proc(), raised = NULL;
	int r;

	if (!now || !has_cap(now, CAP_SYS_ADMIN, CAP_PERMITTED) || has_cap(now, CAP_SYS_ADMIN, CAP_EFFECTIVE))
		return -EPERM;
	raised = cap_dup(now);
	if (!raised)
		return -ENOMEM;
	r = change_sys_admin(raised, CAP_EFFECTIVE, CAP_SET);
	if (r >= 0 && cap_set_proc(raised) < 0)
		r = -errno;
	if (r >= 0)
		*ret_before = steal_ptr(now);
	return r;
}

/* For _cleanup_(). The kernel never refuses to drop a capability, and the seccomp filter let capset(2) pass before. */
static void lower_sys_admin(cap_t *before)
{
	if (*before)
		(void)cap_set_proc(*before);
	free_caps(before);
}

static int call_perf_event_open(struct perf_event_attr *attr, int pid, int cpu, int group_fd, unsigned long flags)
{
	long fd = syscall(SYS_perf_event_open, attr, pid, cpu, group_fd, flags);

	return fd < 0 ? -errno : (int)fd;
}

int privilege_open_event(struct perf_event_attr *attr, int pid, int cpu, int group_fd, unsigned long flags)
{
	_cleanup_(lower_sys_admin) cap_t before = NULL;
	int fd = call_perf_event_open(attr, pid, cpu, group_fd, flags);

	if ((fd != -EACCES && fd != -EPERM) || raise_sys_admin(&before) < 0)
		return fd;
	return call_perf_event_open(attr, pid, cpu, group_fd, flags);
}

/* --- the profiler's capabilities */

static const cap_value_t profilers_caps[] = { CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE };

static bool has_profilers(cap_t caps, cap_flag_t set)
{
	for (size_t i = 0; i < ARRAY_SIZE(profilers_caps); i++)
		if (has_cap(caps, profilers_caps[i], set))
			return true;
	return false;
}

/* The kernel drops a capability from the ambient set with the permitted or inheritable one (capabilities(7)). */
static int clear_profilers(cap_t caps)
{
	static const cap_flag_t sets[] = { CAP_EFFECTIVE, CAP_PERMITTED, CAP_INHERITABLE };

	for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
		if (cap_set_flag(caps, sets[i], ARRAY_SIZE(profilers_caps), profilers_caps, CAP_CLEAR) < 0)
			return -errno;
	return cap_set_proc(caps) < 0 ? -errno : 0;
}

int privilege_give_up_profilers(struct reason *why)
{
	_cleanup_(free_caps) cap_t caps = cap_get_proc();
	int r;

	if (!caps)
		return reason_set(why, -errno, "the capabilities can't be read: %s", strerror(errno));
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return reason_set(why, -errno, "PR_SET_NO_NEW_PRIVS: %s", strerror(errno));
	/* Without CAP_SETPCAP, or on a kernel that lacks the capability, this fails. */
	for (size_t i = 0; i < ARRAY_SIZE(profilers_caps); i++)
		(void)cap_drop_bound(profilers_caps[i]);
	if (!has_profilers(caps, CAP_PERMITTED) && !has_profilers(caps, CAP_INHERITABLE))
		return 0;
	r = clear_profilers(caps);
	return r >= 0 ? 0 :
			reason_set(why, r,
				   PRIVILEGE_NOT_PARTED
				   ": capset: %s: let the seccomp filter pass it (SystemCallFilter=capset)",
				   strerror(-r));
}

/* --- reading */

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

/* Only the initial user namespace maps all users to themselves (user_namespaces(7)). */
static bool is_in_user_namespace(int proc_fd)
{
	_cleanup_(freep) char *text = NULL;
	unsigned inside, outside, nr;

	return read_text_file(proc_fd, "self/uid_map", FILE_MAX_SYSFS, &text) == 0 &&
	       sscanf(text, "%u %u %u", &inside, &outside, &nr) == 3 && (inside || outside || nr != UINT32_MAX);
}

static uint64_t effective_set(cap_t caps)
{
	uint64_t set = 0;

	for (cap_value_t cap = 0; cap < 64; cap++)
		set |= (uint64_t)has_cap(caps, cap, CAP_EFFECTIVE) << cap;
	return set;
}

/* Does this kernel need CAP_SYS_ADMIN for every event? An unpatched one allows everybody a software event on oneself
 * that excludes the kernel, at any level. */
static bool wants_sys_admin(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	int fd = call_perf_event_open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	safe_close(fd);
	return fd == -EACCES;
}

static void read_capabilities(struct privilege *privilege)
{
	_cleanup_(free_caps) cap_t caps = cap_get_proc();
	_cleanup_(lower_sys_admin) cap_t before = NULL;
	bool in_force;

	if (!caps)
		return;
	privilege->effective = effective_set(caps);
	privilege->keeps_profilers = has_profilers(caps, CAP_PERMITTED);
	privilege->cap_perfmon = has_cap(caps, CAP_PERFMON, CAP_EFFECTIVE) && !privilege->user_namespace;
	in_force = has_cap(caps, CAP_SYS_ADMIN, CAP_EFFECTIVE) && !privilege->user_namespace;
	if (!in_force && has_cap(caps, CAP_SYS_ADMIN, CAP_PERMITTED) && !privilege->user_namespace) {
		privilege->raise_error = raise_sys_admin(&before);
		privilege->raises_sys_admin = !privilege->raise_error;
	}
	privilege->cap_sys_admin = in_force || privilege->raises_sys_admin;
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
	if (proc_fd >= 0) {
		ret->paranoid = read_paranoid(proc_fd);
		ret->user_namespace = is_in_user_namespace(proc_fd);
	}
	read_capabilities(ret);
	/* Also if the level can't be read: PARANOID_UNKNOWN is high. */
	if (ret->paranoid >= PARANOID_PATCHED && (!ret->cap_sys_admin || ret->raises_sys_admin))
		ret->wants_sys_admin = wants_sys_admin();
}

bool privilege_has_changed(const struct privilege *privilege, const char *procroot)
{
	_cleanup_(closep) int proc_fd = open(procroot, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int paranoid;

	paranoid = proc_fd >= 0 ? read_paranoid(proc_fd) : PARANOID_UNKNOWN;
	return paranoid != PARANOID_UNKNOWN && paranoid != privilege->paranoid;
}

bool privilege_may_count_cpus(const struct privilege *privilege)
{
	if (privilege->wants_sys_admin)
		return privilege->cap_sys_admin;
	return privilege->cap_perfmon || privilege->cap_sys_admin || privilege->paranoid <= 0;
}

/* --- sentences */

const char *privilege_sys_admin_hint(const struct privilege *privilege)
{
	return privilege->raise_error ? "it is permitted and can't be raised: let the seccomp filter pass capset "
					"(SystemCallFilter=capset)" :
					"sys-admin.conf, one of the installed examples, gives it to the service";
}

static const char *describe_level(const struct privilege *privilege, struct reason *text)
{
	if (privilege->paranoid == PARANOID_UNKNOWN)
		reason_set(text, 0, "kernel.perf_event_paranoid can't be read");
	else
		reason_set(text, 0, "kernel.perf_event_paranoid is %d", privilege->paranoid);
	return text->text;
}

static void explain_patch(const struct privilege *privilege, struct reason *ret)
{
	struct reason level;

	describe_level(privilege, &level);
	if (privilege->raise_error)
		reason_set(ret, 0,
			   "%s, and from 3 on this distribution's kernel wants CAP_SYS_ADMIN for every event: %s",
			   level.text, privilege_sys_admin_hint(privilege));
	else
		reason_set(ret, 0,
			   "%s, and from 3 on this distribution's kernel wants CAP_SYS_ADMIN for every event: set it "
			   "to 2 (60-perfmond.conf)%s, or give the service CAP_SYS_ADMIN (sys-admin.conf); both files "
			   "are among the installed examples",
			   level.text, privilege->cap_perfmon ? "" : ", which takes CAP_PERFMON as well");
}

void privilege_explain(const struct privilege *privilege, struct reason *ret)
{
	struct reason level;

	if (privilege->wants_sys_admin)
		explain_patch(privilege, ret);
	else if (privilege->user_namespace)
		reason_set(ret, 0,
			   "this process is in a user namespace (PrivateUsers=, a rootless container), whose "
			   "capabilities do not hold for perf events (%s, and without one system-wide counting needs "
			   "0 or less)",
			   describe_level(privilege, &level));
	else if (privilege->paranoid != PARANOID_UNKNOWN)
		reason_set(ret, 0,
			   "give the process CAP_PERFMON (%s, and without the capability system-wide counting needs "
			   "0 or less)",
			   describe_level(privilege, &level));
	else
		reason_set(ret, 0, "give the process CAP_PERFMON");
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
