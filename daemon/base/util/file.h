/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reads the small text files of sysfs, procfs and tracefs, which are foreign bytes: they can be gone, empty, binary or
 * endless. Writes files as a whole.
 */

#include "base/util/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Bytes: no file of sysfs that is read here comes near. */
#define FILE_MAX_SYSFS (64 * 1024)

/*
 * Reads the file at path below dirfd (AT_FDCWD: as usual) into a NUL-terminated string without the
 * white space at its end, to be freed by the caller. Negative errno of open(2) or read(2); -EFBIG for more than max
 * bytes; -EBADMSG if it contains a NUL byte; -ENOMEM.
 */
int read_text_file(int dirfd, const char *path, size_t max, char **ret);

/*
 * Opens /dev/null as each of the descriptors 0 to 2 that is closed. Otherwise the next file that the process opens
 * takes such a number, and the log, or an answer on standard output, is written into it. It is open for reading
 * alone: writing to it fails as it does on a closed descriptor. To be called before anything is opened. Negative errno
 * of open(2).
 */
int open_standard_files(void);

/*
 * Reads n bytes at the offset `at` (bytes from the beginning) of a file, wherever the file stands. -EBADMSG: the file
 * ends before; else the negative errno of pread(2). On failure, some of the bytes at `to` may be overwritten.
 */
int read_exactly_at(int fd, void *to, size_t n, off_t at);

/* Writes all bytes, after those written before; also into a pipe. Negative errno of a system call. */
int write_all(int fd, const char *data, size_t n);

/* Writes all bytes at the offset `at`, wherever the file stands. Negative errno of pwrite(2). */
int write_all_at(int fd, const void *data, size_t n, off_t at);

/* Overwrites the beginning of a file, wherever it stands. Negative errno of a system call. */
int write_over(int fd, const char *data, size_t n);

/*
 * Puts a new file with these bytes and this mode, whatever the umask, in the place of the file at path: a reader finds
 * the old one or the whole new one; if durable, also after a crash of the machine. No existing file or link is followed
 * or written to, so that root can do it in a folder of another user's. Negative errno of a system call; -ENOMEM.
 */
int replace_file(const char *path, mode_t mode, bool durable, const char *data, size_t n);

/* A replace_file() that is killed leaves a file whose name is that of the file, ".perfmond-" and six characters; nobody
 * else gives it to a copy. The length of the file's name, if this is such a name, or 0. */
size_t replace_leftover(const char *name);

/* The same, not durable, for bytes that only the owner of the folder may read (0400): root gives it the file. */
int replace_private_file(const char *path, const char *data, size_t n);
