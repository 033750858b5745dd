/* SPDX-License-Identifier: MIT */

/* The cgroup tree: making and dropping it, following it, and waiting for its mount. */

#include "counting/world/world.h"

#include "base/config/list.h"
#include "base/util/clock.h"
#include "counting/world/world-internal.h"

#include <string.h>

/* How long a reload follows the cgroup tree before it takes over: the bound is for a tree that changes faster than it
 * can be followed. */
#define CATCH_UP_NS 50000000U

bool world_is_suspended(const struct world *world)
{
	return world->mount_lost_at != 0;
}

bool world_is_behind(const struct world *world)
{
	return world->tree && !world_is_suspended(world) && cgroup_tree_has_more(world->tree);
}

static void turn_finder(struct world *world)
{
	/* A snapshot that others have got stays as it was written. */
	if (container_finder_turn(world->finder, world->tree))
		world->latest = snapshot_unref(world->latest);
}

bool world_follow_cgroups(struct world *world, uint64_t budget, struct reason *why)
{
	bool more;

	world_finish_commit(world, NULL);
	more = world->tree && !world_is_suspended(world) && cgroup_tree_follow(world->tree, budget, why) > 0;

	turn_finder(world);
	return more;
}

void world_name_containers(struct world *world, struct reason *why)
{
	turn_finder(world);
	reason_set(why, 0, "%s", container_finder_problem(world->finder));
}

int world_names_fd(const struct world *world)
{
	return container_finder_fd(world->finder);
}

int world_inotify_fd(const struct world *world, uint64_t *ret_tree)
{
	int fd = world->tree ? cgroup_tree_fd(world->tree) : -1;

	if (fd >= 0)
		*ret_tree = world->nr_trees;
	return fd;
}

/* --- the tree's observer: admission, and whoever follows the changes */

/* So many changes are remembered: with more of them, looking at the whole tree costs as little. */
#define CHANGES_MAX 4096

void cgroup_changes_release(struct cgroup_changes *changes)
{
	for (size_t i = 0; i < changes->nr; i++)
		free(changes->items[i].path);
	free(changes->items);
	*changes = (struct cgroup_changes){};
}

static void note_change(struct cgroup_changes *changes, uint64_t id, const char *path)
{
	struct cgroup_change change = { .id = id, .path = path ? strdup(path) : NULL };

	if (changes->nr == CHANGES_MAX || (path && !change.path) ||
	    !config_array_grow(&changes->items, changes->nr, sizeof(change))) {
		changes->lost = true;
		free(change.path);
		return;
	}
	changes->items[changes->nr++] = change;
}

static void note_new_tree(struct cgroup_changes *changes)
{
	cgroup_changes_release(changes);
	changes->is_new_tree = true;
}

/* Names of containers are looked for in all of the tree: not for any other cgroup. */
static void note_container(const struct world *world, const struct cgroup *cgroup)
{
	if (cgroup->identity->container_id)
		container_finder_note(world->finder);
}

static void on_added(void *userdata, struct cgroup *cgroup)
{
	struct world *world = userdata;
	const struct cgroup_observer admission = admission_observer(&world->admission);

	note_change(&world->changes, cgroup->identity->id, cgroup->path);
	note_container(world, cgroup);
	admission.added(admission.userdata, cgroup);
}

static void on_removed(void *userdata, struct cgroup *cgroup)
{
	struct world *world = userdata;
	const struct cgroup_observer admission = admission_observer(&world->admission);

	note_change(&world->changes, cgroup->identity->id, NULL);
	note_container(world, cgroup);
	admission.removed(admission.userdata, cgroup);
}

static void on_changed(void *userdata, struct cgroup *cgroup)
{
	struct world *world = userdata;
	const struct cgroup_observer admission = admission_observer(&world->admission);

	note_container(world, cgroup);
	admission.changed(admission.userdata, cgroup);
}

struct cgroup_changes world_take_cgroup_changes(struct world *world)
{
	return steal_struct(world->changes);
}

int world_start_tree(struct world *world, struct reason *why)
{
	const struct cgroup_observer observer = {
		.added = on_added,
		.removed = on_removed,
		.changed = on_changed,
		.userdata = world,
	};
	int r = cgroup_tree_new(&world->tree, world->machine->mount.path, &world->filter, &observer, why);

	if (r < 0)
		return r;
	if (cgroup_mount_is_part(&world->machine->mount))
		cgroup_tree_set_part(world->tree);
	world->nr_trees++;
	note_new_tree(&world->changes);
	world->admission.tree = world->tree;
	container_finder_note(world->finder);
	world->retried_at = clock_monotonic_ns();
	if (cgroup_tree_start(world->tree, why) < 0)
		return reason_prefix(why, 0, "not all cgroups are found yet, the tree will be read again");
	return 0;
}

void world_keep_or_drop_tree(struct world *world, const struct machine *next)
{
	const struct cgroup_mount *before = &world->machine->mount;
	struct reason ignored;

	if (!world->tree)
		return;
	if (next && !cgroup_mount_same_tree(before, &next->mount)) {
		admission_forget_tree(&world->admission);
		world->tree = cgroup_tree_free(world->tree);
		note_new_tree(&world->changes);
		world->mount_lost_at = 0;
		return;
	}
	if (next && (world->mount_lost_at || strcmp(before->path, next->mount.path) != 0)) {
		(void)cgroup_tree_move(world->tree, next->mount.path);
		world->mount_lost_at = 0;
	}
	/* A cgroup that was removed and made again, which the tree does not know yet, is two cgroups. */
	(void)world_follow_cgroups(world, CATCH_UP_NS, &ignored);
}
