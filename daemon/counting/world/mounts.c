/* SPDX-License-Identifier: MIT */

/* The mount of the cgroups: gone for a moment, moved, or another hierarchy in its place. */

#include "counting/world/world.h"

#include "base/util/clock.h"
#include "counting/world/world-internal.h"

#include <errno.h>
#include <string.h>

/* How long the tree waits for a mount that is gone before its cgroups are no longer counted: nothing is lost where it
 * is mounted again, or something was mounted over it for a moment. */
#define MOUNT_PATIENCE_NS 2000000000U
/* All mounts are read again after this many times the CPU time of the last reading, so that reading them takes 2 % of a
 * CPU at most. */
#define MOUNTS_SHARE 50
/* A config that can't be applied with the new mounts is tried again after this time. */
#define APPLY_AGAIN_NS 1000000000U

/* Applies the config again: another hierarchy is counted then, or none. */
static void apply_other_mount(struct world *world, struct reason *news)
{
	const struct machine *machine;
	struct reason more;

	if (world_reapply(world, news) < 0) {
		world->mounts_changed = true;
		world->mounts_due_at = clock_monotonic_ns() + APPLY_AGAIN_NS;
		reason_prefix(news, 0, "mounts have changed, but the config can't be applied again yet");
		return;
	}
	machine = world->machine;
	more = *news;
	if (machine->mount.path)
		reason_set(news, 0, "mounts have changed: cgroups are counted at %.200s (version %d)%s%.200s",
			   machine->mount.path, machine->mount.version, more.text[0] ? "; " : "", more.text);
	else
		reason_set(news, 0, "mounts have changed: no cgroups: %.300s%s%.200s", machine->no_cgroups.text,
			   more.text[0] ? "; " : "", more.text);
}

/* The same tree goes on where it is mounted now. */
static void move_tree(struct world *world, struct cgroup_mount *found, struct reason *news)
{
	struct machine *machine = world->machine;
	bool moved = strcmp(found->path, machine->mount.path) != 0;

	if (!moved && !world->mount_lost_at && found->id == machine->mount.id)
		return;
	if (world->tree && cgroup_tree_move(world->tree, found->path) < 0) {
		world->mounts_changed = true;
		return;
	}
	machine_take_mount(machine, found);
	world->mount_lost_at = 0;
	if (moved)
		reason_set(news, 0, "mounts have changed: the cgroup tree is at %s now", machine->mount.path);
}

/* The mount in force has just gone, and perf's hierarchy is the same: it may be back in a moment. Until then another
 * mount of that hierarchy is not used, which may show another tree, such as a container's own part. */
static bool should_wait(const struct world *world, const struct cgroup_mount *found, int hierarchy, uint64_t now)
{
	const struct machine *machine = world->machine;

	return world->mount_lost_at && now - world->mount_lost_at < MOUNT_PATIENCE_NS &&
	       hierarchy == machine->perf_hierarchy && (!found->path || found->version == machine->mount.version);
}

static void check_mounts(struct world *world, int hierarchy, uint64_t now, struct reason *news)
{
	_cleanup_(cgroup_mount_release) struct cgroup_mount found = {};
	struct machine *machine = world->machine;
	const struct config *config = world->config;
	struct reason why;
	uint64_t begun = clock_thread_ns();
	int r = cgroup_mount_choose(&found, config->procfs.text, config->cgroup_mount.text, &why);

	world->mounts_due_at = clock_monotonic_ns() + (clock_thread_ns() - begun) * MOUNTS_SHARE;
	/* Without a file or memory to read them with, nothing is known about the mounts. */
	world->mounts_changed = r == -ENOMEM || r == -EMFILE || r == -ENFILE;
	if (world->mounts_changed)
		return;
	world->hierarchy = hierarchy;
	if (cgroup_mount_same_tree(&found, &machine->mount)) {
		machine->perf_hierarchy = hierarchy;
		move_tree(world, &found, news);
	} else if (should_wait(world, &found, hierarchy, now)) {
		world->mounts_changed = true;
	} else if (found.path || machine->mount.path || hierarchy != machine->perf_hierarchy) {
		apply_other_mount(world, news);
	} else {
		machine->no_cgroups = why;
	}
}

void world_follow_mounts(struct world *world, bool notified, struct reason *news)
{
	const struct machine *machine = world->machine;
	int hierarchy = cgroup_perf_hierarchy(world->config->procfs.text);
	bool gone = machine->mount.path && !cgroup_mount_is_there(&machine->mount), other;
	uint64_t now = clock_monotonic_ns();

	world_finish_commit(world, NULL);
	news->text[0] = '\0';
	/* Unreadable now: taken as unchanged. */
	if (hierarchy < 0)
		hierarchy = machine->perf_hierarchy;
	other = hierarchy != world->hierarchy;
	world->mounts_changed |= notified || gone || other;
	if (!world->mounts_changed)
		return;
	if (gone && !world->mount_lost_at)
		world->mount_lost_at = now;
	if (now < world->mounts_due_at && !other)
		return;
	check_mounts(world, hierarchy, now, news);
}
