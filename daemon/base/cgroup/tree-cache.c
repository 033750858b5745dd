/* SPDX-License-Identifier: MIT */

#include "base/cgroup/tree-cache.h"

#include "base/util/clock.h"
#include "base/util/text.h"

#include <assert.h>
#include <errno.h>
#include <search.h>
#include <string.h>

/* Events about the entries of a directory. Its own removal comes as IN_IGNORED, which need not be asked for. */
#define WATCHED (IN_ONLYDIR | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)

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

static int compare_cgroup_names(const void *a, const void *b)
{
	const struct cgroup *x = a, *y = b;

	if (x->parent != y->parent)
		return (uintptr_t)x->parent < (uintptr_t)y->parent ? -1 : 1;
	return strcmp(x->name, y->name);
}

static int compare_watches(const void *a, const void *b)
{
	const struct cgroup *x = a, *y = b;

	return (x->watch > y->watch) - (x->watch < y->watch);
}

static int compare_ids(const void *a, const void *b)
{
	const struct cgroup *x = a, *y = b;

	return (x->identity->id > y->identity->id) - (x->identity->id < y->identity->id);
}

/* Two can have one id (cgroup.h). */
static int compare_identities(const void *a, const void *b)
{
	int order = compare_ids(a, b);

	return order ? order : ((uintptr_t)a > (uintptr_t)b) - ((uintptr_t)a < (uintptr_t)b);
}

struct cgroup *tree_cache_find(const struct cgroup_tree *tree, struct cgroup *parent, const char *name)
{
	struct cgroup key = { .parent = parent, .name = name };
	void *node = tfind(&key, &tree->by_name, compare_cgroup_names);

	return node ? *(struct cgroup **)node : NULL;
}

struct cgroup *tree_cache_find_watch(const struct cgroup_tree *tree, int watch)
{
	struct cgroup key = { .watch = watch };
	void *node = tfind(&key, &tree->by_watch, compare_watches);

	return node ? *(struct cgroup **)node : NULL;
}

struct cgroup *tree_cache_find_id(const struct cgroup_tree *tree, uint64_t id)
{
	struct cgroup_identity identity = { .id = id };
	struct cgroup key = { .identity = &identity };
	void *node = tfind(&key, &tree->by_id, compare_ids);

	return node ? *(struct cgroup **)node : NULL;
}

/* --- watches */

void tree_cache_set_problem(struct cgroup_tree *tree, int error)
{
	const char *until = "until then changes of the cgroup tree are found by rescans";

	switch (error) {
	case ENOSPC:
		reason_set(&tree->problem, 0, "inotify watches have run out: raise fs.inotify.max_user_watches; %s",
			   until);
		break;
	case EMFILE:
		reason_set(&tree->problem, 0,
			   "cannot create an inotify instance: raise fs.inotify.max_user_instances or the limit "
			   "of open files; %s",
			   until);
		break;
	default:
		reason_set(&tree->problem, 0,
			   "can't watch the cgroup tree with inotify (%s): changes are found by rescans",
			   strerror(error));
	}
}

/*
 * Watches by the fd, since another directory may be at the path by now. A directory can be known at two places: if it
 * was moved, and the old place has not been looked at yet, or by a bind mount. It has one watch descriptor then, which
 * stays with the place that was known first.
 */
void tree_cache_watch(struct cgroup_tree *tree, struct cgroup *c, int fd)
{
	char link[sizeof("/proc/self/fd/") + 11];
	int wd;

	if (tree->fd < 0 || tree->watches_full)
		return;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	wd = inotify_add_watch(tree->fd, link, WATCHED);
	if (wd < 0) {
		tree->watches_full = errno == ENOSPC || errno == ENOMEM;
		tree_cache_set_problem(tree, errno);
		return;
	}

	if (tree_cache_find_watch(tree, wd))
		return;
	c->watch = wd;
	if (!tsearch(c, &tree->by_watch, compare_watches)) {
		c->watch = -1;
		(void)inotify_rm_watch(tree->fd, wd);
		tree->watches_full = true;
		tree_cache_set_problem(tree, ENOMEM);
		return;
	}
	tree->stats.watches++;
	tree->stats.watches_missing--;
}

void tree_cache_forget_watch(struct cgroup_tree *tree, struct cgroup *c)
{
	if (c->watch < 0)
		return;
	(void)tdelete(c, &tree->by_watch, compare_watches);
	c->watch = -1;
	tree->stats.watches--;
	tree->stats.watches_missing++;
}

static void drop_watch(struct cgroup_tree *tree, struct cgroup *c)
{
	/* A removed directory that is held open can keep its watch. */
	if (c->watch >= 0)
		(void)inotify_rm_watch(tree->fd, c->watch);
	tree_cache_forget_watch(tree, c);
}

/* --- removing */

static void remove_cgroup(struct cgroup_tree *tree, struct cgroup *c)
{
	drop_watch(tree, c);
	/* Its create event still comes, and has to find something that waits for it. */
	if (c->parent && c->create_queued && !c->create_seen)
		c->parent->pending_creates += c->wanted;
	(void)tdelete(c, &tree->by_name, compare_cgroup_names);
	(void)tdelete(c, &tree->by_id, compare_identities);
	/* Walks that would have come here next go on behind it. */
	if (tree->unread_from == c)
		tree->unread_from = TAILQ_NEXT(c, in_all);
	if (tree->rescan == c)
		tree->rescan = TAILQ_NEXT(c, in_all);
	TAILQ_REMOVE(&tree->all, c, in_all);
	if (c->parent)
		TAILQ_REMOVE(&c->parent->children, c, in_parent);
	else
		tree->root = NULL;
	tree->size--;
	tree->stats.watches_missing--;
	tree_cache_reset_left_out(tree, c);

	tree->observer.removed(tree->observer.userdata, c);
	cgroup_free(c);
}

void tree_cache_begin_removal(struct cgroup_tree *tree, struct cgroup *top)
{
	assert(!tree->removal.next);
	tree->removal.top = tree->removal.next = top;
}

/* Children first; without recursion, since users choose the depth. */
bool tree_cache_remove_step(struct cgroup_tree *tree)
{
	struct cgroup *c = tree->removal.next;

	if (!c)
		return false;
	while (!TAILQ_EMPTY(&c->children))
		c = TAILQ_FIRST(&c->children);
	tree->removal.next = c == tree->removal.top ? NULL : c->parent;
	remove_cgroup(tree, c);
	return true;
}

static void free_nothing(_unused_ void *node)
{
}

void tree_cache_clear(struct cgroup_tree *tree)
{
	struct cgroup *c;

	tdestroy(tree->by_watch, free_nothing);
	tdestroy(tree->by_name, free_nothing);
	tdestroy(tree->by_id, free_nothing);
	while ((c = TAILQ_FIRST(&tree->all))) {
		TAILQ_REMOVE(&tree->all, c, in_all);
		cgroup_free(c);
	}
}

/* --- adding */

static int make_path(char **ret, const struct cgroup *parent, const char *name)
{
	if (asprintf(ret, "%s/%s", parent && parent->parent ? parent->path : "", name) < 0) {
		*ret = NULL;
		return -ENOMEM;
	}
	return 0;
}

bool tree_cache_would_want(const struct cgroup_tree *tree, const struct cgroup *parent, const char *name)
{
	_cleanup_(freep) char *path = NULL, *label = NULL;

	if (make_path(&path, parent, name) < 0)
		return true;
	label = utf8_printable(path);
	return !label || cgroup_filter_admits(tree->filter, label);
}

/* --- left out */

/* Bytes of the example: a path can be too long to show. */
#define EXAMPLE_MAX 200

static void remember_example(struct cgroup_tree *tree, const struct cgroup *parent, const char *name, int why)
{
	_cleanup_(freep) char *path = NULL, *label = NULL;
	size_t length;

	if (tree->stats.unlisted && tree->unlisted.text[0] && !tree->unlisted_is_old)
		return;
	if (make_path(&path, parent, name) < 0 || !(label = utf8_printable(path)))
		return;
	for (length = 0; label[length] && length + utf8_length(label + length) <= EXAMPLE_MAX;)
		length += utf8_length(label + length);
	tree->unlisted_is_old = false;
	reason_set(&tree->unlisted, 0, "%.*s%s: %s", (int)length, label, label[length] ? "…" : "",
		   why == -ENAMETOOLONG ? "its path is longer than the kernel takes (PATH_MAX)" :
		   why == -EACCES	? "no permission to look at it" :
					  "there are more cgroups than are followed");
}

void tree_cache_leave_out(struct cgroup_tree *tree, struct cgroup *parent, const char *name, int why)
{
	parent->left_out++;
	tree->stats.left_out++;
	if (!tree_cache_would_want(tree, parent, name))
		return;
	remember_example(tree, parent, name, why);
	parent->unlisted++;
	tree->stats.unlisted++;
}

void tree_cache_leave_out_all(struct cgroup_tree *tree, struct cgroup *parent, unsigned nr)
{
	tree_cache_reset_left_out(tree, parent);
	parent->left_out = nr;
	tree->stats.left_out += nr;
	if (nr == 0 || !tree_cache_would_want(tree, parent, "…"))
		return;
	remember_example(tree, parent, "…", -EACCES);
	parent->unlisted = nr;
	tree->stats.unlisted += nr;
}

void tree_cache_forget_left_out(struct cgroup_tree *tree, struct cgroup *parent, const char *name)
{
	if (parent->left_out == 0)
		return;
	parent->left_out--;
	tree->stats.left_out--;
	if (parent->unlisted == 0 || !tree_cache_would_want(tree, parent, name))
		return;
	parent->unlisted--;
	tree->stats.unlisted--;
}

void tree_cache_reset_left_out(struct cgroup_tree *tree, struct cgroup *parent)
{
	tree->stats.left_out -= parent->left_out;
	tree->stats.unlisted -= parent->unlisted;
	parent->left_out = parent->unlisted = 0;
}

/* Nearly every path needs no escaping: label and path share one string then. */
static int set_names(const struct cgroup_tree *tree, struct cgroup *c, const char *name, uint64_t id)
{
	int r;

	r = make_path((char **)&c->path, c->parent, name);
	if (r < 0)
		return r;
	if (!c->parent && tree->is_part)
		r = cgroup_identity_of_label(&c->identity, id, CGROUP_PART_LABEL);
	else
		r = cgroup_identity_new(&c->identity, id, c->path);
	if (r < 0)
		return r;
	c->identity->found_at = tree->started ? clock_monotonic_ns() : 0;

	if (strcmp(c->path, c->identity->label) == 0) {
		free((char *)c->path);
		c->path = c->identity->label;
	}
	c->name = strrchr(c->path, '/') + 1;
	return 0;
}

static void link_cgroup(struct cgroup_tree *tree, struct cgroup *c)
{
	TAILQ_INSERT_TAIL(&tree->all, c, in_all);
	if (c->parent)
		TAILQ_INSERT_TAIL(&c->parent->children, c, in_parent);
	else
		tree->root = c;
	tree->size++;
	tree->stats.watches_missing++;
}

int tree_cache_add(struct cgroup_tree *tree, struct cgroup *parent, const char *name, int fd, uint64_t id,
		   struct cgroup **ret)
{
	_cleanup_(cgroup_freep) struct cgroup *new = calloc(1, sizeof(*new));
	struct cgroup *c;
	int r;

	if (!new)
		return -ENOMEM;
	new->watch = -1;
	new->parent = parent;
	new->depth = parent ? parent->depth + 1 : 0;
	new->seen = new->read = tree->readings;
	TAILQ_INIT(&new->children);
	r = set_names(tree, new, name, id);
	if (r < 0)
		return r;
	new->wanted = cgroup_filter_admits(tree->filter, new->identity->label);
	if (!tsearch(new, &tree->by_name, compare_cgroup_names))
		return -ENOMEM;
	if (!tsearch(new, &tree->by_id, compare_identities)) {
		(void)tdelete(new, &tree->by_name, compare_cgroup_names);
		return -ENOMEM;
	}

	c = steal_ptr(new);
	link_cgroup(tree, c);
	/* Before it is read, so that nothing made in between is missed. */
	tree_cache_watch(tree, c, fd);
	tree->observer.added(tree->observer.userdata, c);
	*ret = c;
	return 0;
}
