/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What this process may do with perf events: kernel.perf_event_paranoid, its capabilities (capabilities(7)) and its
 * limit of open files.
 *
 * CAP_PERFMON is enough for nearly all. Some calls want CAP_SYS_ADMIN: uprobes on newer kernels, breakpoints on kernel
 * addresses, and every event on a distribution's kernel while kernel.perf_event_paranoid is 3 or more (a patch of
 * Debian's and Ubuntu's, whose defaults are 3 and 4). Where CAP_SYS_ADMIN is permitted, it is not in force while the
 * daemon runs: privilege_set_aside() takes it out of the effective set, before threads are made, and
 * privilege_open_event() raises it around a call that is refused without. The sets are a thread's own. A process that
 * does not have it permitted never calls capset(2), which its seccomp filter may forbid.
 */

#include "util/reason.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>

struct privilege {
	int paranoid;	       /* kernel.perf_event_paranoid; PARANOID_UNKNOWN where it can't be read */
	bool cap_perfmon;      /* Linux 5.8 */
	bool cap_sys_admin;    /* in force, or raised where a call wants it, … */
	bool raises_sys_admin; /* … as here */
	int raise_error;       /* it is permitted and can't be raised: negative errno of capset(2) */
	bool wants_sys_admin;  /* this kernel wants it for every event, at this level, and it is not in force */
	bool user_namespace;   /* the capabilities are those of one, and perf events do not look at them */
	uint64_t effective;    /* the whole set, a bit for each capability */
	uint64_t fd_limit;     /* RLIMIT_NOFILE's soft limit */
};

#define PARANOID_UNKNOWN 999

/* Takes CAP_SYS_ADMIN out of the effective, inheritable and ambient sets; it stays permitted. Where it can't, it stays
 * in force: a sentence in why, and negative errno. */
int privilege_set_aside(struct reason *why);

/* procroot is "/proc" but in tests. Never fails: what can't be read is unknown, or missing. */
void privilege_read(struct privilege *ret, const char *procroot);

/* Is the sysctl another than it was when that was read? */
bool privilege_has_changed(const struct privilege *privilege, const char *procroot);

/* May it open system-wide events? */
bool privilege_may_count_cpus(const struct privilege *privilege);

/* Why it may not, and what to do: what goes behind "not permitted: ". */
void privilege_explain(const struct privilege *privilege, struct reason *ret);

/* Where to get CAP_SYS_ADMIN from, for what wants nothing less. */
const char *privilege_sys_admin_hint(const struct privilege *privilege);

/* perf_event_open(2), once more with CAP_SYS_ADMIN where it is refused without. The fd, or negative errno. */
int privilege_open_event(struct perf_event_attr *attr, int pid, int cpu, int group_fd, unsigned long flags);

/* Raises RLIMIT_NOFILE's soft limit to the hard one and puts it into privilege; negative errno. */
int privilege_raise_fd_limit(struct privilege *privilege);
