/* SPDX-License-Identifier: MIT */

/* The cgroup tree: making and dropping it, following it, and waiting for its mount. */

#include "counting/world/world.h"

#include "base/util/clock.h"
#include "counting/world/world-internal.h"

#include <string.h>

/* How long a reload follows the cgroup tree before it takes over: the bound is for a tree that changes faster than it
 * can be followed. */
#define CATCH_UP_NS 50000000U

bool monitor_is_suspended(const struct monitor *monitor)
{
	return monitor->mount_lost_at != 0;
}

bool monitor_is_behind(const struct monitor *monitor)
{
	return monitor->tree && !monitor_is_suspended(monitor) && cgroup_tree_has_more(monitor->tree);
}

static void turn_finder(struct monitor *monitor)
{
	/* A snapshot that others have got stays as it was written. */
	if (container_finder_turn(monitor->finder, monitor->tree))
		monitor->latest = snapshot_unref(monitor->latest);
}

bool monitor_follow_cgroups(struct monitor *monitor, uint64_t budget, struct reason *why)
{
	bool more = monitor->tree && !monitor_is_suspended(monitor) &&
		    cgroup_tree_follow(monitor->tree, budget, why) > 0;

	container_finder_note(monitor->finder);
	turn_finder(monitor);
	return more;
}

void monitor_name_containers(struct monitor *monitor, struct reason *why)
{
	turn_finder(monitor);
	reason_set(why, 0, "%s", container_finder_problem(monitor->finder));
}

int monitor_names_fd(const struct monitor *monitor)
{
	return container_finder_fd(monitor->finder);
}

int monitor_inotify_fd(const struct monitor *monitor, uint64_t *ret_tree)
{
	int fd = monitor->tree ? cgroup_tree_fd(monitor->tree) : -1;

	if (fd >= 0)
		*ret_tree = monitor->nr_trees;
	return fd;
}

int monitor_start_tree(struct monitor *monitor, struct reason *why)
{
	const struct cgroup_observer observer = admission_observer(&monitor->admission);
	int r = cgroup_tree_new(&monitor->tree, monitor->machine->mount.path, &monitor->filter, &observer, why);

	if (r < 0)
		return r;
	if (cgroup_mount_is_part(&monitor->machine->mount))
		cgroup_tree_set_part(monitor->tree);
	monitor->nr_trees++;
	monitor->admission.tree = monitor->tree;
	container_finder_note(monitor->finder);
	monitor->retried_at = clock_monotonic_ns();
	if (cgroup_tree_start(monitor->tree, why) < 0)
		return reason_prefix(why, 0, "not all cgroups are found yet, the tree will be read again");
	return 0;
}

void monitor_keep_or_drop_tree(struct monitor *monitor, const struct machine *next)
{
	const struct cgroup_mount *before = &monitor->machine->mount;
	struct reason ignored;

	if (!monitor->tree)
		return;
	if (next && !cgroup_mount_same_tree(before, &next->mount)) {
		admission_forget_tree(&monitor->admission);
		monitor->tree = cgroup_tree_free(monitor->tree);
		monitor->mount_lost_at = 0;
		return;
	}
	if (next && (monitor->mount_lost_at || strcmp(before->path, next->mount.path) != 0)) {
		(void)cgroup_tree_move(monitor->tree, next->mount.path);
		monitor->mount_lost_at = 0;
	}
	/* A cgroup that was removed and made again, which the tree does not know yet, is two cgroups. */
	(void)monitor_follow_cgroups(monitor, CATCH_UP_NS, &ignored);
}
