/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The cgroup tree: which cgroups exist, which of them the filter admits, and which come and go.
 *
 * The tree is a copy in memory of the directories below one mount. Every directory has an inotify watch, set before the
 * directory is read, so that nothing made in between is missed; a directory made in a new directory before its watch
 * was set is found by that reading. An event only says where to look: the tree is reconciled with the directory as it
 * is then, so that events which are late, doubled or overtaken by a reading do no harm. When the queue overflows, or a
 * watch can't be set (max_user_watches), the whole tree is read again and compared by (path, id).
 *
 * None of that is done in one go: cgroup_tree_follow() works within a budget and keeps its place. A change of the tree
 * in the meantime moves that place, or its event has the directory looked at again.
 *
 * A cgroup's identity is the inode id of its directory, not its path: a directory removed and made again under the same
 * name is another cgroup, and is reported as removed and added; so is a renamed one (v1).
 *
 * The owner of a directory can close it to the daemon (chmod). Cgroups known below it stay until an event reports their
 * removal, which can't be checked then. If such an event may have been lost, they are `doubtful`, and the tree's owner
 * decides.
 *
 * A cgroup that vanishes while it is looked at is normal and no error. The growth that others can cause is bounded:
 * directories whose path does not fit PATH_MAX, and those beyond the tree's limit, are left out and counted, with one
 * of them as an example.
 *
 * The files, from the bottom: node.h and filter, tree-cache (the known cgroups and their watches), reconcile (compares
 * them with the directories), cgroup (decides when: events, rescans, and the functions below).
 */

#include "base/cgroup/filter.h"
#include "base/cgroup/mount.h"
#include "base/cgroup/node.h"
#include "base/util/reason.h"

struct cgroup_tree;

/*
 * Makes an empty tree; the filter and its strings have to outlive it or be replaced (NULL admits nothing), observer is
 * copied. Opens the inotify fd (close-on-exec, non-blocking); if that fails (EMFILE), the tree works by rescans.
 * -ENOMEM.
 */
int cgroup_tree_new(struct cgroup_tree **ret, const char *mount_path, const struct cgroup_filter *filter,
		    const struct cgroup_observer *observer, struct reason *why);
/* Reports nothing. */
struct cgroup_tree *cgroup_tree_free(struct cgroup_tree *tree);
DEFINE_CLEANUP(struct cgroup_tree *, cgroup_tree_free)

/* Directories the tree may hold; those beyond are left out. CGROUP_TREE_LIMIT until set. */
#define CGROUP_TREE_LIMIT 100000
void cgroup_tree_set_limit(struct cgroup_tree *tree, size_t limit);

/* The mount shows a part of the hierarchy, so that its top directory is not the machine's root. To be called before
 * cgroup_tree_start(). */
void cgroup_tree_set_part(struct cgroup_tree *tree);

/* Reads the tree for the first time, breadth-first and in one go. The error of opening the mount; -EMFILE, -ENFILE or
 * -ENOMEM if only a part could be read (which stays). */
int cgroup_tree_start(struct cgroup_tree *tree, struct reason *why);

/* The inotify fd, for the loop; -1 where there is none. */
int cgroup_tree_fd(const struct cgroup_tree *tree);

/*
 * Handles queued events, and continues readings, for about budget ns (CLOCK_MONOTONIC): 0 is one small step, UINT64_MAX
 * is to the end. 1: there is more to do, whether the fd is readable or not; 0: done; negative errno: done, but
 * something could not be looked at since the last error was returned (the tree is incomplete).
 */
int cgroup_tree_follow(struct cgroup_tree *tree, uint64_t budget, struct reason *why);
/* Has cgroup_tree_follow() work left, whether the fd is readable or not? */
bool cgroup_tree_has_more(const struct cgroup_tree *tree);

/* Makes cgroup_tree_follow() read the whole tree again, report the differences, and set missing watches. It does so by
 * itself when the queue overflows. A rescan that has begun goes on. */
void cgroup_tree_rescan(struct cgroup_tree *tree);

/* The same directories are mounted at another path now, or at the same path again: the known cgroups stay, and
 * cgroup_tree_follow() rescans. -ENOMEM. */
int cgroup_tree_move(struct cgroup_tree *tree, const char *mount_path);

/* Directories are without a watch or left out, or something could not be looked at: no event reports changes there, so
 * that a rescan is needed from time to time. */
bool cgroup_tree_is_incomplete(const struct cgroup_tree *tree);

/* Why watches are missing, as a sentence that says what to do; NULL if none is. */
const char *cgroup_tree_problem(const struct cgroup_tree *tree);

/* Replaces the filter (borrowed; NULL admits nothing) and reports changes of `wanted`. */
void cgroup_tree_set_filter(struct cgroup_tree *tree, const struct cgroup_filter *filter);

/* The cgroup's parent; NULL: it is the top directory. */
const struct cgroup *cgroup_parent(const struct cgroup *cgroup);
struct cgroup_ancestors cgroup_ancestors(const struct cgroup *cgroup);

/* All known cgroups, parents before children. */
const struct cgroup_list *cgroup_tree_all(const struct cgroup_tree *tree);
size_t cgroup_tree_size(const struct cgroup_tree *tree);
/* By its id, which two can have: one that was moved, and one that is still in its old place; or, with bind mounts,
 * different ways to a directory. Either is returned then. NULL: there is none. */
const struct cgroup *cgroup_tree_find(const struct cgroup_tree *tree, uint64_t id);

struct cgroup_tree_stats cgroup_tree_stats(const struct cgroup_tree *tree);

/* A sentence on one of stats.unlisted: the beginning of its path, and why it is left out. NULL if there is none. */
const char *cgroup_tree_unlisted(const struct cgroup_tree *tree);

/*
 * Opens the cgroup's directory for perf_event_open(2), PERF_FLAG_PID_CGROUP: O_RDONLY (an O_PATH fd is
 * refused). The fd (close-on-exec, the caller's), or negative errno: -ENOENT if it is gone, also if another cgroup has
 * its path now.
 */
int cgroup_open(const struct cgroup_tree *tree, const struct cgroup *cgroup);
