/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The privileges of this process for perf events: kernel.perf_event_paranoid, its capabilities (capabilities(7)) and
 * its limit of open files.
 *
 * CAP_PERFMON is enough for nearly all events. Some calls need CAP_SYS_ADMIN: uprobes on newer kernels, breakpoints on
 * kernel addresses, and every event on a distribution's kernel while kernel.perf_event_paranoid is 3 or more (a patch
 * of Debian's and Ubuntu's, whose defaults are 3 and 4). If CAP_SYS_ADMIN is permitted, it is not effective while the
 * daemon runs: privilege_set_aside() takes it out of the effective set, before threads are made, and
 * privilege_open_event() raises it around a call that is refused without it. The sets belong to a thread.
 *
 * Every other capability that the documents name is made effective by privilege_take_up() where it is only permitted,
 * as by a file capability without the effective bit: the kernel starts such a program also where it may not have them
 * all.
 *
 * Reading other processes is for the profiler alone: privilege_give_up_profilers() takes CAP_SYS_PTRACE and
 * CAP_CHECKPOINT_RESTORE away from this process for good, once the profiler's keeper has been forked.
 *
 * A process that has nothing to change never calls capset(2), which its seccomp filter may forbid.
 */

#include "base/util/reason.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>

struct privilege {
	int paranoid;	       /* kernel.perf_event_paranoid; PARANOID_UNKNOWN: it can't be read */
	bool cap_perfmon;      /* Linux 5.8 */
	bool cap_sys_admin;    /* effective, or raised for a call that needs it */
	bool raises_sys_admin; /* the latter of the two */
	int raise_error;       /* it is permitted, but can't be raised: negative errno of capset(2) */
	bool wants_sys_admin;  /* this kernel needs it for every event, at this level, and it is not effective */
	bool user_namespace;   /* the capabilities are those of a user namespace, and do not count for perf events */
	bool keeps_profilers;  /* one of the profiler's two capabilities is permitted: they were not given up */
	uint64_t effective;    /* the whole effective set, a bit for each capability */
	uint64_t fd_limit;     /* RLIMIT_NOFILE's soft limit */
};

#define PARANOID_UNKNOWN 999

/* Makes the capabilities that perfmond uses effective where they are permitted, but CAP_SYS_ADMIN, before threads are
 * made. On failure they stay as they are: negative errno, with a sentence in why. */
int privilege_take_up(struct reason *why);

/* Takes CAP_SYS_ADMIN out of the effective, inheritable and ambient sets; it stays permitted. On failure it stays
 * effective: negative errno, with a sentence in why. */
int privilege_set_aside(struct reason *why);

/*
 * Takes CAP_SYS_PTRACE and CAP_CHECKPOINT_RESTORE out of all sets of this process, and forbids that an exec gains
 * privileges (PR_SET_NO_NEW_PRIVS); before threads are made, since both belong to a thread. Without CAP_SETPCAP they
 * stay in the bounding set, from which an exec can't take them any more. On failure they stay permitted: negative
 * errno, with a sentence in why; privilege_read() then tells so (keeps_profilers).
 */
int privilege_give_up_profilers(struct reason *why);
/* The sentence for people where they were not given up. */
#define PRIVILEGE_NOT_PARTED                                                                                           \
	"CAP_SYS_PTRACE and CAP_CHECKPOINT_RESTORE stay with the whole daemon, not with the profiler alone"

/* procroot is "/proc" but in tests. Never fails: a level that can't be read is unknown, a capability is missing. */
void privilege_read(struct privilege *ret, const char *procroot);

/* Does the sysctl have another value than in privilege? */
bool privilege_has_changed(const struct privilege *privilege, const char *procroot);

/* May it open system-wide events? */
bool privilege_may_count_cpus(const struct privilege *privilege);

/* Why it may not, and what to do: a sentence to follow "not permitted: ". */
void privilege_explain(const struct privilege *privilege, struct reason *ret);

/* How to get CAP_SYS_ADMIN, for an event that needs it. */
const char *privilege_sys_admin_hint(const struct privilege *privilege);

/* perf_event_open(2), tried again with CAP_SYS_ADMIN if it is refused without. The fd, or negative errno. */
int privilege_open_event(struct perf_event_attr *attr, int pid, int cpu, int group_fd, unsigned long flags);

/* Raises the soft limit of RLIMIT_NOFILE to the hard one, and notes it in privilege. Negative errno. */
int privilege_raise_fd_limit(struct privilege *privilege);
