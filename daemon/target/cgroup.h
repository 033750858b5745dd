/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The cgroup tree: which cgroups exist, which of them are wanted, and which come and go.
 *
 * The tree is the directories below one mount, mirrored in memory. Every directory has an inotify watch
 * which is set before it is read, so that nothing made in between is missed; a directory made in a new
 * directory before its watch was set is found by that reading. An event says no more than where to look:
 * what stands there now is compared with the mirror, so that events which are late, doubled or overtaken
 * by a reading do no harm. When the queue overflows, or a watch can't be set (max_user_watches), the
 * whole tree is read again and compared by (path, id).
 *
 * None of that is done in one go: cgroup_tree_follow() works for as long as it may and keeps its place.
 * A tree that changes in the meantime moves that place, or is looked at again for the event of it.
 *
 * A cgroup's identity is the inode id of its directory, not its path: a directory removed and made again
 * under the same name is another cgroup, and is reported as removed and added; so is a renamed one (v1).
 *
 * A directory can be closed to the daemon (chmod) by its owner. What is known below it stays until an event says that
 * it was removed, which then can't be checked. Where such an event may have been lost, it is doubtful, and the tree's
 * owner decides.
 *
 * A cgroup that vanishes while it is looked at is normal and no error. What others can make grow is
 * bounded: directories whose path does not fit PATH_MAX, and those beyond the tree's limit, are left
 * out and counted, with one of them for an example.
 */

#include "target/identity.h"
#include "target/mount.h"
#include "util/reason.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* Globs on labels, as [cgroup] include and exclude have them; exclude wins, and what no include names is
 * left out. Borrowed from the config. */
struct cgroup_filter {
	char *const *include;
	size_t nr_include;
	char *const *exclude;
	size_t nr_exclude;
};

bool cgroup_filter_admits(const struct cgroup_filter *filter, const char *label);

struct cgroup;
TAILQ_HEAD(cgroup_list, cgroup);

struct cgroup {
	struct cgroup_identity *identity;
	const char *path; /* below the mount, as bytes; "/" is the root */
	unsigned depth;	  /* 0: the root */
	bool wanted;	  /* the filter admits it */
	/* It may be gone: it can't be looked at, since its owner has closed a directory above it, and an event that
	 * told of it may have been lost. */
	bool doubtful;

	/* For the tree's owner, who decides what is counted. The tree sets them to 0 and NULL and frees
	 * `why` at the end. */
	int status;
	char *why;
	bool accounted;	      /* it is counted, or has been for a while: not missed when it goes */
	bool doubted;	      /* `doubtful` was seen, when it had run for so long: */
	uint64_t ran;	      /* ns */
	uint64_t usage, busy; /* CPU time in us: when it was last looked at; between then and the time before */
	uint64_t looked_at;   /* CLOCK_MONOTONIC ns */
	size_t chosen;	      /* its place among those to be counted next, from 1 */
	TAILQ_ENTRY(cgroup) in_waiting;

	TAILQ_ENTRY(cgroup) in_all; /* parents before their children, otherwise in the order found */

	/* The tree's own. */
	struct cgroup *parent;
	const char *name; /* the path's last component */
	struct cgroup_list children;
	TAILQ_ENTRY(cgroup) in_parent;
	int watch;	       /* inotify's watch descriptor, or -1 */
	unsigned left_out;     /* directories in it that are not in the tree, at the last reading */
	unsigned unlisted;     /* … those of them that are wanted */
	bool unread;	       /* has directories in it that have not been looked at yet */
	bool told;	       /* the event that says that it was made has come, or its parent's `ahead` has it */
	bool due;	       /* otherwise it is still to come: a rescan was quicker */
	unsigned ahead;	       /* events that are due for those found in it before */
	uint64_t read, seen;   /* number of the last reading of it, and of the last one that met it */
	uint64_t found;	       /* number of the buffer of events that had been filled when it was found */
};

/* What the tree tells its owner, from within cgroup_tree_start(), _follow(), _set_filter(). None of these may
 * be called from there. */
struct cgroup_observer {
	void (*added)(void *userdata, struct cgroup *cgroup);
	/* The directory is gone; children are reported before their parents. It is in no list any more, and
	 * the struct is freed after. */
	void (*removed)(void *userdata, struct cgroup *cgroup);
	/* `wanted` has changed, by _set_filter(). */
	void (*changed)(void *userdata, struct cgroup *cgroup);
	void *userdata;
};

struct cgroup_tree;

/*
 * Makes an empty tree; filter and strings in it have to outlive it or be replaced, observer is copied.
 * Opens the inotify fd (close-on-exec, non-blocking); where there is none to be had (EMFILE), the tree
 * works by rescans. -ENOMEM.
 */
int cgroup_tree_new(struct cgroup_tree **ret, const char *mount_path, const struct cgroup_filter *filter,
		    const struct cgroup_observer *observer, struct reason *why);
/* Reports nothing. */
struct cgroup_tree *cgroup_tree_free(struct cgroup_tree *tree);
DEFINE_CLEANUP(struct cgroup_tree *, cgroup_tree_free)

/* Directories the tree may hold; what is beyond is left out. CGROUP_TREE_LIMIT until set. */
#define CGROUP_TREE_LIMIT 100000
void cgroup_tree_set_limit(struct cgroup_tree *tree, size_t limit);

/* Before _start(): the mount shows a part of the tree, and its top directory is not to be taken for the root. */
void cgroup_tree_set_part(struct cgroup_tree *tree);

/* Reads the tree for the first time, breadth-first and in one go. What opening the mount said; -EMFILE,
 * -ENFILE or -ENOMEM where not all of it could be read (what was found stays). */
int cgroup_tree_start(struct cgroup_tree *tree, struct reason *why);

/* The inotify fd, for the loop; -1 where there is none. */
int cgroup_tree_fd(const struct cgroup_tree *tree);

/*
 * Takes what the inotify fd has, and reads again what has to be, for about budget ns (CLOCK_MONOTONIC): 0
 * is one small step, UINT64_MAX is to the end. 1: there is more to do, whether the fd is readable or not;
 * 0: there is not; negative errno: nor is there, and something could not be looked at since the last time
 * this was said (the tree is incomplete).
 */
int cgroup_tree_follow(struct cgroup_tree *tree, uint64_t budget, struct reason *why);
/* The next call of _follow() has something to do without the fd being readable. */
bool cgroup_tree_has_more(const struct cgroup_tree *tree);

/* Has _follow() read the whole tree again, report the differences, and set the watches that are missing. It
 * does so by itself when the queue overflows. Where that goes on already it is let go on. */
void cgroup_tree_rescan(struct cgroup_tree *tree);

/* The same directories stand at another path by now, or at the same once more: what is known goes on, and all is looked
 * at again by _follow(). -ENOMEM. */
int cgroup_tree_move(struct cgroup_tree *tree, const char *mount_path);

/* There are directories without a watch, or left out, or something could not be looked at, so that a rescan
 * from time to time has to find what no event tells. */
bool cgroup_tree_is_incomplete(const struct cgroup_tree *tree);

/* Why watches are missing, as a sentence that says what to do; NULL where none is. */
const char *cgroup_tree_problem(const struct cgroup_tree *tree);

/* Replaces the filter (borrowed) and reports changes of `wanted`. */
void cgroup_tree_set_filter(struct cgroup_tree *tree, const struct cgroup_filter *filter);

/* All known cgroups, parents before children. */
const struct cgroup_list *cgroup_tree_all(const struct cgroup_tree *tree);
size_t cgroup_tree_size(const struct cgroup_tree *tree);

/* For perfmond's metrics about itself. */
struct cgroup_tree_stats {
	uint64_t overflows, rescans;
	uint64_t missed;		 /* directories that were gone before they could be looked at */
	size_t watches, watches_missing; /* now */
	size_t left_out;		 /* now: path too long, no permission, or over the limit */
	size_t unlisted;		 /* … those of them that are wanted; what is below them is not known */
};
struct cgroup_tree_stats cgroup_tree_stats(const struct cgroup_tree *tree);

/* A sentence on one of the unlisted: the beginning of its path, and why it is left out. NULL where there is none. */
const char *cgroup_tree_unlisted(const struct cgroup_tree *tree);

/*
 * Opens the cgroup's directory for perf_event_open(2), PERF_FLAG_PID_CGROUP: O_RDONLY (an O_PATH fd is
 * refused). The fd (close-on-exec, the caller's), or negative errno: -ENOENT where it is gone, also
 * where another cgroup stands in its place by now.
 */
int cgroup_open(const struct cgroup_tree *tree, const struct cgroup *cgroup);
