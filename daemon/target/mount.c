/* SPDX-License-Identifier: MIT */

#include "target/mount.h"

#include "util/file.h"
#include "util/mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

void cgroup_mount_release(struct cgroup_mount *mount)
{
	free(mount->path);
	*mount = (struct cgroup_mount){};
}

/* The version of the cgroup hierarchy that perf could use there; 0: none. */
static int perf_version(const struct mountinfo *mount)
{
	if (strcmp(mount->fstype, "cgroup2") == 0)
		return 2;
	if (strcmp(mount->fstype, "cgroup") == 0 && mountinfo_has_option(mount, "perf_event"))
		return 1;
	return 0;
}

static bool shows_root(const struct mountinfo *mount)
{
	return strcmp(mount->root, "/") == 0;
}

static void consider(struct mountinfo *best, const struct mountinfo *mount)
{
	if (!best->root || (!shows_root(best) && shows_root(mount)))
		*best = *mount;
}

/* The best mount of each version; entries that stay zeroed have none. */
static void find_best(struct mountinfo best[static 3], char *text)
{
	struct mountinfo mount;
	char *cursor = text;

	while (mountinfo_next(&cursor, &mount)) {
		int version = perf_version(&mount);

		for (int i = 1; i <= 2; i++)
			if (best[i].root && strcmp(best[i].mount_point, mount.mount_point) == 0)
				best[i] = (struct mountinfo){};
		if (version)
			consider(&best[version], &mount);
	}
}

int cgroup_mount_find(struct cgroup_mount *ret, const char *mountinfo, struct reason *why)
{
	_cleanup_(freep) char *text = NULL;
	struct mountinfo best[3] = {};
	int r, version;
	char *path;

	r = read_text_file(AT_FDCWD, mountinfo, MOUNTINFO_MAX, &text);
	if (r < 0)
		return reason_set(why, r, "can't read %s: %s", mountinfo, strerror(-r));

	find_best(best, text);
	version = best[1].root ? 1 : 2;
	if (!best[version].root)
		return reason_set(why, -ENOENT,
				  "no cgroup hierarchy is mounted that perf can use (%s); mount cgroup2 at "
				  "/sys/fs/cgroup to count per cgroup",
				  mountinfo);

	path = strdup(best[version].mount_point);
	if (!path)
		return reason_set(why, -ENOMEM, "out of memory");
	*ret = (struct cgroup_mount){ .path = path, .version = version };
	return 0;
}
