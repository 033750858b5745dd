/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reconciles the tree cache with the directories: one name, or one directory's entries. It looks at what is there now,
 * whatever the cause was, so that late and doubled events do no harm.
 */

#include "base/cgroup/tree-cache.h"

#include <sys/stat.h>

/* Notes that something could not be looked at: negative errno. */
void reconcile_failed(struct cgroup_tree *tree, int error);

/* An fd for the cgroup's directory, with flags such as O_PATH; -ENOENT if it is gone. */
int reconcile_open(const struct cgroup_tree *tree, const struct cgroup *c, int flags, struct stat *st);

/* Looks at the mount's top directory. If it is another one than before, the removal of the old root begins, and this
 * has to be called again after it. */
int reconcile_root(struct cgroup_tree *tree);

/* Reconciles one name below parent, for an event. */
void reconcile_change(struct cgroup_tree *tree, struct cgroup *parent, const char *name, enum cause cause);

/* Begins to read a directory; ends the reading, done or not. */
void reconcile_begin(struct cgroup_tree *tree, struct cgroup *c);
void reconcile_end(struct cgroup_tree *tree);

/* One step of a removal or reading that has begun; false if there is none. */
bool reconcile_step(struct cgroup_tree *tree);
