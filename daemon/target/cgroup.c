/* SPDX-License-Identifier: MIT */

#include "target/cgroup.h"

#include "target/mirror.h"
#include "util/glob.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

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

/* --- making and freeing */

static void open_inotify(struct cgroup_tree *tree)
{
	tree->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (tree->fd < 0)
		mirror_complain(tree, errno);
}

/* Without a slash at its end. */
static int set_path(struct cgroup_tree *tree, const char *mount_path)
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
	if (set_path(tree, mount_path) < 0)
		return reason_set(why, -ENOMEM, "out of memory");

	open_inotify(tree);
	*ret = steal_ptr(tree);
	return 0;
}

struct cgroup_tree *cgroup_tree_free(struct cgroup_tree *tree)
{
	if (!tree)
		return NULL;
	look_end(tree);
	mirror_clear(tree);
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

	/* Events of directories removed in the meantime are still in the queue. Watch descriptors are
	 * not used again. */
	c = mirror_find_watch(tree, event->wd);
	if (!c)
		return;
	if (event->mask & IN_UNMOUNT) {
		/* The file system is gone from everywhere, and all watches with it; the cgroups need not be. */
		mirror_forget_watch(tree, c);
		tree->rescan_due = true;
	} else if (event->mask & IN_IGNORED) {
		mirror_forget_watch(tree, c);
		if (c->parent)
			look_at_change(tree, c->parent, c->name, CAUSE_REMOVED);
		else
			tree->rescan_due = true; /* the mount is gone: look again */
	} else if (event->mask & IN_ISDIR && event->len > 0) {
		look_at_change(tree, c, event->name,
			       event->mask & (IN_CREATE | IN_MOVED_TO) ? CAUSE_MADE : CAUSE_REMOVED);
	}
}

/* Fills the buffer; false where there is nothing to be had. */
static bool read_events(struct cgroup_tree *tree)
{
	ssize_t n;

	if (tree->fd < 0)
		return false;
	do
		n = read(tree->fd, tree->events, sizeof(tree->events));
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN)
		look_failed(tree, -errno);
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
	/* It makes up for what failed so far. */
	tree->incomplete = false;
	tree->error = 0;
	tree->watches_full = false;
	tree->unlisted_is_old = true;
	tree->problem.text[0] = '\0'; /* what is refused again says so */
	if (tree->fd < 0)
		open_inotify(tree);
	tree->at_root = true;
	tree->due = ++tree->readings;
}

static void root_step(struct cgroup_tree *tree)
{
	int r = look_at_root(tree);

	/* What was there before goes first. */
	if (tree->doomed.next)
		return;
	if (r < 0)
		look_failed(tree, r);
	else
		tree->rescan = TAILQ_FIRST(&tree->all);
	tree->at_root = false;
}

/* Directories are read from the first of the list to the end, where those found on the way are appended: that
 * is breadth-first, and needs no stack. */
static bool rescan_step(struct cgroup_tree *tree)
{
	struct cgroup *c = tree->rescan;

	if (tree->at_root) {
		root_step(tree);
	} else if (c) {
		tree->rescan = TAILQ_NEXT(c, in_all);
		if (c->read < tree->due || c->unread)
			look_into(tree, c);
	} else if (tree->rescan_due) {
		begin_rescan(tree);
	} else {
		return false;
	}
	return true;
}

/* --- the interface */

/* What has been begun is brought to its end first; then events and a rescan take turns, so that neither
 * can keep the other from getting on. */
static bool step(struct cgroup_tree *tree)
{
	if (look_step(tree))
		return true;
	tree->rescan_turn = !tree->rescan_turn;
	return tree->rescan_turn ? rescan_step(tree) || event_step(tree) : event_step(tree) || rescan_step(tree);
}

static int tell(struct cgroup_tree *tree, struct reason *why)
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
	while (look_step(tree) || rescan_step(tree))
		;
	return tell(tree, why);
}

static uint64_t now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

int cgroup_tree_follow(struct cgroup_tree *tree, uint64_t budget, struct reason *why)
{
	uint64_t start = now();

	do
		tree->more = step(tree);
	while (tree->more && now() - start < budget);
	return tree->more ? 1 : tell(tree, why);
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
	int r = set_path(tree, mount_path);

	/* One that goes on has looked at the other path. */
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
	/* Which of those left out are wanted is told by reading again: their names are not kept. */
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

	return look_open(tree, cgroup, O_RDONLY, &st);
}
