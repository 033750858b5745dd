/* SPDX-License-Identifier: MIT */

#include "counting/event/catalog/tracefs.h"

#include "base/util/file.h"
#include "base/util/mountinfo.h"
#include "base/util/text.h"
#include "counting/event/catalog/folder.h"
#include "counting/event/catalog/tracelist.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

struct found {
	char *tracefs, *debugfs;
};

static void found_release(struct found *found)
{
	free(found->tracefs);
	free(found->debugfs);
}

/* A mount of a folder in it (an instance, for a container) may lack parts of events/. */
static int take_mount(void *userdata, const struct mountinfo *mount)
{
	struct found *found = userdata;

	if (strcmp(mount->root, "/"))
		return 0;
	if (!found->tracefs && strcmp(mount->fstype, "tracefs") == 0) {
		found->tracefs = strdup(mount->mount_point);
		if (!found->tracefs)
			return -ENOMEM;
	} else if (!found->debugfs && strcmp(mount->fstype, "debugfs") == 0) {
		/* The kernel mounts tracefs there by itself on the first access. */
		if (asprintf(&found->debugfs, "%s/tracing", mount->mount_point) < 0) {
			found->debugfs = NULL;
			return -ENOMEM;
		}
	}
	return 0;
}

int tracefs_find(const char *mountinfo, char **ret, struct reason *why)
{
	_cleanup_(found_release) struct found found = {};
	int r = mountinfo_walk(mountinfo, take_mount, &found);

	if (r < 0)
		return reason_set(why, r, "%s: %s", mountinfo, strerror(-r));
	if (!found.tracefs && !found.debugfs)
		return reason_set(why, -ENOENT,
				  "tracefs is not mounted, so there are no tracepoints; mount it with "
				  "'mount -t tracefs tracefs /sys/kernel/tracing'");

	*ret = found.tracefs ? steal_ptr(found.tracefs) : steal_ptr(found.debugfs);
	return 0;
}

static int explain_missing_id(int r, const char *root, const char *subsystem, const char *name, struct reason *why)
{
	_cleanup_(freep) char *events = NULL;

	switch (r) {
	case -ENOMEM:
		return r;
	case -EACCES:
	case -EPERM:
		return reason_set(
			why, -EACCES,
			"tracepoint '%.100s:%.100s': %s is readable by root alone; run perfmond by its unit, "
			"for which root saves a list of the tracepoints, or mount tracefs with a gid= it is in and "
			"mode=750",
			subsystem, name, root);
	case -ENOENT:
	case -ENOTDIR:
		break;
	default:
		return reason_set(why, r, "tracepoint '%.100s:%.100s': %s/events/%.100s/%.100s/id: %s", subsystem, name,
				  root, subsystem, name, strerror(-r));
	}

	if (asprintf(&events, "%s/events", root) < 0) {
		events = NULL;
		return -ENOMEM;
	}
	if (access(events, F_OK) < 0)
		return reason_set(why, -ENODEV,
				  "tracepoint '%.100s:%.100s': there is no %s; is tracefs mounted, and are "
				  "tracepoints built into this kernel?",
				  subsystem, name, events);
	return reason_set(why, -ENOENT, "this kernel has no tracepoint '%.100s:%.100s' (a module may be missing)",
			  subsystem, name);
}

/* --- the root is a list */

static bool is_list(const char *root)
{
	struct stat st;

	return stat(root, &st) == 0 && S_ISREG(st.st_mode);
}

static int id_in_list(const char *list, const char *subsystem, const char *name, uint64_t *ret, struct reason *why)
{
	_cleanup_(freep) char *text = NULL;
	struct tracepoint tracepoint;
	char *cursor;
	int r = read_text_file(AT_FDCWD, list, TRACELIST_MAX, &text);

	if (r < 0)
		return r == -ENOMEM ? r :
				      reason_set(why, r, "tracepoint '%.100s:%.100s': %s: %s", subsystem, name, list,
						 strerror(-r));
	for (cursor = text; tracelist_next(&cursor, &tracepoint);)
		if (strcmp(tracepoint.name, name) == 0 && strcmp(tracepoint.subsystem, subsystem) == 0) {
			*ret = tracepoint.id;
			return 0;
		}
	return reason_set(why, -ENOENT,
			  "this kernel has no tracepoint '%.100s:%.100s' (a module may be missing, or was when root "
			  "saved %s, at the last start or reload)",
			  subsystem, name, list);
}

static int walk_list(const char *list, int (*each)(void *userdata, const char *subsystem, const char *name),
		     void *userdata)
{
	_cleanup_(freep) char *text = NULL;
	struct tracepoint tracepoint;
	char *cursor;
	int r = read_text_file(AT_FDCWD, list, TRACELIST_MAX, &text);

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	for (cursor = text; tracelist_next(&cursor, &tracepoint);) {
		r = each(userdata, tracepoint.subsystem, tracepoint.name);
		if (r)
			return r;
	}
	return 0;
}

/* --- any root */

int tracefs_id(const char *root, const char *subsystem, const char *name, uint64_t *ret, struct reason *why)
{
	_cleanup_(freep) char *path = NULL, *text = NULL;
	int r;

	if (!root)
		return reason_set(why, -ENODEV,
				  "tracepoint '%.100s:%.100s': tracefs is not mounted; mount it with "
				  "'mount -t tracefs tracefs /sys/kernel/tracing'",
				  subsystem, name);
	if (is_list(root))
		return id_in_list(root, subsystem, name, ret, why);

	if (asprintf(&path, "%s/events/%s/%s/id", root, subsystem, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	r = read_text_file(AT_FDCWD, path, FILE_MAX_SYSFS, &text);
	if (r < 0)
		return explain_missing_id(r, root, subsystem, name, why);
	if (parse_u64(text, ret) < 0)
		return reason_set(why, -EBADMSG, "tracepoint '%.100s:%.100s': %s holds no number", subsystem, name,
				  path);
	return 0;
}

static int open_events(const char *root)
{
	_cleanup_(freep) char *path = NULL;
	int fd;

	if (asprintf(&path, "%s/events", root) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int walk_subsystem(int events_fd, const char *subsystem,
			  int (*each)(void *userdata, const char *subsystem, const char *name), void *userdata)
{
	_cleanup_(name_array_release) struct name_array array = {};
	int r;

	r = folder_read(events_fd, subsystem, &array);
	if (r < 0)
		return r == -ENOMEM ? r : 0;

	for (size_t i = 0; i < array.nr; i++) {
		_cleanup_(freep) char *id = NULL;

		if (asprintf(&id, "%s/%s/id", subsystem, array.names[i]) < 0) {
			id = NULL;
			return -ENOMEM;
		}
		if (faccessat(events_fd, id, F_OK, 0) < 0)
			continue;
		r = each(userdata, subsystem, array.names[i]);
		if (r)
			return r;
	}
	return 0;
}

int tracefs_walk(const char *root, int (*each)(void *userdata, const char *subsystem, const char *name), void *userdata)
{
	_cleanup_(name_array_release) struct name_array array = {};
	_cleanup_(closep) int fd = -1;
	int r;

	if (!root)
		return 0;
	if (is_list(root))
		return walk_list(root, each, userdata);
	fd = open_events(root);
	if (fd < 0)
		return fd == -ENOMEM ? fd : 0;
	r = folder_read(fd, ".", &array);
	if (r < 0)
		return r == -ENOMEM ? r : 0;

	for (size_t i = 0; i < array.nr; i++) {
		r = walk_subsystem(fd, array.names[i], each, userdata);
		if (r)
			return r;
	}
	return 0;
}

/* --- saving */

bool tracefs_is_readable(const char *root)
{
	_cleanup_(closep) int fd = open_events(root);

	return fd >= 0;
}

struct saving {
	const char *root;
	struct buf *list;
	int nr;
};

/* A tracepoint that vanishes meanwhile, with its module, is left out. */
static int save_one(void *userdata, const char *subsystem, const char *name)
{
	struct saving *saving = userdata;
	uint64_t id;
	int r = tracefs_id(saving->root, subsystem, name, &id, NULL);

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	tracelist_add(saving->list, subsystem, name, id);
	saving->nr++;
	return 0;
}

int tracefs_save(const char *root, const char *file, struct reason *why)
{
	_cleanup_(buf_release) struct buf list = {};
	_cleanup_(closep) int fd = open_events(root);
	struct saving saving = { .root = root, .list = &list };
	int r;

	if (fd < 0)
		return reason_set(why, fd, "%s/events: %s", root, strerror(-fd));
	r = tracefs_walk(root, save_one, &saving);
	if (r < 0 || list.failed)
		return reason_set(why, -ENOMEM, "out of memory");
	if (saving.nr == 0)
		return reason_set(why, -ENOENT, "%s/events: there are no tracepoints", root);
	r = replace_file(file, 0644, false, list.data, list.len);
	return r < 0 ? reason_set(why, r, "%s: %s", file, strerror(-r)) : saving.nr;
}
