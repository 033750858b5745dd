/* SPDX-License-Identifier: MIT */

#include "base/cgroup/tree.h"

#include "base/cgroup/reconcile.h"
#include "base/cgroup/tree-cache.h"
#include "base/util/clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

static const struct cgroup_filter admit_nothing;

/* --- making and freeing */

static void open_inotify(struct cgroup_tree *tree)
{
	tree->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (tree->fd < 0)
		tree_cache_set_problem(tree, errno);
}

static int set_mount_path(struct cgroup_tree *tree, const char *mount_path)
{
	size_t length = strlen(mount_path);
	char *copy;

	while (length && mount_path[length - 1] == '/')
		length--;
	copy = strndup(mount_path, length);
	if (!copy)
		return -ENOMEM;
	free(tree->mount_path);
	tree->mount_path = copy;
	return 0;
}

int cgroup_tree_new(struct cgroup_tree **ret, const char *mount_path, const struct cgroup_filter *filter,
		    const struct cgroup_observer *observer, struct reason *why)
{
	_cleanup_(cgroup_tree_freep) struct cgroup_tree *tree = calloc(1, sizeof(*tree));

	if (!tree)
		return reason_set(why, -ENOMEM, "out of memory");
	tree->fd = -1;
	tree->filter = filter ? filter : &admit_nothing;
	tree->observer = *observer;
	tree->limit = CGROUP_TREE_LIMIT;
	TAILQ_INIT(&tree->all);
	if (set_mount_path(tree, mount_path) < 0)
		return reason_set(why, -ENOMEM, "out of memory");

	open_inotify(tree);
	*ret = steal_ptr(tree);
	return 0;
}

struct cgroup_tree *cgroup_tree_free(struct cgroup_tree *tree)
{
	if (!tree)
		return NULL;
	reconcile_end(tree);
	tree_cache_clear(tree);
	safe_close(tree->fd);
	free(tree->mount_path);
	free(tree);
	return NULL;
}

void cgroup_tree_set_limit(struct cgroup_tree *tree, size_t limit)
{
	tree->limit = limit;
}

void cgroup_tree_set_part(struct cgroup_tree *tree)
{
	assert(!tree->root);
	tree->is_part = true;
}

int cgroup_tree_fd(const struct cgroup_tree *tree)
{
	return tree->fd;
}

/* --- events */

static void handle_event(struct cgroup_tree *tree, const struct inotify_event *event)
{
	struct cgroup *c;

	if (event->mask & IN_Q_OVERFLOW) {
		tree->stats.overflows++;
		tree->rescan_due = tree->lost = true;
		return;
	}

	/* Events of directories that were removed meanwhile are still in the queue. The kernel does not use watch
	 * descriptors again (inotify(7)), so that they find nothing here. */
	c = tree_cache_find_watch(tree, event->wd);
	if (!c)
		return;
	if (event->mask & IN_UNMOUNT) {
		/* The file system is mounted nowhere any more, and all watches went with it; the cgroups may still
		 * exist. */
		tree_cache_forget_watch(tree, c);
		tree->rescan_due = true;
	} else if (event->mask & IN_IGNORED) {
		tree_cache_forget_watch(tree, c);
		if (c->parent)
			reconcile_change(tree, c->parent, c->name, CAUSE_REMOVED);
		else
			tree->rescan_due = true; /* the mount is gone: look again */
	} else if (event->mask & IN_ISDIR && event->len > 0) {
		reconcile_change(tree, c, event->name,
				 event->mask & (IN_CREATE | IN_MOVED_TO) ? CAUSE_CREATED : CAUSE_REMOVED);
	}
}

/* Fills the buffer; false if no event is queued. */
static bool read_events(struct cgroup_tree *tree)
{
	ssize_t n;

	if (tree->fd < 0)
		return false;
	do
		n = read(tree->fd, tree->events, sizeof(tree->events));
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN)
		reconcile_failed(tree, -errno);
	if (n <= 0)
		return false;
	tree->buffers++;
	tree->events_at = 0;
	tree->events_end = (size_t)n;
	return true;
}

static bool event_step(struct cgroup_tree *tree)
{
	const struct inotify_event *event;

	if (tree->events_at == tree->events_end && !read_events(tree))
		return false;
	event = (const struct inotify_event *)(tree->events + tree->events_at);
	tree->events_at += sizeof(*event) + event->len;
	handle_event(tree, event);
	return true;
}

/* --- rescans */

static bool is_rescanning(const struct cgroup_tree *tree)
{
	return tree->at_root || tree->rescan;
}

static void begin_rescan(struct cgroup_tree *tree)
{
	tree->stats.rescans++;
	tree->rescan_due = false;
	tree->after_loss = tree->lost;
	tree->lost = false;
	/* Everything that failed so far is tried again. */
	tree->incomplete = false;
	tree->error = 0;
	tree->watches_full = false;
	tree->unlisted_is_old = true;
	tree->problem.text[0] = '\0'; /* set again if a watch is refused again */
	if (tree->fd < 0)
		open_inotify(tree);
	tree->at_root = true;
	tree->rescan_number = ++tree->readings;
}

static void root_step(struct cgroup_tree *tree)
{
	int r = reconcile_root(tree);

	/* The old root is removed first; then the root is looked at again. */
	if (tree->removal.next)
		return;
	if (r < 0)
		reconcile_failed(tree, r);
	else
		tree->rescan = TAILQ_FIRST(&tree->all);
	tree->at_root = false;
}

/* Directories are read from the first of the list to its end, where the new ones are appended: this is breadth-first,
 * and needs no stack. */
static bool rescan_step(struct cgroup_tree *tree)
{
	struct cgroup *c = tree->rescan;

	if (tree->at_root) {
		root_step(tree);
	} else if (c) {
		tree->rescan = TAILQ_NEXT(c, in_all);
		if (c->read < tree->rescan_number || c->unread)
			reconcile_begin(tree, c);
	} else if (tree->rescan_due) {
		begin_rescan(tree);
	} else {
		return false;
	}
	return true;
}

/* --- the interface */

/* Begun work is finished first; then events and a rescan take turns, so that neither can starve the other. */
static bool do_step(struct cgroup_tree *tree)
{
	if (reconcile_step(tree))
		return true;
	tree->rescan_turn = !tree->rescan_turn;
	return tree->rescan_turn ? rescan_step(tree) || event_step(tree) : event_step(tree) || rescan_step(tree);
}

/* The first error since the last call, which it resets. */
static int take_error(struct cgroup_tree *tree, struct reason *why)
{
	int r = tree->error;

	tree->error = 0;
	if (r < 0)
		reason_set(why, r, "can't read the cgroup tree at %s: %s", tree->mount_path, strerror(-r));
	return r;
}

int cgroup_tree_start(struct cgroup_tree *tree, struct reason *why)
{
	tree->at_root = true;
	while (reconcile_step(tree) || rescan_step(tree))
		;
	tree->started = true;
	return take_error(tree, why);
}

int cgroup_tree_follow(struct cgroup_tree *tree, uint64_t budget, struct reason *why)
{
	uint64_t start = clock_monotonic_ns();

	/* One step at least, so that any budget gets to the end at last. */
	do
		tree->more = do_step(tree);
	while (tree->more && clock_monotonic_ns() - start < budget);
	return tree->more ? 1 : take_error(tree, why);
}

bool cgroup_tree_has_more(const struct cgroup_tree *tree)
{
	return tree->more;
}

void cgroup_tree_rescan(struct cgroup_tree *tree)
{
	if (is_rescanning(tree))
		return;
	tree->rescan_due = tree->more = true;
}

int cgroup_tree_move(struct cgroup_tree *tree, const char *mount_path)
{
	int r = set_mount_path(tree, mount_path);

	/* Also if a rescan goes on: it has looked at the old path. */
	tree->rescan_due = tree->more = true;
	return r;
}

bool cgroup_tree_is_incomplete(const struct cgroup_tree *tree)
{
	return tree->incomplete || tree->stats.watches_missing;
}

const char *cgroup_tree_problem(const struct cgroup_tree *tree)
{
	return tree->stats.watches_missing && tree->problem.text[0] ? tree->problem.text : NULL;
}

const char *cgroup_tree_unlisted(const struct cgroup_tree *tree)
{
	return tree->stats.unlisted && tree->unlisted.text[0] ? tree->unlisted.text : NULL;
}

void cgroup_tree_set_filter(struct cgroup_tree *tree, const struct cgroup_filter *filter)
{
	struct cgroup *c;

	tree->filter = filter ? filter : &admit_nothing;
	/* Names of directories that are left out are not kept: only a reading can find which of them are wanted now. */
	if (tree->stats.left_out)
		cgroup_tree_rescan(tree);
	TAILQ_FOREACH(c, &tree->all, in_all) {
		bool wanted = cgroup_filter_admits(tree->filter, c->identity->label);

		if (wanted == c->wanted)
			continue;
		c->wanted = wanted;
		tree->observer.changed(tree->observer.userdata, c);
	}
}

const struct cgroup *cgroup_parent(const struct cgroup *cgroup)
{
	return cgroup->parent;
}

struct cgroup_ancestors cgroup_ancestors(const struct cgroup *cgroup)
{
	struct cgroup_ancestors ret = {};

	for (cgroup = cgroup->parent; cgroup; cgroup = cgroup->parent) {
		if (ret.nr < CGROUP_ANCESTORS_MAX)
			ret.ids[ret.nr] = cgroup->identity->id;
		ret.nr++;
	}
	return ret;
}

const struct cgroup_list *cgroup_tree_all(const struct cgroup_tree *tree)
{
	return &tree->all;
}

size_t cgroup_tree_size(const struct cgroup_tree *tree)
{
	return tree->size;
}

const struct cgroup *cgroup_tree_find(const struct cgroup_tree *tree, uint64_t id)
{
	return tree_cache_find_id(tree, id);
}

struct cgroup_tree_stats cgroup_tree_stats(const struct cgroup_tree *tree)
{
	return tree->stats;
}

int cgroup_open(const struct cgroup_tree *tree, const struct cgroup *cgroup)
{
	struct stat st;

	return reconcile_open(tree, cgroup, O_RDONLY, &st);
}
