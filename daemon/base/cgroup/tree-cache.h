/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The inside of the cgroup tree: the cgroups that are known, their watches, and what of the reconciliation has begun.
 * Only reconcile.c, cgroup.c and usage.c look into it.
 *
 * Nothing here loops over what others can make grow. All work is cut into steps (reconcile_step(), and those of
 * cgroup.c), each of which costs a few system calls; the tree keeps whatever a step leaves to the next. Between two
 * calls of the owner the tree is consistent, though it may lag behind the directories.
 *
 * Missed cgroups are found by counting. An event reports that a directory of some name was created, not which one: by
 * the time it is read, the directory can be gone and another one stand there. Each directory that is found pairs with
 * one create event: the event by which it was found, or one that is still in the queue, for which the struct
 * (create_queued) or, if no struct can, its parent (pending_creates) waits. A create event that nothing waits for is of
 * a cgroup that came and went unseen.
 */

#include "base/cgroup/filter.h"
#include "base/cgroup/node.h"
#include "base/util/reason.h"

#include <dirent.h>
#include <limits.h>
#include <stdalign.h>
#include <sys/inotify.h>

/* Why a name is reconciled. */
enum cause {
	CAUSE_CHANGED, /* the directory there has changed, or may have */
	CAUSE_LISTED,  /* a reading of the parent directory has listed it */
	CAUSE_CREATED, /* an event reports that it was created */
	CAUSE_REMOVED, /* an event reports that it was removed, or moved away */
};

/* A directory that is being compared with the known cgroups, an entry a step. */
struct reading {
	struct cgroup *of; /* NULL: none is */
	int fd;
	DIR *dir; /* of fd; NULL: it is empty, and need not be read */
	enum reading_phase { READ_KNOWN, READ_UNSEEN, READ_NEW } phase;
	struct cgroup *unseen; /* the child that is looked at next */
	bool closed;	       /* it can't be listed: only the known children are looked at, as far as permitted */
	bool has_unknown;      /* it lists some that are not known */
	bool creates_queued;   /* their create events are in the queue: it was watched before, and no event was lost */
};

struct cgroup_tree {
	char *mount_path; /* without a slash at its end */
	bool is_part;	  /* its top is not the machine's root */
	bool started;	  /* it has been read once: cgroups that are found from then on are new */
	const struct cgroup_filter *filter;
	struct cgroup_observer observer;
	size_t limit;
	int fd; /* inotify */

	struct cgroup *root;
	struct cgroup_list all;
	size_t size;
	/* tsearch(3) rather than a hash: users choose the names, and could provoke a hash's worst case; and a hash
	 * grows in one go. */
	void *by_name; /* by (parent, name) */
	void *by_id, *by_watch;

	/* Begun work, in the order in which it is done. */
	struct {
		struct cgroup *top, *next; /* a subtree to be removed, and the place in it; NULL: none */
	} removal;
	struct {
		struct cgroup *parent; /* NULL: none */
		enum cause cause;
		char name[NAME_MAX + 1];
	} replaced; /* a name where another directory stands, to be reconciled again after the removal of the old one */
	struct reading reading;
	struct cgroup *unread_from; /* from here to the end of `all` there may be unread ones; NULL: none */

	/* A rescan. Directories whose last reading is older than `rescan_number` have to be read. */
	bool rescan_due, at_root;
	bool lost, after_loss; /* events were lost since the last rescan began; and before it began */
	struct cgroup *rescan; /* the next to be read; NULL, and not at_root: no rescan goes on */
	uint64_t readings, rescan_number;

	alignas(struct inotify_event) char events[16 * 1024];
	size_t events_at, events_end; /* the part of the buffer that is not handled yet */
	uint64_t buffers;	      /* how many times it was filled */
	bool rescan_turn;	      /* the last step was a rescan's, not an event's */

	bool more;	   /* the last call did not come to the end */
	int error;	   /* the first that was not returned yet */
	bool incomplete;   /* something could not be looked at, or is left out and could come in */
	bool watches_full; /* the kernel refused a watch: none is tried before the next rescan */
	struct reason problem;
	struct reason unlisted; /* an example of those left out */
	bool unlisted_is_old;	/* it is from before the last rescan, and gives way to the next that is met */
	struct cgroup_tree_stats stats;
};

struct cgroup *tree_cache_find(const struct cgroup_tree *tree, struct cgroup *parent, const char *name);
struct cgroup *tree_cache_find_id(const struct cgroup_tree *tree, uint64_t id);
struct cgroup *tree_cache_find_watch(const struct cgroup_tree *tree, int watch);

/* Adds a directory to the tree and watches it; fd stands for it. parent == NULL: the root. -ENOMEM. */
int tree_cache_add(struct cgroup_tree *tree, struct cgroup *parent, const char *name, int fd, uint64_t id,
		   struct cgroup **ret);

/* Would the filter admit a cgroup of that name in parent? Yes, if there is no memory to find out. */
bool tree_cache_would_want(const struct cgroup_tree *tree, const struct cgroup *parent, const char *name);

/* Makes the next steps remove a subtree. No other removal may be going on. */
void tree_cache_begin_removal(struct cgroup_tree *tree, struct cgroup *top);
/* Removes one cgroup of it; false if there is no removal. */
bool tree_cache_remove_step(struct cgroup_tree *tree);
/* Removes all cgroups and reports nothing. */
void tree_cache_clear(struct cgroup_tree *tree);

/* Watches the directory that fd stands for, if possible. */
void tree_cache_watch(struct cgroup_tree *tree, struct cgroup *c, int fd);
/* The kernel has dropped the watch. */
void tree_cache_forget_watch(struct cgroup_tree *tree, struct cgroup *c);
/* Notes why a watch, or inotify itself, was refused: an errno, for cgroup_tree_problem(). */
void tree_cache_set_problem(struct cgroup_tree *tree, int error);

/* A directory that is left out is known as a number only, with one example. why: negative errno; -ENOSPC: the tree is
 * at its limit. */
void tree_cache_leave_out(struct cgroup_tree *tree, struct cgroup *parent, const char *name, int why);
/* All directories in a parent that can't be listed: nr, by its link count. */
void tree_cache_leave_out_all(struct cgroup_tree *tree, struct cgroup *parent, unsigned nr);
/* One that was left out is gone. */
void tree_cache_forget_left_out(struct cgroup_tree *tree, struct cgroup *parent, const char *name);
/* None is left out in parent; or those that are will be met again. */
void tree_cache_reset_left_out(struct cgroup_tree *tree, struct cgroup *parent);
