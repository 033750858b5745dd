/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Finds the names of containers whose cgroups are in the tree, and puts them to the cgroups' identities: namespace,
 * pod, container and image of a cgroup in a container, and the first two of its pod's cgroup.
 *
 * A child looks for the files (container-child.h), for some containers at a time, so that neither a hostile file nor a
 * folder that hangs is felt. Each container is looked for when its first cgroup is found; when nothing is there, again
 * after some seconds, and once more. Names are then kept as long as one of its cgroups is there: a container that gets
 * another name later keeps the one that was found. What can't be read or understood is a problem, and its containers
 * have no names until the next container_finder_use().
 */

#include "base/cgroup/tree.h"
#include "base/util/reason.h"

struct container_finder;

/* -ENOMEM, or the error of epoll_create(2). */
int container_finder_new(struct container_finder **ret);
struct container_finder *container_finder_free(struct container_finder *finder);
DEFINE_CLEANUP(struct container_finder *, container_finder_free)

/* The folders of runtimes, by preference, of which only the first CONTAINER_FOLDERS are looked at; borrowed until the
 * next call. None: no names are looked for. Containers without names are looked for again. */
void container_finder_use(struct container_finder *finder, char *const *folders, size_t nr);

/* There may be containers in the tree that were not there before, or others are wanted, or gone. */
void container_finder_note(struct container_finder *finder);

/* Takes answers, and asks about containers that are due. To be called when the fd is readable, after
 * container_finder_note(), and once a second. tree == NULL: there is none. True: identities have got names. */
bool container_finder_turn(struct container_finder *finder, const struct cgroup_tree *tree);

/* Readable when there is an answer; it stays the finder's. */
int container_finder_fd(const struct container_finder *finder);

/* Why some containers have no names, as a sentence that says what to do; "": nothing is wrong. */
const char *container_finder_problem(const struct container_finder *finder);
