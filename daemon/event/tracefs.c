/* SPDX-License-Identifier: MIT */

#include "event/tracefs.h"

#include "event/folder.h"
#include "util/file.h"
#include "util/mountinfo.h"
#include "util/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

int tracefs_find(const char *mountinfo, char **ret, struct reason *why)
{
	_cleanup_(freep) char *text = NULL, *tracefs = NULL, *debugfs = NULL;
	struct mountinfo mount;
	char *cursor;
	int r;

	r = read_text_file(AT_FDCWD, mountinfo, MOUNTINFO_MAX, &text);
	if (r < 0)
		return reason_set(why, r, "%s: %s", mountinfo, strerror(-r));

	/* A mount of a folder inside (an instance's, for a container) has not all of events/. */
	for (cursor = text; mountinfo_next(&cursor, &mount);) {
		if (strcmp(mount.root, "/"))
			continue;
		if (!tracefs && strcmp(mount.fstype, "tracefs") == 0) {
			tracefs = strdup(mount.mount_point);
			if (!tracefs)
				return -ENOMEM;
		} else if (!debugfs && strcmp(mount.fstype, "debugfs") == 0) {
			/* The kernel mounts tracefs there itself when somebody looks. */
			if (asprintf(&debugfs, "%s/tracing", mount.mount_point) < 0) {
				debugfs = NULL;
				return -ENOMEM;
			}
		}
	}
	if (!tracefs && !debugfs)
		return reason_set(why, -ENOENT,
				  "tracefs is not mounted, so there are no tracepoints; mount it with "
				  "'mount -t tracefs tracefs /sys/kernel/tracing'");

	*ret = tracefs ? steal_ptr(tracefs) : steal_ptr(debugfs);
	return 0;
}

static int explain(int r, const char *root, const char *subsystem, const char *name, struct reason *why)
{
	_cleanup_(freep) char *events = NULL;

	switch (r) {
	case -ENOMEM:
		return r;
	case -EACCES:
	case -EPERM:
		return reason_set(
			why, -EACCES,
			"tracepoint '%.100s:%.100s': %s is readable by root alone; give the daemon "
			"CAP_DAC_READ_SEARCH, or mount tracefs with a gid= it is in and mode=750",
			subsystem, name, root);
	case -ENOENT:
	case -ENOTDIR:
		break;
	default:
		return reason_set(why, r, "tracepoint '%.100s:%.100s': %s/events/%.100s/%.100s/id: %s",
				  subsystem, name, root, subsystem, name, strerror(-r));
	}

	if (asprintf(&events, "%s/events", root) < 0) {
		events = NULL;
		return -ENOMEM;
	}
	if (access(events, F_OK) < 0)
		return reason_set(
			why, -ENODEV,
			"tracepoint '%.100s:%.100s': there is no %s; is tracefs mounted, and are "
			"tracepoints built into this kernel?",
			subsystem, name, events);
	return reason_set(why, -ENOENT,
			  "this kernel has no tracepoint '%.100s:%.100s' (a module may be missing)",
			  subsystem, name);
}

int tracefs_id(const char *root, const char *subsystem, const char *name, uint64_t *ret,
	       struct reason *why)
{
	_cleanup_(freep) char *path = NULL, *text = NULL;
	int r;

	if (!root)
		return reason_set(why, -ENODEV,
				  "tracepoint '%.100s:%.100s': tracefs is not mounted; mount it with "
				  "'mount -t tracefs tracefs /sys/kernel/tracing'",
				  subsystem, name);

	if (asprintf(&path, "%s/events/%s/%s/id", root, subsystem, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	r = read_text_file(AT_FDCWD, path, FILE_MAX_SYSFS, &text);
	if (r < 0)
		return explain(r, root, subsystem, name, why);
	if (parse_u64(text, ret) < 0)
		return reason_set(why, -EBADMSG, "tracepoint '%.100s:%.100s': %s holds no number",
				  subsystem, name, path);
	return 0;
}

static int walk_subsystem(int events_fd, const char *subsystem,
			  int (*each)(void *userdata, const char *subsystem, const char *name),
			  void *userdata)
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

int tracefs_walk(const char *root, int (*each)(void *userdata, const char *subsystem, const char *name),
		 void *userdata)
{
	_cleanup_(name_array_release) struct name_array array = {};
	_cleanup_(freep) char *path = NULL;
	_cleanup_(closep) int fd = -1;
	int r;

	if (!root)
		return 0;
	if (asprintf(&path, "%s/events", root) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return 0;
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
