/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The mounts of a process: /proc/PID/mountinfo (proc(5)), which libmount parses. This is a thin layer over it: the text
 * is handed to the library piece by piece, so that a machine with a hundred thousand mounts costs no more memory than
 * the text itself; the library gets the text alone, and asks no other file (utab, /sys/dev/block) about it.
 *
 * Lines stand in the order of mounting: of two with the same mount point, the later one is seen.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A machine full of containers has some thousand mounts of a few hundred bytes. */
#define MOUNTINFO_MAX (16 * 1024 * 1024)

/* Of the process itself, whatever the config says of procfs: paths in it are those that this process can open, and in
 * the procfs of another PID namespace there is no "self" for it. */
#define OWN_MOUNTINFO "/proc/self/mountinfo"

/* Octal escapes (\040 for a space) are resolved: these are bytes. All are borrowed for the length of a call. */
struct mountinfo {
	uint64_t id;	  /* statx(2), stx_mnt_id */
	dev_t device;	  /* of the file system */
	const char *root; /* the folder of the file system that is mounted: "/" is all of it */
	const char *mount_point;
	const char *fstype;
	const char *options; /* the super block's, "rw,perf_event": of a v1 hierarchy, its controllers */
};

/* Other than 0 ends the walk with that value. */
typedef int (*mountinfo_each_t)(void *userdata, const struct mountinfo *mount);

/* Calls each() for all mounts of a mountinfo file. Lines that are no mountinfo are skipped. Negative errno: what
 * reading the file said; -ENOMEM. */
int mountinfo_walk(const char *file, mountinfo_each_t each, void *userdata);
/* The same for a text. */
int mountinfo_walk_text(const char *text, mountinfo_each_t each, void *userdata);

/* Is name one of the options? */
bool mountinfo_has_option(const struct mountinfo *mount, const char *name);
