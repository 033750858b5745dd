/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The mounts of a process: the lines of /proc/PID/mountinfo (proc(5)). Pure; whoever uses it reads the
 * file, with read_text_file() and MOUNTINFO_MAX.
 *
 * Lines stand in the order of mounting: of two with the same mount point, the later one is seen.
 */

#include <stdbool.h>
#include <stddef.h>

/* A machine full of containers has some thousand mounts of a few hundred bytes. */
#define MOUNTINFO_MAX (16 * 1024 * 1024)

/* All point into the text, with octal escapes (\040 for a space) resolved: they are bytes. */
struct mountinfo {
	const char *root;	 /* the folder of the file system that is mounted: "/" is all of it */
	const char *mount_point;
	const char *fstype;
	const char *options; /* the super block's, "rw,perf_event": of a v1 hierarchy, its controllers */
};

/* Takes the next mount from text, which is cut up in place; *cursor starts at its beginning. A line that
 * is no mountinfo is skipped. False at the end. */
bool mountinfo_next(char **cursor, struct mountinfo *ret);

/* Is name one of the options, which are separated by commas? */
bool mountinfo_has_option(const struct mountinfo *mount, const char *name);
