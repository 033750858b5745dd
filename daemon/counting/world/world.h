/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The world: config, machine, cgroup tree and counting put together. It knows neither the loop nor HTTP. The service
 * runs one for the life of the daemon; --check and --once run one for a moment.
 *
 * It owns the session in force. A reload, a change of CPUs or of kernel.perf_event_paranoid, another cgroup mount and a
 * restart all work alike: another session is made beside the one in force and takes over from it, so that whatever
 * stays configured goes on counting (reload.c). CPUs, the sysctl and mounts are checked from time to time (follow.c,
 * mounts.c); cgroups are followed as the tree finds them (admission.h).
 *
 * A sentence (struct reason) that a function leaves is for the log; an empty one means that there is nothing to report.
 */

#include "base/config/config.h"
#include "counting/history/history.h"
#include "counting/snapshot/machine-info.h"
#include "counting/snapshot/snapshot.h"
#include "counting/world/machine.h"

struct bpf_load;
struct capture_rules;
struct world;

/* --- life */

/*
 * Probes the machine and plans events; nothing is counted yet. restored (or NULL) is a session to go on from, as after
 * a restart. config and restored are taken over, on success only. -EINVAL, with FILE:LINE in why: the config is wrong;
 * other negative errno: the machine, or memory.
 */
int world_new(struct world **ret, struct config *config, struct session *restored, struct reason *why);
struct world *world_free(struct world *world);
DEFINE_CLEANUP(struct world *, world_free)

/* Opens the CPUs' events and reads the cgroup tree, whose cgroups then wait to be admitted. -ENOMEM. 0 with a sentence
 * in why: part of the tree is missing, or CPUs were offline since the restored events were opened. */
int world_start(struct world *world, struct reason *why);

/* Ends an interval: reads all counters, works out rates and states. */
void world_tick(struct world *world);

/* A snapshot of a reading that is at most max_age ns old, with a reference for the caller. own: the caller's own
 * figures (scrapes, reloads, saves, web, loop_lag), to which the world adds all others; or NULL. 1: the snapshot was
 * made by this call; 0: by an earlier one; -ENOMEM. */
int world_snapshot(struct world *world, uint64_t max_age, const struct self_stats *own, struct snapshot **ret);

/* The rules of captures that snapshots tell of from now on, borrowed. */
void world_show_rules(struct world *world, const struct capture_rules *rules);

/* --- cgroups */

/* Opens waiting cgroups for about budget ns (UINT64_MAX: all); true where some are still waiting. */
bool world_admit(struct world *world, uint64_t budget);
bool world_is_waiting(const struct world *world);

/* Follows the cgroup tree for about budget ns; true where there is more to do, whether or not its inotify fd is
 * readable. */
bool world_follow_cgroups(struct world *world, uint64_t budget, struct reason *why);
bool world_is_behind(const struct world *world);

/* The tree's inotify fd, which stays the tree's, to be watched for POLLIN; -1: no tree, or it can't be watched.
 * *ret_tree numbers the tree: with another tree, another fd has to be watched. */
int world_inotify_fd(const struct world *world, uint64_t *ret_tree);

/* Names of containers: call it when its fd, which stays the world's, is readable, and once a second. A sentence in
 * why: some can't be had. */
void world_name_containers(struct world *world, struct reason *why);
int world_names_fd(const struct world *world);

/* The tree waits for its mount and is not followed meanwhile. */
bool world_is_suspended(const struct world *world);

/* --- following the machine */

/* Checks whether CPUs have come or gone (a read(2)), or were offline for a moment, as the last reading has shown, and
 * whether kernel.perf_event_paranoid has changed; reopens events accordingly. While the tree waits for its mount
 * nothing is checked. */
void world_follow_machine(struct world *world, struct reason *news);

/*
 * Checks whether the mount of the cgroups has changed. notified: the kernel has signalled a change of mounts;
 * otherwise a check costs a statx(2) and a small file. Three cases: the hierarchy is mounted elsewhere, and the tree
 * goes on there; the mount is gone, and the tree waits two seconds for it to come back, with everything still counting;
 * or another hierarchy counts, or none, and the config is applied again, with the cgroups' totals suspended meanwhile
 * (session_suspend_cgroups()).
 */
void world_follow_mounts(struct world *world, bool notified, struct reason *news);

/* --- changes, for whoever follows them */

/* Another number after each change of the config, or of the CPUs that are counted. */
uint64_t world_generation(const struct world *world);

/* A cgroup that has come; or gone: then its path is NULL. */
struct cgroup_change {
	uint64_t id;
	char *path; /* below the mount, as bytes */
};

/* Changes of the tree, in their order. */
struct cgroup_changes {
	struct cgroup_change *items;
	size_t nr;
	bool is_new_tree; /* all of it is another */
	bool lost;	  /* there were more: the tree has what there is now */
};

void cgroup_changes_release(struct cgroup_changes *changes);
/* Those since the last call, for the caller to release. */
struct cgroup_changes world_take_cgroup_changes(struct world *world);

/* Until when samples were taken, CLOCK_MONOTONIC ns: kept with the totals, for the next start. */
void world_set_sampled(struct world *world, uint64_t time);

/* --- reload */

/* A new config on its way into force: made beside the one in force, so that a wrong one changes nothing. */
struct reload;

/* Probes the machine again and plans again. The config is taken over, on success only. Errors as of world_new(). */
int world_prepare(struct world *world, struct config *config, struct reload **ret, struct reason *why);
struct reload *reload_free(struct reload *reload);
DEFINE_CLEANUP(struct reload *, reload_free)

/* The programs that a reload to that config would load into the kernel, for the caller to load in a thread and to give
 * back (counting/engine/bpf/load.h, world_use_load()); NULL: none that are known of. prepared: the same reload; NULL:
 * it is to be prepared after that. */
struct bpf_load *world_find_load(const struct world *world, const struct config *config, const struct reload *prepared);
/* The reload that is prepared next has what was loaded, or does without. Frees the load. */
void world_use_load(struct world *world, struct bpf_load *load);

/* The machine that it was planned for, borrowed. */
const struct machine *reload_machine(const struct reload *reload);

/* Puts the reload in force and frees it. Whatever stays configured goes on counting. why: totals were lost for want of
 * memory, CPUs were offline, or nothing new can be opened. */
void world_commit(struct world *world, struct reload *reload, struct reason *why);

/*
 * The same in steps: this is the first one, and world_admit() does the others. Until the last one is done nothing is
 * read, since each cgroup is counted in one of two sessions: snapshots are of the last reading before it, and whoever
 * calls the functions that read, or follow the tree or the machine, has all steps done at once.
 */
void world_begin_commit(struct world *world, struct reload *reload);
bool world_is_committing(const struct world *world);
/* Does what is left of it. why: as of world_commit(), also where nothing was left; or NULL. */
void world_finish_commit(struct world *world, struct reason *why);

/* --- questions; the answers are borrowed, and valid until the next call that is not a question */

const struct config *world_config(const struct world *world);
const struct machine *world_machine(const struct world *world);
const struct session *world_session(const struct world *world);
/* Up to the last reading, of counters or samples. Stays at its place for the world's life. */
const struct clock_steps *world_clock(const struct world *world);
/* Up to the end of the last interval. Stays at its place for the world's life. */
const struct history *world_history(const struct world *world);
/* NULL: there is no cgroup mount. */
const struct cgroup_tree *world_tree(const struct world *world);
/* Stays at its place, and up to date, for the world's life. */
const struct machine_info *world_info(const struct world *world);

size_t world_nr_cgroups(const struct world *world, enum cgroup_status status);

/* Counted cgroups of which some events are not counted. */
size_t world_nr_incomplete(const struct world *world);

/* The limit of open files in force, and the one with which everything that is wanted could be counted. */
uint64_t world_fd_limit(const struct world *world);
size_t world_needed_fds(const struct world *world);

/* How the events of cgroups are counted, in a sentence: ret; "": there are none, or nobody asked for crediting. */
void world_describe_crediting(const struct world *world, struct reason *ret);
/* The same, where crediting was asked for and falls short: not all are credited that could be; or "". */
const char *world_no_crediting(const struct world *world);

/* One line for people: "4 of 8 events on 2 CPUs, …"; or "nothing: " with the reason, and false. */
bool world_describe(const struct world *world, struct reason *ret);
