/* SPDX-License-Identifier: MIT */

#include "target/mirror.h"

#include "util/text.h"

#include <errno.h>
#include <search.h>
#include <string.h>

/* What a directory tells about those in it. Its own removal comes as IN_IGNORED without being asked. */
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

static int compare_names(const void *a, const void *b)
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

struct cgroup *mirror_find(const struct cgroup_tree *tree, struct cgroup *parent, const char *name)
{
	struct cgroup key = { .parent = parent, .name = name };
	void *node = tfind(&key, &tree->by_name, compare_names);

	return node ? *(struct cgroup **)node : NULL;
}

struct cgroup *mirror_find_watch(const struct cgroup_tree *tree, int watch)
{
	struct cgroup key = { .watch = watch };
	void *node = tfind(&key, &tree->by_watch, compare_watches);

	return node ? *(struct cgroup **)node : NULL;
}

/* --- watches */

void mirror_complain(struct cgroup_tree *tree, int error)
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
void mirror_watch(struct cgroup_tree *tree, struct cgroup *c, int fd)
{
	char link[sizeof("/proc/self/fd/") + 11];
	int wd;

	if (tree->fd < 0 || tree->watches_full)
		return;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	wd = inotify_add_watch(tree->fd, link, WATCHED);
	if (wd < 0) {
		tree->watches_full = errno == ENOSPC || errno == ENOMEM;
		mirror_complain(tree, errno);
		return;
	}

	if (mirror_find_watch(tree, wd))
		return;
	c->watch = wd;
	if (!tsearch(c, &tree->by_watch, compare_watches)) {
		c->watch = -1;
		(void)inotify_rm_watch(tree->fd, wd);
		tree->watches_full = true;
		mirror_complain(tree, ENOMEM);
		return;
	}
	tree->stats.watches++;
	tree->stats.watches_missing--;
}

void mirror_forget_watch(struct cgroup_tree *tree, struct cgroup *c)
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
	mirror_forget_watch(tree, c);
}

/* --- removing */

static void remove_one(struct cgroup_tree *tree, struct cgroup *c)
{
	drop_watch(tree, c);
	if (c->parent && c->due && !c->told)
		c->parent->ahead += c->wanted;
	(void)tdelete(c, &tree->by_name, compare_names);
	/* Those who were about to come here go on behind it. */
	if (tree->fresh == c)
		tree->fresh = TAILQ_NEXT(c, in_all);
	if (tree->rescan == c)
		tree->rescan = TAILQ_NEXT(c, in_all);
	TAILQ_REMOVE(&tree->all, c, in_all);
	if (c->parent)
		TAILQ_REMOVE(&c->parent->children, c, in_parent);
	else
		tree->root = NULL;
	tree->size--;
	tree->stats.watches_missing--;
	mirror_leave_none_out(tree, c);

	tree->observer.removed(tree->observer.userdata, c);
	cgroup_free(c);
}

void mirror_doom(struct cgroup_tree *tree, struct cgroup *top)
{
	tree->doomed.top = tree->doomed.next = top;
}

/* Children first; without recursion, since others choose the depth. */
bool mirror_remove_step(struct cgroup_tree *tree)
{
	struct cgroup *c = tree->doomed.next;

	if (!c)
		return false;
	while (!TAILQ_EMPTY(&c->children))
		c = TAILQ_FIRST(&c->children);
	tree->doomed.next = c == tree->doomed.top ? NULL : c->parent;
	remove_one(tree, c);
	return true;
}

static void keep(_unused_ void *node)
{
}

void mirror_clear(struct cgroup_tree *tree)
{
	struct cgroup *c;

	tdestroy(tree->by_watch, keep);
	tdestroy(tree->by_name, keep);
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

bool mirror_would_want(const struct cgroup_tree *tree, const struct cgroup *parent, const char *name)
{
	_cleanup_(freep) char *path = NULL, *label = NULL;

	if (make_path(&path, parent, name) < 0)
		return true;
	label = utf8_printable(path);
	return !label || cgroup_filter_admits(tree->filter, label);
}

/* --- what is left out is known as a number only, with one example */

/* Of a path that is too long, the beginning tells enough. */
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
		   why == -EACCES	? "it may not be looked at, for want of permission" :
					  "there are more cgroups than are followed");
}

void mirror_leave_out(struct cgroup_tree *tree, struct cgroup *parent, const char *name, int why)
{
	parent->left_out++;
	tree->stats.left_out++;
	if (!mirror_would_want(tree, parent, name))
		return;
	remember_example(tree, parent, name, why);
	parent->unlisted++;
	tree->stats.unlisted++;
}

void mirror_leave_out_all(struct cgroup_tree *tree, struct cgroup *parent, unsigned nr)
{
	mirror_leave_none_out(tree, parent);
	parent->left_out = nr;
	tree->stats.left_out += nr;
	if (nr == 0 || !mirror_would_want(tree, parent, "…"))
		return;
	remember_example(tree, parent, "…", -EACCES);
	parent->unlisted = nr;
	tree->stats.unlisted += nr;
}

void mirror_leave_in(struct cgroup_tree *tree, struct cgroup *parent, const char *name)
{
	if (parent->left_out == 0)
		return;
	parent->left_out--;
	tree->stats.left_out--;
	if (parent->unlisted == 0 || !mirror_would_want(tree, parent, name))
		return;
	parent->unlisted--;
	tree->stats.unlisted--;
}

void mirror_leave_none_out(struct cgroup_tree *tree, struct cgroup *parent)
{
	tree->stats.left_out -= parent->left_out;
	tree->stats.unlisted -= parent->unlisted;
	parent->left_out = parent->unlisted = 0;
}

/* The path is the label where that needs no escaping, which is nearly everywhere. */
static int name_it(const struct cgroup_tree *tree, struct cgroup *c, const char *name, uint64_t id)
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

	if (strcmp(c->path, c->identity->label) == 0) {
		free((char *)c->path);
		c->path = c->identity->label;
	}
	c->name = strrchr(c->path, '/') + 1;
	return 0;
}

static void link_it(struct cgroup_tree *tree, struct cgroup *c)
{
	TAILQ_INSERT_TAIL(&tree->all, c, in_all);
	if (c->parent)
		TAILQ_INSERT_TAIL(&c->parent->children, c, in_parent);
	else
		tree->root = c;
	tree->size++;
	tree->stats.watches_missing++;
}

int mirror_add(struct cgroup_tree *tree, struct cgroup *parent, const char *name, int fd, uint64_t id,
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
	r = name_it(tree, new, name, id);
	if (r < 0)
		return r;
	new->wanted = cgroup_filter_admits(tree->filter, new->identity->label);
	if (!tsearch(new, &tree->by_name, compare_names))
		return -ENOMEM;

	c = steal_ptr(new);
	link_it(tree, c);
	/* Watched before it is looked into. */
	mirror_watch(tree, c, fd);
	tree->observer.added(tree->observer.userdata, c);
	*ret = c;
	return 0;
}
