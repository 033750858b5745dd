/* SPDX-License-Identifier: MIT */

#include "target/cgroup.h"

#include "util/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <search.h>
#include <stdalign.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

/* What a directory tells about those in it. Its own removal comes as IN_IGNORED without being asked. */
#define WATCHED (IN_ONLYDIR | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)

/* After this many events a call of dispatch comes to its end, so that the loop gets on. */
#define MAX_EVENTS 512

struct cgroup_tree {
	char *mount_path; /* without a slash at its end */
	const struct cgroup_filter *filter;
	struct cgroup_observer observer;
	size_t limit;
	int fd; /* inotify */

	struct cgroup *root;
	struct cgroup_list all;
	size_t size;
	struct cgroup *by_watch; /* uthash: watch descriptors are the kernel's */
	void *by_name;		 /* tsearch(3), by (parent, name): names are anybody's, who could make
				  * a hash's worst case come true */

	bool overflowed;
	bool incomplete;   /* something could not be looked at, or is left out for the limit */
	bool watches_full; /* no watch is to be had: not tried again before the next rescan */
	struct reason problem;
	struct cgroup_tree_stats stats;
};

static const struct cgroup_filter admit_nothing;

static bool any_matches(char *const *globs, size_t nr, const char *label)
{
	for (size_t i = 0; i < nr; i++)
		if (glob_match(globs[i], label))
			return true;
	return false;
}

bool cgroup_filter_admits(const struct cgroup_filter *filter, const char *label)
{
	return any_matches(filter->include, filter->nr_include, label) &&
	       !any_matches(filter->exclude, filter->nr_exclude, label);
}

static struct cgroup *cgroup_free(struct cgroup *c)
{
	if (!c)
		return NULL;
	if (!c->identity || c->path != c->identity->label)
		free((char *)c->path);
	cgroup_identity_unref(c->identity);
	free(c->why);
	free(c);
	return NULL;
}
DEFINE_CLEANUP(struct cgroup *, cgroup_free)

static int compare_names(const void *a, const void *b)
{
	const struct cgroup *x = a, *y = b;

	if (x->parent != y->parent)
		return (uintptr_t)x->parent < (uintptr_t)y->parent ? -1 : 1;
	return strcmp(x->name, y->name);
}

static struct cgroup *find_child(const struct cgroup_tree *tree, struct cgroup *parent, const char *name)
{
	struct cgroup key = { .parent = parent, .name = name };
	void *node = tfind(&key, &tree->by_name, compare_names);

	return node ? *(struct cgroup **)node : NULL;
}

/* --- watches */

/* The sentence for the last watch that was refused. */
static void complain(struct cgroup_tree *tree, int error)
{
	const char *until = "until then changes of the cgroup tree are found by reading it at times";

	switch (error) {
	case ENOSPC:
		reason_set(&tree->problem, 0,
			   "inotify watches have run out: raise fs.inotify.max_user_watches; %s", until);
		break;
	case EMFILE:
		reason_set(&tree->problem, 0,
			   "no inotify instance can be had: raise fs.inotify.max_user_instances or the limit "
			   "of open files; %s",
			   until);
		break;
	default:
		reason_set(&tree->problem, 0,
			   "can't watch the cgroup tree with inotify (%s): changes are found by reading it "
			   "at times",
			   strerror(error));
	}
}

/*
 * Watches the directory fd stands for, whatever is at its path by now. A directory can show in two
 * places, when it was moved and the old place has not been looked at yet or by a bind mount. It has one
 * watch descriptor then, which stays with the place known first.
 */
static void set_watch(struct cgroup_tree *tree, struct cgroup *c, int fd)
{
	char link[sizeof("/proc/self/fd/") + 11];
	struct cgroup *other;
	int wd;

	if (tree->fd < 0 || tree->watches_full)
		return;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	wd = inotify_add_watch(tree->fd, link, WATCHED);
	if (wd < 0) {
		tree->watches_full = errno == ENOSPC || errno == ENOMEM;
		complain(tree, errno);
		return;
	}

	HASH_FIND_INT(tree->by_watch, &wd, other);
	if (other)
		return;
	c->watch = wd;
	HASH_ADD_INT(tree->by_watch, watch, c);
	if (!c->hh.tbl) {
		c->watch = -1;
		(void)inotify_rm_watch(tree->fd, wd);
		tree->watches_full = true;
		complain(tree, ENOMEM);
		return;
	}
	tree->stats.watches++;
	tree->stats.watches_missing--;
}

static void forget_watch(struct cgroup_tree *tree, struct cgroup *c)
{
	if (c->watch < 0)
		return;
	HASH_DEL(tree->by_watch, c);
	c->watch = -1;
	tree->stats.watches--;
	tree->stats.watches_missing++;
}

static void drop_watch(struct cgroup_tree *tree, struct cgroup *c)
{
	/* A removed directory that is held open can keep its watch. */
	if (c->watch >= 0)
		(void)inotify_rm_watch(tree->fd, c->watch);
	forget_watch(tree, c);
}

/* --- the mirror */

static void remove_one(struct cgroup_tree *tree, struct cgroup *c)
{
	drop_watch(tree, c);
	(void)tdelete(c, &tree->by_name, compare_names);
	TAILQ_REMOVE(&tree->all, c, in_all);
	if (c->parent)
		TAILQ_REMOVE(&c->parent->children, c, in_parent);
	else
		tree->root = NULL;
	tree->size--;
	tree->stats.watches_missing--;
	tree->stats.left_out -= c->left_out;

	tree->observer.removed(tree->observer.userdata, c);
	cgroup_free(c);
}

/* Children first; without recursion, since others choose the depth. */
static void remove_subtree(struct cgroup_tree *tree, struct cgroup *top)
{
	struct cgroup *c = top, *up;

	do {
		while (!TAILQ_EMPTY(&c->children))
			c = TAILQ_FIRST(&c->children);
		up = c == top ? NULL : c->parent;
		remove_one(tree, c);
		c = up;
	} while (c);
}

static int make_path(char **ret, const struct cgroup *parent, const char *name)
{
	if (asprintf(ret, "%s/%s", parent && parent->parent ? parent->path : "", name) < 0) {
		*ret = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* The path is the label where that needs no escaping, which is nearly everywhere. */
static int name_it(struct cgroup *c, const char *name, uint64_t id)
{
	int r;

	r = make_path((char **)&c->path, c->parent, name);
	if (r < 0)
		return r;
	r = cgroup_identity_new(&c->identity, id, c->path);
	if (r < 0)
		return r;

	if (strcmp(c->path, c->identity->label) == 0) {
		free((char *)c->path);
		c->path = c->identity->label;
	}
	c->name = strrchr(c->path, '/') + 1;
	return 0;
}

/*
 * A directory's link count is 2 and one for each directory in it, where it is kept at all (cgroupfs and
 * tmpfs do; elsewhere it is 1). Most cgroups are leaves, which need not be read then.
 */
static bool is_leaf(const struct stat *st)
{
	return st->st_nlink == 2;
}

/* Takes a new directory into the tree; fd stands for it. parent == NULL: the root. */
static int add(struct cgroup_tree *tree, struct cgroup *parent, const char *name, int fd, uint64_t id,
	       struct cgroup **ret)
{
	_cleanup_(cgroup_freep) struct cgroup *new = calloc(1, sizeof(*new));
	struct cgroup *c;
	struct stat st;
	int r;

	if (!new)
		return -ENOMEM;
	new->watch = -1;
	new->parent = parent;
	new->depth = parent ? parent->depth + 1 : 0;
	new->seen = true;
	TAILQ_INIT(&new->children);
	r = name_it(new, name, id);
	if (r < 0)
		return r;
	new->wanted = cgroup_filter_admits(tree->filter, new->identity->label);
	if (!tsearch(new, &tree->by_name, compare_names))
		return -ENOMEM;

	c = steal_ptr(new);
	TAILQ_INSERT_TAIL(&tree->all, c, in_all);
	if (parent)
		TAILQ_INSERT_TAIL(&parent->children, c, in_parent);
	else
		tree->root = c;
	tree->size++;
	tree->stats.watches_missing++;

	/* Watched before it is looked into. */
	set_watch(tree, c, fd);
	c->unread = fstat(fd, &st) < 0 || !is_leaf(&st);

	tree->observer.added(tree->observer.userdata, c);
	*ret = c;
	return 0;
}

/* --- looking */

/* The path in the file system, of the root or of a name below parent. */
static int locate(const struct cgroup_tree *tree, const struct cgroup *parent, const char *name,
		  char where[static PATH_MAX])
{
	int n = snprintf(where, PATH_MAX, "%s%s/%s", tree->mount_path,
			 parent && parent->parent ? parent->path : "", name);

	return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

/* -ENOTDIR where something else stands there. */
static int open_directory(const char *where, int flags, struct stat *st)
{
	int fd = open(where, flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return errno == ELOOP ? -ENOTDIR : errno == ENODEV ? -ENOENT : -errno;
	if (fstat(fd, st) < 0) {
		int r = -errno;

		safe_close(fd);
		return r;
	}
	return fd;
}

static int open_cgroup(const struct cgroup_tree *tree, const struct cgroup *c, struct stat *st)
{
	_cleanup_(closep) int fd = -1;
	char where[PATH_MAX];
	int r;

	r = locate(tree, c->parent, c->name, where);
	if (r < 0)
		return r;
	fd = open_directory(where, O_RDONLY, st);
	if (fd < 0)
		return fd == -ENOTDIR ? -ENOENT : fd;
	if (st->st_ino != c->identity->id)
		return -ENOENT;
	return steal_fd(&fd);
}

static void leave_out(struct cgroup_tree *tree, struct cgroup *parent)
{
	parent->left_out++;
	tree->stats.left_out++;
}

/* There is no directory at name below parent that could be opened. 0 where that is normal. */
static int explain_absence(struct cgroup_tree *tree, struct cgroup *parent, struct cgroup *known,
			   bool expected, int error)
{
	bool gone = error == -ENOENT || error == -ENOTDIR;

	if (!gone && error != -ENAMETOOLONG && error != -EACCES)
		return error;

	if (known) {
		if (gone)
			remove_subtree(tree, known);
	} else if (!expected) {
		/* One of those left out has been removed. */
		if (parent->left_out > 0 && error != -ENOTDIR) {
			parent->left_out--;
			tree->stats.left_out--;
		}
	} else if (gone) {
		tree->stats.missed++;
	} else {
		leave_out(tree, parent);
	}
	return 0;
}

/*
 * Brings the mirror in line with what stands at name below parent now. expected: it was there a moment
 * ago. *added is what is new, or NULL; it may have to be read (scan_from()).
 */
static int look_at(struct cgroup_tree *tree, struct cgroup *parent, const char *name, bool expected,
		   struct cgroup **added)
{
	struct cgroup *known = find_child(tree, parent, name);
	_cleanup_(closep) int fd = -1;
	char own_name[NAME_MAX + 1], where[PATH_MAX];
	struct stat st;
	int r;

	*added = NULL;
	/* The name may be that of the cgroup to be removed. */
	if (strlen(name) > NAME_MAX)
		return 0;
	strcpy(own_name, name);

	r = locate(tree, parent, own_name, where);
	if (r == 0)
		r = fd = open_directory(where, O_PATH, &st);
	if (r < 0)
		return explain_absence(tree, parent, known, expected, r);

	if (known && known->identity->id == st.st_ino) {
		known->seen = true;
		return 0;
	}
	if (known)
		remove_subtree(tree, known);
	if (tree->size >= tree->limit) {
		tree->incomplete = true;
		leave_out(tree, parent);
		return 0;
	}
	return add(tree, parent, own_name, fd, st.st_ino, added);
}

/* The next directory that dir shows; NULL at the end, or where the directory is removed meanwhile. Other
 * errors are in *error. */
static const struct dirent *next_directory(DIR *dir, int *error)
{
	const struct dirent *entry;

	for (;;) {
		errno = 0;
		entry = readdir(dir);
		if (!entry) {
			*error = errno == ENOENT ? 0 : -errno;
			return NULL;
		}
		if ((entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN) && strcmp(entry->d_name, ".") &&
		    strcmp(entry->d_name, ".."))
			return entry;
	}
}

/* Marks those that are known as they are; *others: there are more. */
static int mark_seen(struct cgroup_tree *tree, struct cgroup *parent, DIR *dir, bool *others)
{
	const struct dirent *entry;
	int error;

	*others = false;
	while ((entry = next_directory(dir, &error))) {
		struct cgroup *known = find_child(tree, parent, entry->d_name);

		if (known && known->identity->id == entry->d_ino)
			known->seen = true;
		else
			*others = true;
	}
	return error;
}

/* Those that the directory did not show are looked at once more: a reading of a directory that changes
 * meanwhile may leave entries out. */
static int look_at_unseen(struct cgroup_tree *tree, struct cgroup *parent)
{
	struct cgroup *next, *added;
	int r;

	for (struct cgroup *c = TAILQ_FIRST(&parent->children); c; c = next) {
		next = TAILQ_NEXT(c, in_parent);
		if (c->seen)
			continue;
		r = look_at(tree, parent, c->name, false, &added);
		if (r < 0)
			return r;
	}
	return 0;
}

static int look_at_new(struct cgroup_tree *tree, struct cgroup *parent, DIR *dir)
{
	const struct dirent *entry;
	struct cgroup *added;
	int error;

	while ((entry = next_directory(dir, &error))) {
		struct cgroup *known = find_child(tree, parent, entry->d_name);
		int r;

		if (known && known->seen)
			continue;
		r = look_at(tree, parent, entry->d_name, entry->d_type == DT_DIR, &added);
		if (r < 0)
			return r;
	}
	return error;
}

/* Those that are gone are reported before those that are new, to make room for them. */
static int compare_entries(struct cgroup_tree *tree, struct cgroup *parent, DIR *dir)
{
	bool others = true;
	int r = 0;

	if (!TAILQ_EMPTY(&parent->children)) {
		r = mark_seen(tree, parent, dir, &others);
		if (r == 0)
			r = look_at_unseen(tree, parent);
		rewinddir(dir);
	}
	return r == 0 && others ? look_at_new(tree, parent, dir) : r;
}

static int read_children(struct cgroup_tree *tree, struct cgroup *parent)
{
	_cleanup_(closep) int fd = -1;
	_cleanup_(closedirp) DIR *dir = NULL;
	struct cgroup *c;
	struct stat st;

	fd = open_cgroup(tree, parent, &st);
	/* Gone: its parent's watch or the next rescan tells. */
	if (fd == -ENOENT || fd == -EACCES)
		return 0;
	if (fd < 0)
		return fd;
	if (parent->watch < 0) {
		set_watch(tree, parent, fd);
		if (fstat(fd, &st) < 0)
			return -errno;
	}

	parent->unread = false;
	tree->stats.left_out -= parent->left_out;
	parent->left_out = 0;
	TAILQ_FOREACH(c, &parent->children, in_parent)
		c->seen = false;
	if (is_leaf(&st))
		return look_at_unseen(tree, parent);

	dir = fdopendir(fd);
	if (!dir)
		return -errno;
	(void)steal_fd(&fd);
	return compare_entries(tree, parent, dir);
}

/* Reads directories from c to the end of the list, where those found on the way are appended: that is
 * breadth-first, and needs no stack. */
static int scan_from(struct cgroup_tree *tree, struct cgroup *c, bool all)
{
	for (; c; c = TAILQ_NEXT(c, in_all)) {
		int r = all || c->unread ? read_children(tree, c) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

static int fail(struct cgroup_tree *tree, int r, struct reason *why)
{
	tree->incomplete = true;
	return reason_set(why, r, "can't read the cgroup tree at %s: %s", tree->mount_path, strerror(-r));
}

/* --- the interface */

int cgroup_tree_new(struct cgroup_tree **ret, const char *mount_path, const struct cgroup_filter *filter,
		    const struct cgroup_observer *observer, struct reason *why)
{
	_cleanup_(cgroup_tree_freep) struct cgroup_tree *tree = calloc(1, sizeof(*tree));
	size_t length = strlen(mount_path);

	if (!tree)
		return reason_set(why, -ENOMEM, "out of memory");
	tree->fd = -1;
	tree->filter = filter ? filter : &admit_nothing;
	tree->observer = *observer;
	tree->limit = CGROUP_TREE_LIMIT;
	TAILQ_INIT(&tree->all);
	while (length && mount_path[length - 1] == '/')
		length--;
	tree->mount_path = strndup(mount_path, length);
	if (!tree->mount_path)
		return reason_set(why, -ENOMEM, "out of memory");

	tree->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (tree->fd < 0)
		complain(tree, errno);

	*ret = steal_ptr(tree);
	return 0;
}

static void keep(_unused_ void *node)
{
}

struct cgroup_tree *cgroup_tree_free(struct cgroup_tree *tree)
{
	struct cgroup *c;

	if (!tree)
		return NULL;
	HASH_CLEAR(hh, tree->by_watch);
	tdestroy(tree->by_name, keep);
	while ((c = TAILQ_FIRST(&tree->all))) {
		TAILQ_REMOVE(&tree->all, c, in_all);
		cgroup_free(c);
	}
	safe_close(tree->fd);
	free(tree->mount_path);
	free(tree);
	return NULL;
}

void cgroup_tree_set_limit(struct cgroup_tree *tree, size_t limit)
{
	tree->limit = limit;
}

/* Looks at the mount itself, which may have been replaced. */
static int look_at_root(struct cgroup_tree *tree)
{
	_cleanup_(closep) int fd = -1;
	struct cgroup *root;
	char where[PATH_MAX];
	struct stat st;
	int r;

	r = locate(tree, NULL, "", where);
	if (r < 0)
		return r;
	fd = open_directory(where, O_RDONLY, &st);
	if (fd < 0)
		return fd;
	if (tree->root && tree->root->identity->id == st.st_ino)
		return 0;

	if (tree->root)
		remove_subtree(tree, tree->root);
	return add(tree, NULL, "", fd, st.st_ino, &root);
}

int cgroup_tree_start(struct cgroup_tree *tree, struct reason *why)
{
	int r;

	r = look_at_root(tree);
	if (r == 0)
		r = scan_from(tree, TAILQ_FIRST(&tree->all), false);
	return r < 0 ? fail(tree, r, why) : 0;
}

int cgroup_tree_fd(const struct cgroup_tree *tree)
{
	return tree->fd;
}

/* An event says that something has happened at name below parent. */
static int follow(struct cgroup_tree *tree, struct cgroup *parent, const char *name, bool expected)
{
	size_t left_out = tree->stats.left_out;
	struct cgroup *added;
	int r;

	r = look_at(tree, parent, name, expected, &added);
	/* What is left out is known as a number only, and a reading may have counted this one before. */
	if (tree->stats.left_out != left_out)
		tree->incomplete = true;
	return r == 0 && added ? scan_from(tree, added, false) : r;
}

static int handle_event(struct cgroup_tree *tree, const struct inotify_event *event)
{
	struct cgroup *c;

	if (event->mask & IN_Q_OVERFLOW) {
		tree->stats.overflows++;
		tree->overflowed = true;
		return 0;
	}

	/* Events of directories removed in the meantime are still in the queue. Watch descriptors are
	 * not used again. */
	HASH_FIND_INT(tree->by_watch, &event->wd, c);
	if (!c)
		return 0;
	if (event->mask & IN_IGNORED) {
		forget_watch(tree, c);
		if (c->parent)
			return follow(tree, c->parent, c->name, false);
		tree->overflowed = true; /* the mount is gone: look again */
		return 0;
	}
	if (!(event->mask & IN_ISDIR) || event->len == 0)
		return 0;
	return follow(tree, c, event->name, event->mask & (IN_CREATE | IN_MOVED_TO));
}

int cgroup_tree_dispatch(struct cgroup_tree *tree, struct reason *why)
{
	alignas(struct inotify_event) char buffer[16 * 1024];
	const struct inotify_event *event;
	size_t handled = 0;
	int failed = 0;

	if (tree->fd < 0)
		return 0;
	while (handled < MAX_EVENTS) {
		ssize_t n = read(tree->fd, buffer, sizeof(buffer));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return failed ? fail(tree, failed, why) : 0;
		if (n < 0)
			return fail(tree, -errno, why);

		for (const char *p = buffer; p < buffer + n; p += sizeof(*event) + event->len) {
			int r;

			event = (const struct inotify_event *)p;
			r = handle_event(tree, event);
			if (r < 0)
				failed = r;
			handled++;
		}
	}
	return failed ? fail(tree, failed, why) : 1;
}

int cgroup_tree_rescan(struct cgroup_tree *tree, struct reason *why)
{
	int r;

	tree->stats.rescans++;
	tree->overflowed = false;
	tree->incomplete = false;
	tree->watches_full = false;

	r = look_at_root(tree);
	if (r == 0)
		r = scan_from(tree, TAILQ_FIRST(&tree->all), true);
	return r < 0 ? fail(tree, r, why) : 0;
}

enum cgroup_rescan cgroup_tree_wants_rescan(const struct cgroup_tree *tree)
{
	if (tree->overflowed)
		return CGROUP_RESCAN_NOW;
	if (tree->incomplete || tree->stats.watches_missing)
		return CGROUP_RESCAN_SOMETIMES;
	return CGROUP_RESCAN_NO;
}

const char *cgroup_tree_problem(const struct cgroup_tree *tree)
{
	return tree->stats.watches_missing && tree->problem.text[0] ? tree->problem.text : NULL;
}

void cgroup_tree_set_filter(struct cgroup_tree *tree, const struct cgroup_filter *filter)
{
	struct cgroup *c;

	tree->filter = filter ? filter : &admit_nothing;
	TAILQ_FOREACH(c, &tree->all, in_all) {
		bool wanted = cgroup_filter_admits(tree->filter, c->identity->label);

		if (wanted == c->wanted)
			continue;
		c->wanted = wanted;
		tree->observer.changed(tree->observer.userdata, c);
	}
}

const struct cgroup_list *cgroup_tree_all(const struct cgroup_tree *tree)
{
	return &tree->all;
}

size_t cgroup_tree_size(const struct cgroup_tree *tree)
{
	return tree->size;
}

struct cgroup_tree_stats cgroup_tree_stats(const struct cgroup_tree *tree)
{
	return tree->stats;
}

int cgroup_open(const struct cgroup_tree *tree, const struct cgroup *cgroup)
{
	struct stat st;

	return open_cgroup(tree, cgroup, &st);
}

int cgroup_usage(const struct cgroup_tree *tree, const struct cgroup *cgroup, uint64_t *usec)
{
	(void)tree;
	(void)cgroup;
	(void)usec;
	return -ENOENT;
}
