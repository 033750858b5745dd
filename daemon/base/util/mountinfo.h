/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The mounts of a process: /proc/PID/mountinfo (proc(5)), parsed by libmount. This is a thin layer over it: it hands
 * the text to the library piece by piece, so that a machine with a hundred thousand mounts costs no more memory than
 * the text itself; the library reads no other file (utab, /sys/dev/block) about a mount.
 *
 * Lines are in the order of mounting: of two with the same mount point, the later one hides the other.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A machine full of containers has some thousand mounts of a few hundred bytes. */
#define MOUNTINFO_MAX (16 * 1024 * 1024)

/* The process's own, not of the procfs that the config names: its paths are those that this process can open, and the
 * procfs of another PID namespace has no "self" for it. */
#define OWN_MOUNTINFO "/proc/self/mountinfo"

/* Octal escapes (\040 for a space) are resolved: these are bytes. The strings are valid for the length of a call. */
struct mountinfo {
	uint64_t id;	  /* statx(2), stx_mnt_id */
	dev_t device;	  /* of the file system */
	const char *root; /* the folder of the file system that is mounted: "/" is all of it */
	const char *mount_point;
	const char *fstype;
	const char *options; /* the super block's, "rw,perf_event": of a v1 hierarchy, its controllers */
};

/* A return value other than 0 ends the walk with that value. */
typedef int (*mountinfo_each_t)(void *userdata, const struct mountinfo *mount);

/* Calls each() for all mounts of a mountinfo file. Malformed lines are skipped. The errors of read_text_file();
 * -ENOMEM. */
int mountinfo_walk(const char *file, mountinfo_each_t each, void *userdata);
/* The same for a text. */
int mountinfo_walk_text(const char *text, mountinfo_each_t each, void *userdata);

/* Is name one of the options? */
bool mountinfo_has_option(const struct mountinfo *mount, const char *name);
