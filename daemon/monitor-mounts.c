/* SPDX-License-Identifier: MIT */

#include "monitor.h"

#include <errno.h>
#include <string.h>

/* How long a mount that is gone is waited for before its cgroups are not counted any more: whoever mounts it anew, or
 * mounts something over it for a moment, loses nothing. */
#define MOUNT_PATIENCE_NS 2000000000U
/* After reading all mounts, wait this many times as long as the reading took. */
#define MOUNTS_SHARE 50

/* Reloads the current config: afterwards another hierarchy is counted, or none. */
static void renew_mount(struct monitor *monitor, struct reason *news)
{
	const struct machine *machine;
	struct reason more;

	if (monitor_renew(monitor, news) < 0) {
		monitor->mounts_changed = true;
		reason_prefix(news, 0, "mounts have changed, and can't be looked at yet");
		return;
	}
	machine = monitor->machine;
	more = *news;
	if (machine->mount.path)
		reason_set(news, 0, "mounts have changed: cgroups are counted at %.200s (version %d)%s%.200s",
			   machine->mount.path, machine->mount.version, more.text[0] ? "; " : "", more.text);
	else
		reason_set(news, 0, "mounts have changed: no cgroups: %.300s%s%.200s", machine->no_cgroups.text,
			   more.text[0] ? "; " : "", more.text);
}

/* The same tree, where it is mounted now. */
static void move_tree(struct monitor *monitor, struct cgroup_mount *found, struct reason *news)
{
	struct machine *machine = monitor->machine;
	bool moved = strcmp(found->path, machine->mount.path) != 0;

	if (!moved && !monitor->mount_gone && found->id == machine->mount.id)
		return;
	if (monitor->tree && cgroup_tree_move(monitor->tree, found->path) < 0) {
		monitor->mounts_changed = true;
		return;
	}
	machine_take_mount(machine, found);
	monitor->mount_gone = 0;
	if (moved)
		reason_set(news, 0, "mounts have changed: the cgroup tree is at %s now", machine->mount.path);
}

/* The mount in force has just gone, and perf's hierarchy is the same: it may be back in a moment. Another mount of that
 * may show another tree, such as a container's own part. */
static bool waits_for_mount(const struct monitor *monitor, const struct cgroup_mount *found, int hierarchy,
			    uint64_t now)
{
	const struct machine *machine = monitor->machine;

	return monitor->mount_gone && now - monitor->mount_gone < MOUNT_PATIENCE_NS &&
	       hierarchy == machine->perf_hierarchy && (!found->path || found->version == machine->mount.version);
}

static void look_at_mounts(struct monitor *monitor, int hierarchy, uint64_t now, struct reason *news)
{
	_cleanup_(cgroup_mount_release) struct cgroup_mount found = {};
	struct machine *machine = monitor->machine;
	const struct config *config = monitor->config;
	struct reason why;
	int r = cgroup_mount_choose(&found, config->procfs.text, config->cgroup_mount.text, &why);

	/* Where there is no file or memory to look with, nothing has been seen. */
	monitor->mounts_changed = r == -ENOMEM || r == -EMFILE || r == -ENFILE;
	if (monitor->mounts_changed)
		return;
	monitor->hierarchy = hierarchy;
	if (cgroup_mount_same_tree(&found, &machine->mount)) {
		machine->perf_hierarchy = hierarchy;
		move_tree(monitor, &found, news);
	} else if (waits_for_mount(monitor, &found, hierarchy, now)) {
		monitor->mounts_changed = true;
	} else if (found.path || machine->mount.path || hierarchy != machine->perf_hierarchy) {
		renew_mount(monitor, news);
	} else {
		machine->no_cgroups = why;
	}
}

void monitor_follow_mounts(struct monitor *monitor, bool told, struct reason *news)
{
	const struct machine *machine = monitor->machine;
	int hierarchy = cgroup_perf_hierarchy(monitor->config->procfs.text);
	bool gone = machine->mount.path && !cgroup_mount_is_there(&machine->mount), other;
	uint64_t now = count_now();

	news->text[0] = '\0';
	/* One that can't be read now says nothing. */
	if (hierarchy < 0)
		hierarchy = machine->perf_hierarchy;
	other = hierarchy != monitor->hierarchy;
	monitor->mounts_changed |= told || gone || other;
	if (!monitor->mounts_changed)
		return;
	if (gone && !monitor->mount_gone)
		monitor->mount_gone = now;
	if (now < monitor->mounts_due && !other)
		return;
	look_at_mounts(monitor, hierarchy, now, news);
	monitor->mounts_due = count_now() + (count_now() - now) * MOUNTS_SHARE;
}
