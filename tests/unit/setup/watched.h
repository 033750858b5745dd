/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A cgroup tree over a folder of the test's own, whose reports are written down: "+/a" added, "-/a"
 * removed, "~/a" changed, one a line. Every report is checked for what holds always.
 */

#include "base/cgroup/tree.h"
#include "base/util/buf.h"
#include "setup/scratch.h"

struct watched {
	struct scratch scratch;
	struct cgroup_tree *tree;
	struct buf log;
	struct reason why;
	uint64_t budget; /* of a call of cgroup_tree_follow(): UINT64_MAX, or 0 for a step each */
};

/* For main(): runs tests of trees which may work to the end, and the same tests in steps. */
#define watched_run(name, tests)                                                                                       \
	(watched_set_budget(UINT64_MAX), cmocka_run_group_tests_name(name, tests, NULL, NULL)) |                       \
		(watched_set_budget(0), cmocka_run_group_tests_name(name "-steps", tests, NULL, NULL))
/* Of trees that are made from then on. */
void watched_set_budget(uint64_t budget);

extern const struct cgroup_filter admit_all;

/* Makes the folder, and the tree, which has not been read yet. */
void watched_make(struct watched *watched);
void watched_free(struct watched *watched);

/* Makes only the tree, over a folder that is there. */
void watched_open(struct watched *watched, const char *path, const struct cgroup_filter *filter);

/* The first reading, and later ones, which have to succeed. */
void watched_start(struct watched *watched);
void watched_rescan(struct watched *watched);

/* In the folder. */
void watched_mkdir(const struct watched *watched, const char *name);
void watched_rmdir(const struct watched *watched, const char *name);
void watched_rename(const struct watched *watched, const char *from, const char *to);
/* Removes a directory and makes another of that name. Where inode numbers are used again at once, it could
 * be taken for the old one; cgroup ids are not. */
void watched_remake(const struct watched *watched, const char *name);

/* One of many operations in the folder, at random, which often fails, as there is nothing there or something is;
 * whether it did something. */
bool watched_change(const struct watched *watched, unsigned *random);
unsigned watched_draw(unsigned *random, unsigned below);

/* Takes all events that are waiting, and does what is due; what cgroup_tree_follow() said at last. */
int watched_try(struct watched *watched);
/* … which has to succeed. */
void watched_follow(struct watched *watched);

/* Fails the test where the reports since the last call were not these. */
#define watched_expect(watched, expected) watched_expect_at(watched, expected, __LINE__)
void watched_expect_at(struct watched *watched, const char *expected, int line);
void watched_forget(struct watched *watched);

/* Fails the test where the tree is not what the folder at path is: the same directories with the same ids,
 * by which it finds them, parents before children, and as many watches as the kernel has. */
void watched_compare(const struct watched *watched, const char *path);
/* … with the test's folder. */
void watched_check(const struct watched *watched);

struct cgroup *watched_find(const struct watched *watched, const char *path);
