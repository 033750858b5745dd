/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The inside of the cgroup tree, in three files that share this header and nobody else:
 *
 *   mirror.c  the cgroups that are known, and their watches
 *   look.c    what is on disk, and bringing the mirror in line with it: one name, or one directory
 *   cgroup.c  when to look: events, rescans, and what the owner calls
 *
 * Nothing here loops over what others can make grow. All work is cut into steps (look_step() and what
 * stands above it), each of which costs a few system calls; what a step leaves to the next is in the
 * tree. Between two calls of the owner the tree is consistent, if behind.
 */

#include "target/cgroup.h"

#include <limits.h>
#include <stdalign.h>
#include <sys/inotify.h>
#include <sys/stat.h>

/* Why a name is looked at. */
enum cause {
	CAUSE_CHANGED, /* something has happened there, or may have */
	CAUSE_SHOWN,   /* its directory has shown it */
	CAUSE_MADE,    /* an event says that it was made */
	CAUSE_REMOVED, /* an event says that it was removed, or moved away */
};

/* A directory that is compared with the mirror, an entry a step. */
struct reading {
	struct cgroup *of; /* NULL: none is */
	int fd;
	DIR *dir; /* of fd; NULL: it is empty, and need not be read */
	enum reading_phase { READ_KNOWN, READ_UNSEEN, READ_NEW } phase;
	struct cgroup *unseen; /* the child that is looked at next */
	bool closed;	       /* it can't be listed: those that are known are looked at, as far as may be */
	bool others;	       /* it shows some that are not known */
	bool ahead;	       /* … and events are due for those: it has been watched before, and none were lost */
};

struct cgroup_tree {
	char *mount_path; /* without a slash at its end */
	bool is_part;	  /* its top is not the machine's root */
	const struct cgroup_filter *filter;
	struct cgroup_observer observer;
	size_t limit;
	int fd; /* inotify */

	struct cgroup *root;
	struct cgroup_list all;
	size_t size;
	/* tsearch(3): names are anybody's, who could make a hash's worst case come true; and a hash is made
	 * larger in one go. */
	void *by_name; /* by (parent, name) */
	void *by_watch;

	/* What has been begun, in the order in which it is done. */
	struct {
		struct cgroup *top, *next; /* a subtree to be removed, and where in it; NULL: none */
	} doomed;
	struct {
		struct cgroup *parent; /* NULL: nothing */
		enum cause cause;
		char name[NAME_MAX + 1];
	} again; /* to be looked at once more, when what was known there is removed */
	struct reading reading;
	struct cgroup *fresh; /* from here to the end of `all` there may be unread ones; NULL: none */

	/* A rescan. Those read in an earlier reading than `due` have to be read. */
	bool rescan_due, at_root;
	bool lost, after_loss; /* events were lost since the last one began; and before it did */
	struct cgroup *rescan; /* the next to be read; NULL, and not at_root: none goes on */
	uint64_t readings, due;

	alignas(struct inotify_event) char events[16 * 1024];
	size_t events_at, events_end; /* what has not been handled yet */
	uint64_t buffers; /* … were filled so far */
	bool rescan_turn;	      /* … and not an event's */

	bool more;	   /* the last call had not come to the end */
	int error;	   /* the first since one was told */
	bool incomplete;   /* something could not be looked at, or is left out and could come in */
	bool watches_full; /* no watch is to be had: not tried again before the next rescan */
	struct reason problem;
	struct reason unlisted; /* an example of those */
	bool unlisted_is_old;	/* it is from before the last rescan: the next that is met takes its place */
	struct cgroup_tree_stats stats;
};

/* --- mirror.c */

struct cgroup *mirror_find(const struct cgroup_tree *tree, struct cgroup *parent, const char *name);
struct cgroup *mirror_find_watch(const struct cgroup_tree *tree, int watch);

/* Takes a new directory into the tree; fd stands for it. parent == NULL: the root. -ENOMEM. */
int mirror_add(struct cgroup_tree *tree, struct cgroup *parent, const char *name, int fd, uint64_t id,
	       struct cgroup **ret);

/* Would a cgroup of that name in parent be wanted? Where there is no memory to tell, it would. */
bool mirror_would_want(const struct cgroup_tree *tree, const struct cgroup *parent, const char *name);

/* Has a subtree removed by the next steps. There is none doomed yet. */
void mirror_doom(struct cgroup_tree *tree, struct cgroup *top);
/* Removes one cgroup of it; false where none is doomed. */
bool mirror_remove_step(struct cgroup_tree *tree);
/* Removes all cgroups and reports nothing. */
void mirror_clear(struct cgroup_tree *tree);

/* Watches the directory that fd stands for, if it can be. */
void mirror_watch(struct cgroup_tree *tree, struct cgroup *c, int fd);
/* The kernel has dropped it. */
void mirror_forget_watch(struct cgroup_tree *tree, struct cgroup *c);
/* Why a watch, or inotify itself, was refused. */
void mirror_complain(struct cgroup_tree *tree, int error);

/* why: negative errno; -ENOSPC: the tree is at its limit. */
void mirror_leave_out(struct cgroup_tree *tree, struct cgroup *parent, const char *name, int why);
/* Those in a directory that can't be read, as many as it says it has. */
void mirror_leave_out_all(struct cgroup_tree *tree, struct cgroup *parent, unsigned nr);
/* One that was left out is not there any more. */
void mirror_leave_in(struct cgroup_tree *tree, struct cgroup *parent, const char *name);
/* Nothing in it is left out; or whatever is will be met again. */
void mirror_leave_none_out(struct cgroup_tree *tree, struct cgroup *parent);

/* --- look.c */

/* Something could not be looked at. */
void look_failed(struct cgroup_tree *tree, int error);

/* An fd for the cgroup's directory, with flags such as O_PATH; -ENOENT where it is not there any more. */
int look_open(const struct cgroup_tree *tree, const struct cgroup *c, int flags, struct stat *st);

/* Looks at the mount itself, which may have been replaced: the old root is doomed then, and it has to be
 * looked at again. */
int look_at_root(struct cgroup_tree *tree);

/* Looks at name below parent, where something has happened. */
void look_at_change(struct cgroup_tree *tree, struct cgroup *parent, const char *name, enum cause cause);

/* Begins to read a directory. */
void look_into(struct cgroup_tree *tree, struct cgroup *c);
void look_end(struct cgroup_tree *tree);

/* One step of what has been begun; false where nothing has. */
bool look_step(struct cgroup_tree *tree);
