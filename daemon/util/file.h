/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reading the small text files of sysfs, procfs and tracefs, which are foreign bytes: they can be
 * gone, empty, binary or endless. And writing one.
 */

#include "util/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Above this a pseudo file is not what it should be. */
#define FILE_MAX_SYSFS (64 * 1024)

/*
 * Reads the file at path below dirfd (AT_FDCWD: as usual) into a NUL-terminated string without the
 * white space at its end, to be freed by the caller. Negative errno: what open(2) or read(2) said;
 * -EFBIG for more than max bytes; -EBADMSG where a NUL byte is in it.
 */
int read_text_file(int dirfd, const char *path, size_t max, char **ret);

/* Writes these bytes over a file's first ones. What a system call said. */
int write_all(int fd, const char *data, size_t n);

/*
 * Puts a new file with these bytes and this mode, whatever the umask, in the place of what is at path: who looks
 * finds the old one or the whole new one; where it is durable, also after the machine has failed. Nothing that is there
 * is followed or written to, so that root can do it in a folder of another user's. What a system call said.
 */
int replace_file(const char *path, mode_t mode, bool durable, const char *data, size_t n);
