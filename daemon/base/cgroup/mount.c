/* SPDX-License-Identifier: MIT */

#include "base/cgroup/mount.h"

#include "base/cgroup/identity.h"
#include "base/util/file.h"
#include "base/util/mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* Mounts that are remembered; of more, those that show most of the tree. */
#define MAX_CANDIDATES 64

struct candidate {
	struct cgroup_mount mount;
	unsigned rank; /* how much it shows */
};

struct candidates {
	struct candidate items[MAX_CANDIDATES];
	size_t nr;
};

void cgroup_mount_release(struct cgroup_mount *mount)
{
	free(mount->path);
	*mount = (struct cgroup_mount){};
}

bool cgroup_mount_is_part(const struct cgroup_mount *mount)
{
	return mount->top != 0 && mount->top != CGROUP_ROOT_ID;
}

bool cgroup_mount_same_tree(const struct cgroup_mount *a, const struct cgroup_mount *b)
{
	return a->path && b->path && a->version == b->version && a->top == b->top;
}

static void candidates_release(struct candidates *candidates)
{
	for (size_t i = 0; i < candidates->nr; i++)
		cgroup_mount_release(&candidates->items[i].mount);
	candidates->nr = 0;
}

/* --- mountinfo */

/* The version of the cgroup hierarchy that perf could use there; 0: none. */
static int perf_version(const struct mountinfo *mount)
{
	if (strcmp(mount->fstype, "cgroup2") == 0)
		return 2;
	if (strcmp(mount->fstype, "cgroup") == 0 && mountinfo_has_option(mount, "perf_event"))
		return 1;
	return 0;
}

/* How much of the tree a mount with this root shows. 0: a part; 1: "/"; one more for each "..", if there is nothing
 * else. */
static unsigned rank_root(const char *root)
{
	unsigned rank = 1;

	if (strcmp(root, "/") == 0)
		return rank;
	for (; strncmp(root, "/..", 3) == 0; root += 3)
		rank++;
	return *root ? 0 : rank;
}

static void drop_candidate(struct candidates *candidates, size_t i)
{
	cgroup_mount_release(&candidates->items[i].mount);
	candidates->nr--;
	memmove(&candidates->items[i], &candidates->items[i + 1], (candidates->nr - i) * sizeof(candidates->items[0]));
}

/* A later mount at the same point hides the earlier ones. */
static void forget_hidden(struct candidates *candidates, const char *mount_point)
{
	for (size_t i = candidates->nr; i-- > 0;)
		if (strcmp(candidates->items[i].mount.path, mount_point) == 0)
			drop_candidate(candidates, i);
}

/* Makes room for a candidate, by dropping one that shows less; false if all others show as much. */
static bool make_room_for_rank(struct candidates *candidates, unsigned rank)
{
	size_t least = 0;

	if (candidates->nr < MAX_CANDIDATES)
		return true;
	for (size_t i = 1; i < candidates->nr; i++)
		if (candidates->items[i].rank <= candidates->items[least].rank)
			least = i;
	if (candidates->items[least].rank >= rank)
		return false;
	drop_candidate(candidates, least);
	return true;
}

static int on_mount(void *userdata, const struct mountinfo *mount)
{
	struct candidates *candidates = userdata;
	int version = perf_version(mount);
	unsigned rank = rank_root(mount->root);
	char *path;

	forget_hidden(candidates, mount->mount_point);
	if (!version || !make_room_for_rank(candidates, rank))
		return 0;
	path = strdup(mount->mount_point);
	if (!path)
		return -ENOMEM;
	candidates->items[candidates->nr++] = (struct candidate){
		.mount = { .path = path, .version = version, .id = mount->id },
		.rank = rank,
	};
	return 0;
}

static int read_candidates(struct candidates *ret, const char *mountinfo, struct reason *why)
{
	int r = mountinfo_walk(mountinfo, on_mount, ret);

	if (r == -ENOMEM)
		return reason_set(why, r, "out of memory");
	return r < 0 ? reason_set(why, r, "can't read %s: %s", mountinfo, strerror(-r)) : 0;
}

/* Is it this mount that is seen at its path? A folder above it may have been mounted over. If that can't be found out,
 * it counts as seen, and opening it gives the error. */
static bool is_seen(const struct candidate *candidate)
{
	struct statx stx;

	if (statx(AT_FDCWD, candidate->mount.path, AT_NO_AUTOMOUNT, STATX_MNT_ID, &stx) < 0)
		return errno != ENOENT && errno != ENOTDIR;
	return !(stx.stx_mask & STATX_MNT_ID) || stx.stx_mnt_id == candidate->mount.id;
}

/* Version 1 first; within a version, the first of those that show most. */
static bool is_better(const struct candidate *candidate, const struct candidate *best)
{
	if (!best || candidate->mount.version != best->mount.version)
		return !best || candidate->mount.version < best->mount.version;
	return candidate->rank > best->rank;
}

/* look: only mounts that are seen at their paths. */
static int take_best(struct cgroup_mount *ret, struct candidates *candidates, bool look, struct reason *why)
{
	struct candidate *best = NULL;

	for (size_t i = 0; i < candidates->nr; i++)
		if (is_better(&candidates->items[i], best) && (!look || is_seen(&candidates->items[i])))
			best = &candidates->items[i];
	if (!best)
		return reason_set(why, -ENOENT,
				  "no cgroup hierarchy is mounted that perf can use (" OWN_MOUNTINFO "); mount "
				  "cgroup2 at /sys/fs/cgroup to count per cgroup");
	*ret = steal_struct(best->mount);
	return 0;
}

int cgroup_mount_find(struct cgroup_mount *ret, const char *mountinfo, struct reason *why)
{
	_cleanup_(candidates_release) struct candidates candidates = { .nr = 0 };
	int r = read_candidates(&candidates, mountinfo, why);

	return r < 0 ? r : take_best(ret, &candidates, false, why);
}

/* --- a mount that the config names */

struct search {
	dev_t device;
	bool found;
};

/* All mounts of one hierarchy have the same options. */
static int on_mount_of_device(void *userdata, const struct mountinfo *mount)
{
	struct search *search = userdata;

	search->found |= mount->device == search->device && perf_version(mount) == 1;
	return 0;
}

static int check_named_v1(const char *path, dev_t device, struct reason *why)
{
	struct search search = { .device = device };
	int r = mountinfo_walk(OWN_MOUNTINFO, on_mount_of_device, &search);

	if (r < 0)
		return reason_set(why, r, "can't read " OWN_MOUNTINFO ": %s", strerror(-r));
	if (!search.found)
		return reason_set(why, -ENOENT,
				  "[cgroup] mount names %s, which is a v1 hierarchy without perf_event: name the one "
				  "that has it, or cgroup2",
				  path);
	return 0;
}

static int take_named(struct cgroup_mount *ret, const char *path, struct reason *why)
{
	_cleanup_(closep) int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;
	struct stat st;
	char *copy;
	int r = 0;

	if (fd < 0 || fstatfs(fd, &fs) < 0 || fstat(fd, &st) < 0)
		return reason_set(why, -errno, "[cgroup] mount names %s: %s", path, strerror(errno));
	if (fs.f_type == CGROUP_SUPER_MAGIC)
		r = check_named_v1(path, st.st_dev, why);
	else if (fs.f_type != CGROUP2_SUPER_MAGIC)
		r = reason_set(why, -ENOENT,
			       "[cgroup] mount names %s, which is no cgroup hierarchy: nothing of that kind is mounted "
			       "there",
			       path);
	if (r < 0)
		return r;
	copy = strdup(path);
	if (!copy)
		return reason_set(why, -ENOMEM, "out of memory");
	*ret = (struct cgroup_mount){ .path = copy, .version = fs.f_type == CGROUP2_SUPER_MAGIC ? 2 : 1 };
	return 0;
}

/* --- the choice */

/* "perf_event  HIERARCHY  NUM_CGROUPS  ENABLED", between tabs. */
int cgroup_perf_hierarchy(const char *procfs)
{
	_cleanup_(freep) char *path = NULL, *text = NULL;
	static const char name[] = "\nperf_event\t";
	const char *line;
	int number;

	if (asprintf(&path, "%s/cgroups", procfs) < 0) {
		path = NULL;
		return -1;
	}
	if (read_text_file(AT_FDCWD, path, FILE_MAX_SYSFS, &text) < 0)
		return -1;
	line = strstr(text, name);
	return line && sscanf(line + strlen(name), "%d", &number) == 1 && number >= 0 ? number : -1;
}

/* Sets both to 0 if they can't be found out. */
static void read_top(struct cgroup_mount *mount)
{
	struct statx stx;

	mount->top = mount->id = 0;
	if (statx(AT_FDCWD, mount->path, AT_NO_AUTOMOUNT, STATX_INO | STATX_MNT_ID, &stx) < 0)
		return;
	mount->top = stx.stx_ino;
	mount->id = stx.stx_mask & STATX_MNT_ID ? stx.stx_mnt_id : 0;
}

bool cgroup_mount_is_there(const struct cgroup_mount *mount)
{
	struct cgroup_mount now = { .path = mount->path };

	read_top(&now);
	return now.top == mount->top && now.id == mount->id;
}

int cgroup_mount_choose(struct cgroup_mount *ret, const char *procfs, const char *path, struct reason *why)
{
	_cleanup_(candidates_release) struct candidates candidates = { .nr = 0 };
	_cleanup_(cgroup_mount_release) struct cgroup_mount mount = {};
	int hierarchy, r = *path ? take_named(&mount, path, why) : read_candidates(&candidates, OWN_MOUNTINFO, why);

	if (r == 0 && !*path)
		r = take_best(&mount, &candidates, true, why);
	if (r < 0)
		return r;
	hierarchy = mount.version == 2 ? cgroup_perf_hierarchy(procfs) : -1;
	if (hierarchy > 0)
		return reason_set(why, -ENOENT,
				  "perf_event is in a v1 hierarchy (number %d) that is not %s, so that the kernel "
				  "counts nothing on cgroup2: mount it here (mount -t cgroup -o perf_event none "
				  "DIRECTORY), or unmount it everywhere",
				  hierarchy, *path ? "what [cgroup] mount names" : "mounted here");
	read_top(&mount);
	*ret = steal_struct(mount);
	return 0;
}
