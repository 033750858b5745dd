/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The monitor: config, machine, cgroup tree and counting put together. It knows neither the loop nor HTTP. The service
 * runs one for the life of the daemon; --check and --once run one for a moment.
 *
 * It owns the count in force. A reload, a change of CPUs or of kernel.perf_event_paranoid, another cgroup mount and a
 * restart all work alike: another count is made beside the one in force and takes over from it, so that whatever stays
 * configured goes on counting (reload.c). CPUs, the sysctl and mounts are checked from time to time (follow.c,
 * mounts.c); cgroups are followed as the tree finds them (admission.h).
 *
 * A sentence (struct reason) that a function leaves is for the log; an empty one means that there is nothing to report.
 */

#include "base/config/config.h"
#include "counting/history/history.h"
#include "counting/snapshot/machine-info.h"
#include "counting/snapshot/snapshot.h"
#include "counting/world/machine.h"
#include "profiler/answer/query.h"
#include "profiler/capture/captures.h"

struct monitor;

/* --- life */

/*
 * Probes the machine and plans events; nothing is counted yet. restored (or NULL) is a count to go on from, as after a
 * restart. config and restored are taken over, on success only. -EINVAL, with FILE:LINE in why: the config is wrong;
 * other negative errno: the machine, or memory.
 */
int monitor_new(struct monitor **ret, struct config *config, struct count *restored, struct reason *why);
struct monitor *monitor_free(struct monitor *monitor);
DEFINE_CLEANUP(struct monitor *, monitor_free)

/* Opens the CPUs' events and reads the cgroup tree, whose cgroups then wait to be admitted. -ENOMEM. 0 with a sentence
 * in why: part of the tree is missing, or CPUs were offline since the restored events were opened. */
int monitor_start(struct monitor *monitor, struct reason *why);

/* Ends an interval: reads all counters, works out rates and states. */
void monitor_tick(struct monitor *monitor);

/* A snapshot of a reading that is at most max_age ns old, with a reference for the caller. own: the caller's own
 * figures (scrapes, reloads, saves, web, loop_lag), to which the monitor adds all others; or NULL. 1: the snapshot was
 * made by this call; 0: by an earlier one; -ENOMEM. */
int monitor_snapshot(struct monitor *monitor, uint64_t max_age, const struct self_stats *own, struct snapshot **ret);

/* --- cgroups */

/* Opens waiting cgroups for about budget ns (UINT64_MAX: all); true where some are still waiting. */
bool monitor_admit(struct monitor *monitor, uint64_t budget);
bool monitor_is_waiting(const struct monitor *monitor);

/* Follows the cgroup tree for about budget ns; true where there is more to do, whether or not its inotify fd is
 * readable. */
bool monitor_follow_cgroups(struct monitor *monitor, uint64_t budget, struct reason *why);
bool monitor_is_behind(const struct monitor *monitor);

/* The tree's inotify fd, which stays the tree's, to be watched for POLLIN; -1: no tree, or it can't be watched.
 * *ret_tree numbers the tree: with another tree, another fd has to be watched. */
int monitor_inotify_fd(const struct monitor *monitor, uint64_t *ret_tree);

/* Names of containers: call it when its fd, which stays the monitor's, is readable, and once a second. A sentence in
 * why: some can't be had. */
void monitor_name_containers(struct monitor *monitor, struct reason *why);
int monitor_names_fd(const struct monitor *monitor);

/* The tree waits for its mount and is not followed meanwhile. */
bool monitor_is_suspended(const struct monitor *monitor);

/* --- following the machine */

/* Checks whether CPUs have come or gone (a read(2)), or were offline for a moment, as the last reading has shown, and
 * whether kernel.perf_event_paranoid has changed; reopens events accordingly. While the tree waits for its mount
 * nothing is checked. */
void monitor_follow_machine(struct monitor *monitor, struct reason *news);

/*
 * Checks whether the mount of the cgroups has changed. notified: the kernel has signalled a change of mounts;
 * otherwise a check costs a statx(2) and a small file. Three cases: the hierarchy is mounted elsewhere, and the tree
 * goes on there; the mount is gone, and the tree waits two seconds for it to come back, with everything still counting;
 * or another hierarchy counts, or none, and the config is applied again, with the cgroups' totals held meanwhile
 * (count_hold_cgroups()).
 */
void monitor_follow_mounts(struct monitor *monitor, bool notified, struct reason *news);

/* --- profiles */

/* Readable when samples are due (monitor_take_samples()); it stays the monitor's. -1: nothing is sampled. *ret_number
 * numbers it: with another number, another fd has to be watched. */
int monitor_profile_fd(const struct monitor *monitor, uint64_t *ret_number);
void monitor_take_samples(struct monitor *monitor);

/* What is not sampled although it should be, and why; "" or NULL: nothing is wrong. */
const char *monitor_profile_problem(const struct monitor *monitor);

/* [profile "NAME"] sections of which nothing is sampled although profiles are on. */
size_t monitor_nr_lost_profiles(const struct monitor *monitor);

/* Answers a question about an event ("cpu-clock", or the name of a [profile "NAME"]), with the samples that have been
 * taken. It only reads memory, and may take long. counted: the weights of cgroups are to fit what their counters have
 * counted, as far as that is known. -EOPNOTSUPP with the sentence in why: it is not sampled; -ENOENT: it is not known;
 * -ENOMEM; -E2BIG: the globs take too long. The answers are valid until the next call that is no question. */
int monitor_ask_profile(const struct monitor *monitor, const char *event, const struct profile_query *query,
			bool counted, struct profile **ret, struct profile_measure *ret_measure, struct reason *why);

/* --- captures; the answers are borrowed, and valid until the next call that is no question */

const struct captures *monitor_captures(const struct monitor *monitor);
/* Number i of the rules that make captures; false after the last. */
bool monitor_capture_rule(const struct monitor *monitor, size_t i, struct capture_rule_info *ret);
/* A sentence on captures that were made since the last call, or "". */
void monitor_capture_news(struct monitor *monitor, struct reason *news);

/* At the stop: captures that run end now. */
void monitor_finish_captures(struct monitor *monitor);

/* The oldest capture that is to be saved on disk; NULL: there is none. */
const struct capture *monitor_capture_to_save(const struct monitor *monitor);
/* It was saved; or not, with the sentence in problem. */
void monitor_capture_saved(struct monitor *monitor, const char *id, const char *problem);

/* Answers a question about a capture. -ENOENT with the sentence in why: there is none of that id; others as of
 * profile_new(). */
int monitor_ask_capture(const struct monitor *monitor, const char *id, const struct profile_query *query,
			struct profile **ret, struct profile_measure *ret_measure, struct reason *why);

/* --- reload */

/* A new config on its way into force: made beside the one in force, so that a wrong one changes nothing. */
struct reload;

/* Probes the machine again and plans again. The config is taken over, on success only. Errors as of monitor_new(). */
int monitor_prepare(const struct monitor *monitor, struct config *config, struct reload **ret, struct reason *why);
struct reload *reload_free(struct reload *reload);
DEFINE_CLEANUP(struct reload *, reload_free)

/* Puts the reload in force and frees it. Whatever stays configured goes on counting. why: totals were lost for want of
 * memory, CPUs were offline, or nothing new can be opened. */
void monitor_commit(struct monitor *monitor, struct reload *reload, struct reason *why);

/* --- questions; the answers are borrowed, and valid until the next call that is not a question */

const struct config *monitor_config(const struct monitor *monitor);
const struct machine *monitor_machine(const struct monitor *monitor);
const struct count *monitor_count(const struct monitor *monitor);
/* Up to the last reading, of counters or samples. Stays at its place for the monitor's life. */
const struct clock_steps *monitor_clock(const struct monitor *monitor);
/* Up to the end of the last interval. Stays at its place for the monitor's life. */
const struct history *monitor_history(const struct monitor *monitor);
/* NULL: there is no cgroup mount. */
const struct cgroup_tree *monitor_tree(const struct monitor *monitor);
/* Stays at its place, and up to date, for the monitor's life. */
const struct machine_info *monitor_info(const struct monitor *monitor);

size_t monitor_nr_cgroups(const struct monitor *monitor, enum cgroup_status status);

/* Counted cgroups of which some events are not counted. */
size_t monitor_nr_incomplete(const struct monitor *monitor);

/* The limit of open files in force, and the one with which everything that is wanted could be counted. */
uint64_t monitor_fd_limit(const struct monitor *monitor);
size_t monitor_needed_fds(const struct monitor *monitor);

/* How the events of cgroups are counted, in a sentence: ret; "": there are none, or nobody asked for crediting. */
void monitor_describe_crediting(const struct monitor *monitor, struct reason *ret);
/* The same, where crediting was asked for and falls short: not all are credited that could be; or "". */
const char *monitor_no_crediting(const struct monitor *monitor);

/* One line for people: "4 of 8 events on 2 CPUs, …"; or "nothing: " with the reason, and false. */
bool monitor_describe(const struct monitor *monitor, struct reason *ret);
