/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One cgroup of the tree (cgroup.h), and the shape of the tree's reports. A struct cgroup belongs to its tree and
 * exists from `added` to `removed`; its identity may live on.
 */

#include "base/cgroup/identity.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct cgroup;
TAILQ_HEAD(cgroup_list, cgroup);

struct cgroup {
	struct cgroup_identity *identity;
	const char *path; /* below the mount, as bytes; "/" is the root */
	unsigned depth;	  /* 0: the root */
	bool wanted;	  /* the filter admits it */
	/* It may be gone: its owner has closed a directory above it, so that it can't be looked up, and the event of
	 * its removal may have been lost. */
	bool doubtful;

	/* For the tree's owner, who decides which cgroups are counted. The tree sets them to 0 and NULL, and frees
	 * `why` at the end. */
	int status;
	char *why;
	bool accounted;	      /* it is or was counted: its removal loses nothing */
	bool doubted;	      /* `doubtful` was seen; it had run for this long then: */
	uint64_t ran;	      /* ns */
	uint64_t usage, busy; /* CPU time in us: at the last look; between the last two */
	uint64_t looked_at;   /* CLOCK_MONOTONIC ns, the last look */
	size_t chosen;	      /* its place among those to be counted next, from 1 */
	TAILQ_ENTRY(cgroup) in_waiting;

	TAILQ_ENTRY(cgroup) in_all; /* parents before their children, otherwise in the order found */

	/* The tree's own. */
	struct cgroup *parent;
	const char *name; /* the path's last component */
	struct cgroup_list children;
	TAILQ_ENTRY(cgroup) in_parent;
	int watch;	   /* inotify's watch descriptor, or -1 */
	unsigned left_out; /* directories in it that are not in the tree, at the last reading */
	unsigned unlisted; /* those of `left_out` that the filter admits */
	bool unread;	   /* there are directories in it that were never read */

	/* Create events, by which tree-cache.h finds cgroups that came and went unseen. */
	bool create_seen;	  /* its create event has arrived, or is in its parent's pending_creates */
	bool create_queued;	  /* else: a reading found it first, and the event is still in the queue */
	unsigned pending_creates; /* queued events of directories in it, already found, that no struct waits for */

	uint64_t read, seen; /* number of the last reading of it, and of the last one that met it */
	uint64_t found;	     /* number of the buffer of events that had been filled when it was found */
};

/* Called from within cgroup_tree_start(), cgroup_tree_follow() and cgroup_tree_set_filter(), none of which may be
 * called from there. */
struct cgroup_observer {
	void (*added)(void *userdata, struct cgroup *cgroup);
	/* The directory is gone. Children are reported before their parents. The cgroup is in no list any more, and is
	 * freed when this returns. */
	void (*removed)(void *userdata, struct cgroup *cgroup);
	/* cgroup_tree_set_filter() has changed `wanted`. */
	void (*changed)(void *userdata, struct cgroup *cgroup);
	void *userdata;
};

/* For perfmond's metrics about itself. */
struct cgroup_tree_stats {
	uint64_t overflows, rescans;
	uint64_t missed;		 /* directories that were gone before they could be looked at */
	size_t watches, watches_missing; /* now */
	size_t left_out;		 /* now: path too long, no permission, or over the limit */
	size_t unlisted; /* those of `left_out` that the filter admits, not counting directories below them */
};
