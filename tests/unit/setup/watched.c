/* SPDX-License-Identifier: MIT */

#include "setup/watched.h"

#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char *const everything[] = { (char *)"**" };
static uint64_t budget_of_next = UINT64_MAX;
const struct cgroup_filter admit_all = { .include = everything, .nr_include = 1 };

static void write_down(struct watched *watched, char kind, const struct cgroup *c)
{
	buf_char(&watched->log, kind);
	buf_str(&watched->log, c->path);
	buf_char(&watched->log, '\n');
}

static void added(void *userdata, struct cgroup *c)
{
	/* New to its owner, and after its parent. */
	assert_int_equal(c->status, 0);
	assert_null(c->why);
	assert_true(!c->parent || c->parent->status == 1);
	assert_int_equal(c->depth, c->parent ? c->parent->depth + 1 : 0);
	c->status = 1;
	c->why = strdup("freed by the tree");
	write_down(userdata, '+', c);
}

static void removed(void *userdata, struct cgroup *c)
{
	struct watched *watched = userdata;
	struct cgroup *other;

	/* Known to its owner, after its children, and out of the lists. */
	assert_int_equal(c->status, 1);
	assert_true(TAILQ_EMPTY(&c->children));
	if (cgroup_tree_size(watched->tree) < 100)
		TAILQ_FOREACH(other, cgroup_tree_all(watched->tree), in_all)
			assert_ptr_not_equal(other, c);
	write_down(watched, '-', c);
}

static void changed(void *userdata, struct cgroup *c)
{
	assert_int_equal(c->status, 1);
	write_down(userdata, '~', c);
}

void watched_set_budget(uint64_t budget)
{
	budget_of_next = budget;
}

void watched_open(struct watched *watched, const char *path, const struct cgroup_filter *filter)
{
	const struct cgroup_observer observer = {
		.added = added, .removed = removed, .changed = changed, .userdata = watched
	};

	watched->budget = budget_of_next;
	assert_int_equal(cgroup_tree_new(&watched->tree, path, filter, &observer, &watched->why), 0);
}

void watched_make(struct watched *watched)
{
	*watched = (struct watched){};
	scratch_make(&watched->scratch);
	watched_open(watched, watched->scratch.path, &admit_all);
}

void watched_free(struct watched *watched)
{
	cgroup_tree_free(watched->tree);
	buf_release(&watched->log);
	scratch_remove(&watched->scratch);
}

void watched_start(struct watched *watched)
{
	assert_int_equal(cgroup_tree_start(watched->tree, &watched->why), 0);
}

void watched_rescan(struct watched *watched)
{
	cgroup_tree_rescan(watched->tree);
	watched_follow(watched);
}

void watched_mkdir(const struct watched *watched, const char *name)
{
	scratch_mkdir(&watched->scratch, name);
}

void watched_rmdir(const struct watched *watched, const char *name)
{
	scratch_rmdir(&watched->scratch, name);
}

void watched_rename(const struct watched *watched, const char *from, const char *to)
{
	const struct scratch *scratch = &watched->scratch;

	assert_int_equal(rename(scratch_path(scratch, from), scratch_path(scratch, to)), 0);
}

void watched_remake(const struct watched *watched, const char *name)
{
	watched_mkdir(watched, "new");
	watched_rmdir(watched, name);
	watched_rename(watched, "new", name);
}

int watched_try(struct watched *watched)
{
	int r;

	do {
		r = cgroup_tree_follow(watched->tree, watched->budget, &watched->why);
		assert_true(r <= 1);
		assert_int_equal(cgroup_tree_has_more(watched->tree), r == 1);
	} while (r == 1);
	return r;
}

void watched_follow(struct watched *watched)
{
	assert_int_equal(watched_try(watched), 0);
}

void watched_expect_at(struct watched *watched, const char *expected, int line)
{
	buf_char(&watched->log, '\0');
	assert_false(watched->log.failed);
	if (strcmp(watched->log.data, expected))
		fail_msg("line %d: reported\n%sinstead of\n%s", line, watched->log.data, expected);
	watched_forget(watched);
}

void watched_forget(struct watched *watched)
{
	watched->log.len = 0;
}

static size_t count_directories(const char *path)
{
	char *roots[] = { (char *)path, NULL };
	FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOSTAT, NULL);
	FTSENT *entry;
	size_t nr = 0;

	assert_non_null(walk);
	while ((entry = fts_read(walk)))
		nr += entry->fts_info == FTS_D;
	fts_close(walk);
	return nr;
}

/* The kernel has the watches that the tree thinks it has (proc(5), fdinfo). */
static void compare_watches(const struct watched *watched)
{
	char path[64], line[256];
	size_t nr = 0;
	FILE *f;

	if (cgroup_tree_fd(watched->tree) < 0)
		return;
	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", cgroup_tree_fd(watched->tree));
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		nr += strncmp(line, "inotify wd:", 11) == 0;
	fclose(f);
	assert_int_equal(nr, cgroup_tree_stats(watched->tree).watches);
	assert_int_equal(cgroup_tree_size(watched->tree) - nr, cgroup_tree_stats(watched->tree).watches_missing);
}

void watched_compare(const struct watched *watched, const char *path)
{
	const struct cgroup *found;
	struct cgroup *c;
	size_t nr = 0;

	/* For what stands before it in the list. */
	TAILQ_FOREACH(c, cgroup_tree_all(watched->tree), in_all)
		c->status = 2;
	TAILQ_FOREACH(c, cgroup_tree_all(watched->tree), in_all) {
		char where[PATH_MAX];
		struct stat st;

		(void)snprintf(where, sizeof(where), "%s%s", path, c->path);
		if (lstat(where, &st) < 0 || !S_ISDIR(st.st_mode))
			fail_msg("%s is in the tree and not in the folder", c->path);
		if (st.st_ino != c->identity->id)
			fail_msg("%s is another directory by now", c->path);
		found = cgroup_tree_find(watched->tree, c->identity->id);
		assert_true(found && found->identity->id == c->identity->id);
		assert_true(!c->parent || c->parent->status == 1);
		c->status = 1;
		nr++;
	}
	assert_int_equal(nr, cgroup_tree_size(watched->tree));
	assert_int_equal(nr, count_directories(path));
	compare_watches(watched);
}

void watched_check(const struct watched *watched)
{
	watched_compare(watched, watched->scratch.path);
}

struct cgroup *watched_find(const struct watched *watched, const char *path)
{
	struct cgroup *c;

	TAILQ_FOREACH(c, cgroup_tree_all(watched->tree), in_all)
		if (strcmp(c->path, path) == 0)
			return c;
	return NULL;
}

unsigned watched_draw(unsigned *random, unsigned below)
{
	*random = *random * 1103515245 + 12345;
	return (*random >> 16) % below;
}

static void random_path(unsigned *random, char path[16])
{
	unsigned depth = 1 + watched_draw(random, 1 + watched_draw(random, 4));

	for (unsigned i = 0; i < depth; i++) {
		path[i * 2] = (char)('a' + watched_draw(random, 3));
		path[i * 2 + 1] = i + 1 < depth ? '/' : '\0';
	}
}

bool watched_change(const struct watched *watched, unsigned *random)
{
	char from[16], to[16];
	struct scratch below;

	random_path(random, from);
	random_path(random, to);
	switch (watched_draw(random, 20)) {
	case 0 ... 9:
		return mkdir(scratch_path(&watched->scratch, from), 0755) == 0;
	case 10 ... 13:
		return rmdir(scratch_path(&watched->scratch, from)) == 0;
	case 14:
		if (strlen(scratch_path(&watched->scratch, from)) >= sizeof(below.path) ||
		    access(scratch_path(&watched->scratch, from), F_OK) < 0)
			return false;
		strcpy(below.path, scratch_path(&watched->scratch, from));
		scratch_remove(&below);
		return true;
	default:
		return rename(scratch_path(&watched->scratch, from), scratch_path(&watched->scratch, to)) == 0;
	}
}
