/* SPDX-License-Identifier: MIT */

#include "target/mirror.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

void look_failed(struct cgroup_tree *tree, int error)
{
	tree->incomplete = true;
	if (tree->error == 0)
		tree->error = error;
}

/* --- what stands there */

/* The path in the file system, of the root or of a name below parent. */
static int locate(const struct cgroup_tree *tree, const struct cgroup *parent, const char *name,
		  char where[static PATH_MAX])
{
	int n = snprintf(where, PATH_MAX, "%s%s/%s", tree->mount_path,
			 parent && parent->parent ? parent->path : "", name);

	return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

/* -ENOTDIR where something else stands there. */
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

int look_open(const struct cgroup_tree *tree, const struct cgroup *c, int flags, struct stat *st)
{
	_cleanup_(closep) int fd = -1;
	char where[PATH_MAX];
	int r;

	r = locate(tree, c->parent, c->name, where);
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
 * A directory's link count is 2 and one for each directory in it, where it is kept at all (cgroupfs and
 * tmpfs do; elsewhere it is 1). Most cgroups are leaves, which need not be read then.
 */
static bool is_leaf(const struct stat *st)
{
	return st->st_nlink == 2;
}

/* --- one name */

/*
 * Events say that a cgroup was made, and not which one. One is due for each that was found for an event, its own or one
 * before it, and one at most for those that were found otherwise. Where there is one more, it is of a cgroup that
 * nobody has seen.
 */
static void hear(struct cgroup_tree *tree, struct cgroup *parent, struct cgroup *known, const char *name)
{
	if (known && !known->told)
		known->told = true;
	else if (!mirror_would_want(tree, parent, name))
		return;
	else if (parent->ahead > 0)
		parent->ahead--;
	else
		tree->stats.missed++;
}

/* A new one; what is in it is looked at by later steps. */
static int add(struct cgroup_tree *tree, struct cgroup *parent, const char *name, int fd, uint64_t id,
	       enum cause cause)
{
	struct cgroup *c;
	struct stat st;
	int r;

	r = mirror_add(tree, parent, name, fd, id, &c);
	if (r < 0)
		return r;
	c->told = cause != CAUSE_SHOWN;
	c->due = cause == CAUSE_SHOWN && tree->reading.ahead;
	c->found = tree->buffers;
	if (parent && (cause == CAUSE_CHANGED || cause == CAUSE_REMOVED))
		parent->ahead += c->wanted;
	/* Asked again, since it is watched only now. */
	c->unread = fstat(fd, &st) < 0 || !is_leaf(&st);
	if (c->unread && !tree->fresh)
		tree->fresh = c;
	return 0;
}

/*
 * Whoever may not look there has to believe the event that says it was removed: else what is below a directory that its
 * owner has closed (chmod) would be counted for ever. An event that was taken before the cgroup was found is of one
 * before it, of the same name.
 */
static bool is_told_gone(const struct cgroup_tree *tree, const struct cgroup *known, enum cause cause)
{
	return known && cause == CAUSE_REMOVED && tree->buffers > known->found;
}

/* There is no directory at name below parent that could be opened. 0 where that is normal. */
static int explain_absence(struct cgroup_tree *tree, struct cgroup *parent, struct cgroup *known,
			   const char *name, enum cause cause, int error)
{
	bool gone = error == -ENOENT || error == -ENOTDIR;

	if (!gone && error != -ENAMETOOLONG && error != -EACCES)
		return error;

	/* Permission is given without an event. */
	if (error == -EACCES) {
		tree->incomplete = true;
		gone = is_told_gone(tree, known, cause);
	}
	if (gone && cause == CAUSE_MADE)
		hear(tree, parent, known, name);
	if (known) {
		if (gone)
			mirror_doom(tree, known);
		else if (error == -EACCES && (tree->after_loss || parent->watch < 0))
			known->doubtful = true;
	} else if (cause == CAUSE_CHANGED || cause == CAUSE_REMOVED) {
		/* One of those left out has been removed. */
		if (error != -ENOTDIR)
			mirror_leave_in(tree, parent, name);
	} else if (gone) {
		if (cause == CAUSE_SHOWN && mirror_would_want(tree, parent, name)) {
			tree->stats.missed++;
			parent->ahead += tree->reading.ahead;
		}
	} else {
		mirror_leave_out(tree, parent, name, error);
	}
	return 0;
}

static void replace(struct cgroup_tree *tree, struct cgroup *known, enum cause cause)
{
	tree->again.parent = known->parent;
	tree->again.cause = cause == CAUSE_SHOWN ? cause : CAUSE_CHANGED; /* the event has been heard */
	strcpy(tree->again.name, known->name);
	mirror_doom(tree, known);
}

/* Brings the mirror in line with what stands at name below parent now. dir is the parent's directory, since by its
 * path another may be there; or it says why that can't be opened. */
static int look_at(struct cgroup_tree *tree, struct cgroup *parent, int dir, const char *name, enum cause cause)
{
	struct cgroup *known = mirror_find(tree, parent, name);
	_cleanup_(closep) int fd = -1;
	char where[PATH_MAX];
	struct stat st;
	int r;

	if (strlen(name) > NAME_MAX)
		return 0;
	r = dir < 0 ? dir : locate(tree, parent, name, where);
	if (r >= 0)
		r = fd = open_directory(dir, name, O_PATH, &st);
	if (r < 0)
		return explain_absence(tree, parent, known, name, cause, r);

	if (known && cause == CAUSE_MADE)
		hear(tree, parent, known, name);
	if (known && known->identity->id == st.st_ino) {
		known->seen = tree->readings;
		known->doubtful = false;
		return 0;
	}
	if (known) {
		replace(tree, known, cause);
		return 0;
	}
	if (tree->size >= tree->limit) {
		tree->incomplete = true;
		mirror_leave_out(tree, parent, name, -ENOSPC);
		return 0;
	}
	return add(tree, parent, name, fd, st.st_ino, cause);
}

void look_at_change(struct cgroup_tree *tree, struct cgroup *parent, const char *name, enum cause cause)
{
	size_t left_out = tree->stats.left_out;
	struct stat st;
	_cleanup_(closep) int dir = look_open(tree, parent, O_PATH, &st);
	int r = look_at(tree, parent, dir, name, cause);

	if (r < 0)
		look_failed(tree, r);
	/* What is left out is known as a number only, and a reading may have counted this one before. */
	if (tree->stats.left_out != left_out)
		tree->incomplete = true;
}

int look_at_root(struct cgroup_tree *tree)
{
	_cleanup_(closep) int fd = -1;
	char where[PATH_MAX];
	struct stat st;
	int r;

	r = locate(tree, NULL, "", where);
	if (r < 0)
		return r;
	fd = open_directory(AT_FDCWD, where, O_RDONLY, &st);
	if (fd < 0)
		return fd;
	if (!tree->root)
		return add(tree, NULL, "", fd, st.st_ino, CAUSE_SHOWN);
	if (tree->root->identity->id != st.st_ino)
		mirror_doom(tree, tree->root);
	return 0;
}

static void look_again(struct cgroup_tree *tree)
{
	look_at_change(tree, steal_ptr(tree->again.parent), tree->again.name, tree->again.cause);
}

/* --- a directory */

void look_end(struct cgroup_tree *tree)
{
	if (tree->reading.dir)
		closedir(tree->reading.dir);
	else if (tree->reading.of)
		safe_close(tree->reading.fd);
	tree->reading = (struct reading){};
}

/* Whoever may not list a directory may still be able to look at those in it that are known. Where none is, it says how
 * many there are. */
static int open_closed(struct cgroup_tree *tree, struct cgroup *c, struct reading *ret)
{
	struct stat st;
	int fd = look_open(tree, c, O_PATH, &st);

	if (fd < 0)
		return fd;
	tree->incomplete = true;
	if (TAILQ_EMPTY(&c->children))
		mirror_leave_out_all(tree, c, st.st_nlink > 2 ? (unsigned)st.st_nlink - 2 : 0);
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
	/* No event tells of what was there before the watch. */
	bool watched = c->watch >= 0 && !c->unread && !tree->after_loss;
	_cleanup_(closep) int fd = -1;
	struct stat st;

	fd = look_open(tree, c, O_RDONLY, &st);
	if (fd == -EACCES)
		return open_closed(tree, c, ret);
	if (fd < 0)
		return fd;
	if (c->watch < 0) {
		mirror_watch(tree, c, fd);
		if (fstat(fd, &st) < 0)
			return -errno;
	}

	*ret = (struct reading){
		.of = c,
		.fd = fd,
		.phase = READ_UNSEEN,
		.unseen = TAILQ_FIRST(&c->children),
		.ahead = watched,
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

void look_into(struct cgroup_tree *tree, struct cgroup *c)
{
	struct reading reading;
	int r;

	r = open_reading(tree, c, &reading);
	/* Gone: its parent's watch or the next rescan tells. */
	if (r == -ENOENT)
		return;
	if (r == -EACCES)
		tree->incomplete = true;
	else if (r < 0)
		look_failed(tree, r);
	if (r < 0)
		return;

	tree->reading = reading;
	c->read = ++tree->readings;
	if (reading.closed)
		return;
	c->unread = false;
	mirror_leave_none_out(tree, c);
}

/* The next directory that it shows; NULL at the end, or where the directory is removed meanwhile. */
static const struct dirent *next_directory(struct cgroup_tree *tree, bool *end)
{
	const struct dirent *entry;

	errno = 0;
	entry = readdir(tree->reading.dir);
	*end = !entry;
	if (!entry && errno != 0 && errno != ENOENT)
		look_failed(tree, -errno);
	if (!entry || (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) || strcmp(entry->d_name, ".") == 0 ||
	    strcmp(entry->d_name, "..") == 0)
		return NULL;
	return entry;
}

static void look_at_entry(struct cgroup_tree *tree, const char *name, enum cause cause)
{
	int r = look_at(tree, tree->reading.of, tree->reading.fd, name, cause);

	if (r < 0)
		look_failed(tree, r);
}

/* Marks those that are known as they are. */
static void known_step(struct cgroup_tree *tree)
{
	struct reading *reading = &tree->reading;
	bool end;
	const struct dirent *entry = next_directory(tree, &end);
	struct cgroup *known = entry ? mirror_find(tree, reading->of, entry->d_name) : NULL;

	if (known && known->identity->id == entry->d_ino)
		known->seen = tree->readings;
	else if (entry)
		reading->others = true;
	if (!end)
		return;
	reading->phase = READ_UNSEEN;
	reading->unseen = TAILQ_FIRST(&reading->of->children);
}

/* Those that the directory did not show are looked at once more: a reading of a directory that changes
 * meanwhile may leave entries out. Nothing but what this finds gone is removed before the next step. */
static void unseen_step(struct cgroup_tree *tree)
{
	struct reading *reading = &tree->reading;
	struct cgroup *c = reading->unseen;

	if (c) {
		reading->unseen = TAILQ_NEXT(c, in_parent);
		if (c->seen != tree->readings)
			look_at_entry(tree, c->name, CAUSE_CHANGED);
	} else if (reading->others) {
		rewinddir(reading->dir);
		reading->phase = READ_NEW;
	} else {
		look_end(tree);
	}
}

/* Those that are gone have been reported before, to make room for these. */
static void new_step(struct cgroup_tree *tree)
{
	bool end;
	const struct dirent *entry = next_directory(tree, &end);
	struct cgroup *known = entry ? mirror_find(tree, tree->reading.of, entry->d_name) : NULL;

	if (entry && !(known && known->seen == tree->readings))
		look_at_entry(tree, entry->d_name, entry->d_type == DT_DIR ? CAUSE_SHOWN : CAUSE_CHANGED);
	if (end)
		look_end(tree);
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

static void fresh_step(struct cgroup_tree *tree)
{
	struct cgroup *c = tree->fresh;

	tree->fresh = TAILQ_NEXT(c, in_all);
	if (c->unread)
		look_into(tree, c);
}

bool look_step(struct cgroup_tree *tree)
{
	if (mirror_remove_step(tree))
		return true;
	if (tree->again.parent)
		look_again(tree);
	else if (tree->reading.of)
		reading_step(tree);
	else if (tree->fresh)
		fresh_step(tree);
	else
		return false;
	return true;
}
