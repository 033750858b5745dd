/* SPDX-License-Identifier: MIT */

#include "base/cgroup/reconcile.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

void reconcile_failed(struct cgroup_tree *tree, int error)
{
	tree->incomplete = true;
	if (tree->error == 0)
		tree->error = error;
}

/* --- paths */

/* The path in the file system: of name below parent, or of the root. */
static int locate_name(const struct cgroup_tree *tree, const struct cgroup *parent, const char *name,
		       char where[static PATH_MAX])
{
	int n = snprintf(where, PATH_MAX, "%s%s/%s", tree->mount_path, parent && parent->parent ? parent->path : "",
			 name);

	return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

/* -ENOTDIR for anything else than a directory. */
static int open_directory(int dir, const char *where, int flags, struct stat *st)
{
	int fd = openat(dir, where, flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return errno == ELOOP ? -ENOTDIR : errno == ENODEV ? -ENOENT : -errno;
	if (fstat(fd, st) < 0) {
		int r = -errno;

		safe_close(fd);
		return r;
	}
	return fd;
}

int reconcile_open(const struct cgroup_tree *tree, const struct cgroup *c, int flags, struct stat *st)
{
	_cleanup_(closep) int fd = -1;
	char where[PATH_MAX];
	int r;

	r = locate_name(tree, c->parent, c->name, where);
	if (r < 0)
		return r;
	fd = open_directory(AT_FDCWD, where, flags, st);
	if (fd < 0)
		return fd == -ENOTDIR ? -ENOENT : fd;
	if (st->st_ino != c->identity->id)
		return -ENOENT;
	return steal_fd(&fd);
}

/*
 * A directory's link count is 2 plus one for each directory in it, in file systems that keep it (cgroupfs and tmpfs do;
 * elsewhere it is 1). Most cgroups are leaves, and need not be read.
 */
static bool is_leaf(const struct stat *st)
{
	return st->st_nlink == 2;
}

/* --- one name */

/* A create event has arrived that did not lead to a new cgroup: pairs it with a cgroup found before (tree-cache.h), or
 * counts a missed one. */
static void note_create_seen(struct cgroup_tree *tree, struct cgroup *parent, struct cgroup *known, const char *name)
{
	if (known && !known->create_seen)
		known->create_seen = true;
	else if (!tree_cache_would_want(tree, parent, name))
		return;
	else if (parent->pending_creates > 0)
		parent->pending_creates--;
	else
		tree->stats.missed++;
}

/* Later steps read what is in it. */
static int add_new(struct cgroup_tree *tree, struct cgroup *parent, const char *name, int fd, uint64_t id,
		   enum cause cause)
{
	struct cgroup *c;
	struct stat st;
	int r;

	r = tree_cache_add(tree, parent, name, fd, id, &c);
	if (r < 0)
		return r;
	c->create_seen = cause != CAUSE_LISTED;
	c->create_queued = cause == CAUSE_LISTED && tree->reading.creates_queued;
	c->found = tree->buffers;
	/* It was found by an event other than its create event, which is still in the queue. */
	if (parent && (cause == CAUSE_CHANGED || cause == CAUSE_REMOVED))
		parent->pending_creates += c->wanted;
	/* The link count again, since the watch was set only now. */
	c->unread = fstat(fd, &st) < 0 || !is_leaf(&st);
	if (c->unread && !tree->unread_from)
		tree->unread_from = c;
	return 0;
}

/*
 * If permission to look is missing, the event of a removal has to be believed: else a cgroup below a directory that its
 * owner has closed (chmod) would be counted for ever. An event that was read before the cgroup was found is of an
 * earlier one of the same name.
 */
static bool is_reported_gone(const struct cgroup_tree *tree, const struct cgroup *known, enum cause cause)
{
	return known && cause == CAUSE_REMOVED && tree->buffers > known->found;
}

/* No directory could be opened at name below parent. 0 if that is normal. */
static int explain_absence(struct cgroup_tree *tree, struct cgroup *parent, struct cgroup *known, const char *name,
			   enum cause cause, int error)
{
	bool gone = error == -ENOENT || error == -ENOTDIR;

	if (!gone && error != -ENAMETOOLONG && error != -EACCES)
		return error;

	/* No event reports that permission is given later: a rescan has to find it. */
	if (error == -EACCES) {
		tree->incomplete = true;
		gone = is_reported_gone(tree, known, cause);
	}
	if (gone && cause == CAUSE_CREATED)
		note_create_seen(tree, parent, known, name);
	if (known) {
		if (gone)
			tree_cache_begin_removal(tree, known);
		else if (error == -EACCES && (tree->after_loss || parent->watch < 0))
			known->doubtful = true;
	} else if (cause == CAUSE_CHANGED || cause == CAUSE_REMOVED) {
		/* It was one of those left out. */
		if (error != -ENOTDIR)
			tree_cache_forget_left_out(tree, parent, name);
	} else if (gone) {
		if (cause == CAUSE_LISTED && tree_cache_would_want(tree, parent, name)) {
			tree->stats.missed++;
			parent->pending_creates += tree->reading.creates_queued;
		}
	} else {
		tree_cache_leave_out(tree, parent, name, error);
	}
	return 0;
}

static void replace_known(struct cgroup_tree *tree, struct cgroup *known, enum cause cause)
{
	tree->replaced.parent = known->parent;
	tree->replaced.cause = cause == CAUSE_LISTED ? cause : CAUSE_CHANGED; /* its create event is settled */
	strcpy(tree->replaced.name, known->name);
	tree_cache_begin_removal(tree, known);
}

/* Brings the cache in line with the directory at name below parent. dir is the parent's directory, since another may be
 * at its path by now; or the negative errno of opening it. */
static int reconcile_name(struct cgroup_tree *tree, struct cgroup *parent, int dir, const char *name, enum cause cause)
{
	struct cgroup *known = tree_cache_find(tree, parent, name);
	_cleanup_(closep) int fd = -1;
	char where[PATH_MAX];
	struct stat st;
	int r;

	if (strlen(name) > NAME_MAX)
		return 0;
	r = dir < 0 ? dir : locate_name(tree, parent, name, where);
	if (r >= 0)
		r = fd = open_directory(dir, name, O_PATH, &st);
	if (r < 0)
		return explain_absence(tree, parent, known, name, cause, r);

	if (known && cause == CAUSE_CREATED)
		note_create_seen(tree, parent, known, name);
	if (known && known->identity->id == st.st_ino) {
		known->seen = tree->readings;
		known->doubtful = false;
		return 0;
	}
	if (known) {
		replace_known(tree, known, cause);
		return 0;
	}
	if (tree->size >= tree->limit) {
		tree->incomplete = true;
		tree_cache_leave_out(tree, parent, name, -ENOSPC);
		return 0;
	}
	return add_new(tree, parent, name, fd, st.st_ino, cause);
}

void reconcile_change(struct cgroup_tree *tree, struct cgroup *parent, const char *name, enum cause cause)
{
	size_t left_out = tree->stats.left_out;
	struct stat st;
	_cleanup_(closep) int dir = reconcile_open(tree, parent, O_PATH, &st);
	int r = reconcile_name(tree, parent, dir, name, cause);

	if (r < 0)
		reconcile_failed(tree, r);
	/* Names of those left out are not kept: a reading may have counted this one before. */
	if (tree->stats.left_out != left_out)
		tree->incomplete = true;
}

int reconcile_root(struct cgroup_tree *tree)
{
	_cleanup_(closep) int fd = -1;
	char where[PATH_MAX];
	struct stat st;
	int r;

	r = locate_name(tree, NULL, "", where);
	if (r < 0)
		return r;
	fd = open_directory(AT_FDCWD, where, O_RDONLY, &st);
	if (fd < 0)
		return fd;
	if (!tree->root)
		return add_new(tree, NULL, "", fd, st.st_ino, CAUSE_LISTED);
	if (tree->root->identity->id != st.st_ino)
		tree_cache_begin_removal(tree, tree->root);
	return 0;
}

static void reconcile_replaced(struct cgroup_tree *tree)
{
	reconcile_change(tree, steal_ptr(tree->replaced.parent), tree->replaced.name, tree->replaced.cause);
}

/* --- a directory */

void reconcile_end(struct cgroup_tree *tree)
{
	if (tree->reading.dir)
		closedir(tree->reading.dir);
	else if (tree->reading.of)
		safe_close(tree->reading.fd);
	tree->reading = (struct reading){};
}

/* A directory that may not be listed: its known children can often be looked at all the same. If none is known, its
 * link count says how many there are. */
static int open_closed(struct cgroup_tree *tree, struct cgroup *c, struct reading *ret)
{
	struct stat st;
	int fd = reconcile_open(tree, c, O_PATH, &st);

	if (fd < 0)
		return fd;
	tree->incomplete = true;
	if (TAILQ_EMPTY(&c->children))
		tree_cache_leave_out_all(tree, c, st.st_nlink > 2 ? (unsigned)st.st_nlink - 2 : 0);
	*ret = (struct reading){
		.of = c,
		.fd = fd,
		.phase = READ_UNSEEN,
		.unseen = TAILQ_FIRST(&c->children),
		.closed = true,
	};
	return 0;
}

static int open_reading(struct cgroup_tree *tree, struct cgroup *c, struct reading *ret)
{
	/* Directories from before the watch have no create event in the queue. */
	bool watched = c->watch >= 0 && !c->unread && !tree->after_loss;
	_cleanup_(closep) int fd = -1;
	struct stat st;

	fd = reconcile_open(tree, c, O_RDONLY, &st);
	if (fd == -EACCES)
		return open_closed(tree, c, ret);
	if (fd < 0)
		return fd;
	if (c->watch < 0) {
		tree_cache_watch(tree, c, fd);
		if (fstat(fd, &st) < 0)
			return -errno;
	}

	*ret = (struct reading){
		.of = c,
		.fd = fd,
		.phase = READ_UNSEEN,
		.unseen = TAILQ_FIRST(&c->children),
		.creates_queued = watched,
	};
	if (!is_leaf(&st)) {
		ret->phase = ret->unseen ? READ_KNOWN : READ_NEW;
		ret->dir = fdopendir(fd);
		if (!ret->dir)
			return -errno;
	}
	(void)steal_fd(&fd);
	return 0;
}

void reconcile_begin(struct cgroup_tree *tree, struct cgroup *c)
{
	struct reading reading;
	int r;

	assert(!tree->reading.of);
	r = open_reading(tree, c, &reading);
	/* Gone: an event of its parent's watch, or the next rescan, removes it. */
	if (r == -ENOENT)
		return;
	if (r == -EACCES)
		tree->incomplete = true;
	else if (r < 0)
		reconcile_failed(tree, r);
	if (r < 0)
		return;

	tree->reading = reading;
	c->read = ++tree->readings;
	if (reading.closed)
		return;
	c->unread = false;
	tree_cache_reset_left_out(tree, c);
}

/* The next directory listed, or NULL: no directory, or the end (*end), also if the directory was removed meanwhile. */
static const struct dirent *next_directory(struct cgroup_tree *tree, bool *end)
{
	const struct dirent *entry;

	errno = 0;
	entry = readdir(tree->reading.dir);
	*end = !entry;
	if (!entry && errno != 0 && errno != ENOENT)
		reconcile_failed(tree, -errno);
	if (!entry || (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) || strcmp(entry->d_name, ".") == 0 ||
	    strcmp(entry->d_name, "..") == 0)
		return NULL;
	return entry;
}

static void reconcile_entry(struct cgroup_tree *tree, const char *name, enum cause cause)
{
	int r = reconcile_name(tree, tree->reading.of, tree->reading.fd, name, cause);

	if (r < 0)
		reconcile_failed(tree, r);
}

/* Marks the known children whose ids are unchanged. */
static void known_step(struct cgroup_tree *tree)
{
	struct reading *reading = &tree->reading;
	bool end;
	const struct dirent *entry = next_directory(tree, &end);
	struct cgroup *known = entry ? tree_cache_find(tree, reading->of, entry->d_name) : NULL;

	if (known && known->identity->id == entry->d_ino)
		known->seen = tree->readings;
	else if (entry)
		reading->has_unknown = true;
	if (!end)
		return;
	reading->phase = READ_UNSEEN;
	reading->unseen = TAILQ_FIRST(&reading->of->children);
}

/* Children that the reading did not list are looked at one by one: readdir(3) may skip entries of a directory that
 * changes meanwhile. Only those found gone are removed before the next step, so that `unseen` stays valid. */
static void unseen_step(struct cgroup_tree *tree)
{
	struct reading *reading = &tree->reading;
	struct cgroup *c = reading->unseen;

	if (c) {
		reading->unseen = TAILQ_NEXT(c, in_parent);
		if (c->seen != tree->readings)
			reconcile_entry(tree, c->name, CAUSE_CHANGED);
	} else if (reading->has_unknown) {
		rewinddir(reading->dir);
		reading->phase = READ_NEW;
	} else {
		reconcile_end(tree);
	}
}

/* New ones come last, when those that are gone have made room below the limit. */
static void new_step(struct cgroup_tree *tree)
{
	bool end;
	const struct dirent *entry = next_directory(tree, &end);
	struct cgroup *known = entry ? tree_cache_find(tree, tree->reading.of, entry->d_name) : NULL;

	if (entry && !(known && known->seen == tree->readings))
		reconcile_entry(tree, entry->d_name, entry->d_type == DT_DIR ? CAUSE_LISTED : CAUSE_CHANGED);
	if (end)
		reconcile_end(tree);
}

static void reading_step(struct cgroup_tree *tree)
{
	switch (tree->reading.phase) {
	case READ_KNOWN:
		return known_step(tree);
	case READ_UNSEEN:
		return unseen_step(tree);
	case READ_NEW:
		return new_step(tree);
	}
}

static void unread_step(struct cgroup_tree *tree)
{
	struct cgroup *c = tree->unread_from;

	tree->unread_from = TAILQ_NEXT(c, in_all);
	if (c->unread)
		reconcile_begin(tree, c);
}

bool reconcile_step(struct cgroup_tree *tree)
{
	if (tree_cache_remove_step(tree))
		return true;
	if (tree->replaced.parent)
		reconcile_replaced(tree);
	else if (tree->reading.of)
		reading_step(tree);
	else if (tree->unread_from)
		unread_step(tree);
	else
		return false;
	return true;
}
