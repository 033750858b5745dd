/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Config, machine, cgroup tree and counting put together: everything but the loop and the web. The
 * manager runs one for the life of the daemon; --check and --once run one for a moment.
 *
 * CPUs are followed by looking at their list from time to time, cgroups as the tree finds them (roster.h).
 */

#include "config/config.h"
#include "machine.h"
#include "roster.h"
#include "snapshot/about.h"
#include "snapshot/snapshot.h"
#include "target/busy.h"

struct monitor {
	struct machine *machine;
	struct config *config;
	struct about about; /* stays at its place over reloads */
	struct cgroup_filter filter;
	struct cgroup_tree *tree; /* NULL: no cgroup mount */
	struct count *count;
	struct snapshot *latest; /* made from the last reading; NULL where outdated */
	struct count *restored; /* what there was before a restart, until the start */
	struct roster roster;
	struct cpu_watch cpu_watch;
	struct closer *closer;
	uint64_t nr_trees;	/* made so far: the tree's inotify fd changes with them */
	bool mounts_changed;	/* and it has not been seen to yet */
	uint64_t mount_gone;	/* CLOCK_MONOTONIC ns since when the tree waits for its mount; 0: that is there */
	uint64_t mounts_due;	/* CLOCK_MONOTONIC ns: all mounts are not read again before */
	int hierarchy;		/* that perf_event was in when they were read (cgroup_perf_hierarchy()) */
	uint64_t privileges_due; /* CLOCK_MONOTONIC ns: what the sysctl has changed is not tried again before */
	bool cpus_changed;	/* and it has not been seen to yet */
	uint64_t cpus_renewed;	/* CLOCK_MONOTONIC ns */
	struct self self; /* the figures kept here: start_time, scrapes, reloads */
	struct cpu_busy busy;
	uint64_t started, rescanned; /* CLOCK_MONOTONIC ns */
};

/*
 * Probes the machine and plans what to count; nothing is counted yet. restored (or NULL) is what to go on from, as
 * after a restart. Both are handed over where it succeeds. -EINVAL, with FILE:LINE in why, where something configured
 * is wrong; other negative errno where the machine is.
 */
int monitor_new(struct monitor **ret, struct config *config, struct count *restored, struct reason *why);
struct monitor *monitor_free(struct monitor *monitor);
DEFINE_CLEANUP(struct monitor *, monitor_free)

/* Opens the CPUs and reads the cgroup tree; cgroups are then waiting. -ENOMEM. 0 with a sentence in why: a
 * part of the tree is missing, or CPUs have been offline since what goes on was opened. */
int monitor_start(struct monitor *monitor, struct reason *why);

/* Opens waiting cgroups for about budget ns (UINT64_MAX: all); true where some are still waiting. */
bool monitor_admit(struct monitor *monitor, uint64_t budget);
bool monitor_is_waiting(const struct monitor *monitor);

/* Follows the cgroup tree for about budget ns; true where there is more to do, whether its inotify fd is readable
 * or not. */
bool monitor_follow_cgroups(struct monitor *monitor, uint64_t budget, struct reason *why);
bool monitor_is_behind(const struct monitor *monitor);

/* Looks whether CPUs have come or gone, which costs a read(2), or have been offline, as the last reading has shown, and
 * whether kernel.perf_event_paranoid is another; opens anew what has to be. news is what somebody should know, or
 * empty. */
void monitor_follow_machine(struct monitor *monitor, struct reason *news);

/*
 * Looks whether the mount of the cgroups is what it was: told by the kernel that mounts have changed, or unasked, which
 * costs a statx(2) and a small file. Where it has moved, the tree goes on there; where it is gone, what is counted goes
 * on for a moment, in which it may come back, and the tree waits; where another hierarchy counts, or none, what a
 * reload would do is done, and cgroups' totals are held meanwhile (count_hold_cgroups()). news is what somebody should
 * know, or empty.
 */
void monitor_follow_mounts(struct monitor *monitor, bool told, struct reason *news);

/* The tree waits for its mount, and is not to be followed meanwhile. */
bool monitor_is_suspended(const struct monitor *monitor);

/* Ends an interval. */
void monitor_tick(struct monitor *monitor);

/* A snapshot from a reading that is at most max_age ns old, with a reference for the caller; -ENOMEM. */
int monitor_snapshot(struct monitor *monitor, uint64_t max_age, struct snapshot **ret);

/* A new config on its way into force: made beside what runs, so that one that is wrong changes nothing. */
struct reload;

/* Probes the machine again and plans anew. The config is handed over where that succeeds. Errors as with
 * monitor_new(). */
int monitor_prepare(const struct monitor *monitor, struct config *config, struct reload **ret, struct reason *why);
struct reload *reload_free(struct reload *reload);
DEFINE_CLEANUP(struct reload *, reload_free)

/* Does what a reload of the same config would do, on the machine as it is by now. Errors as with monitor_new(). */
int monitor_renew(struct monitor *monitor, struct reason *why);

/* Puts it in force and frees it. What stays configured goes on counting. A sentence in why, which is empty
 * otherwise, says what was lost for want of memory, or by CPUs that have been offline, or that nothing new can be
 * counted. */
void monitor_commit(struct monitor *monitor, struct reload *reload, struct reason *why);

/* The limit of open files that would do for everything that is wanted, and all else. */
size_t monitor_needed_fds(const struct monitor *monitor);

/* One line of what is counted, for people: "4 of 8 events on 2 CPUs, …"; or "nothing: " and why, and false. */
bool monitor_describe(const struct monitor *monitor, struct reason *ret);
