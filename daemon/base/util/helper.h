/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A child process for work on files that may be hostile, or may hang when they are opened. It opens them with the
 * rights of its parent (the daemon or the profiler), and gives up nearly all system calls before it looks at a single
 * byte of them. A child that allocates memory executes perfmond anew in between. The answer is in memory that the child
 * shares with its parent, or in a file in memory; the parent checks all of it.
 *
 * The parent never waits for the child: one that takes too long is killed. One that hangs where no signal reaches it,
 * as in open(2) on a dead server, is given up: it is reaped when it ends, and another can be started meanwhile. When
 * HELPER_STUCK_MAX hang, the next one that does stays. The child has seconds of CPU time, and one file of the parent's.
 */

#include "base/util/cleanup.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define HELPER_STUCK_MAX 4

struct helper_child {
	pid_t pid;
	int pidfd;
};

struct helper {
	pid_t pid; /* 0: no child */
	int pidfd;
	int epoll_fd;				     /* of the child's pidfd, which leaves it when it is closed */
	uint64_t deadline;			     /* CLOCK_MONOTONIC ns */
	uint64_t cpu_ns;			     /* of all children that have ended */
	bool gave_up;				     /* the last one */
	struct helper_child stuck[HELPER_STUCK_MAX]; /* those that were given up, and have not ended yet */
	size_t nr_stuck;
};

/* --- in the daemon */

/* The error of epoll_create(2). A struct that was not initialized may be released if it is HELPER_EMPTY. */
#define HELPER_EMPTY ((struct helper){ .pidfd = -1, .epoll_fd = -1 })
int helper_init(struct helper *helper);
/* Kills the child. */
void helper_release(struct helper *helper);

/* Does a child run? */
bool helper_is_busy(const struct helper *helper);

/* Forks a child that calls run(), and ends when that returns. The child has no open file but `file` (-1: none). One
 * child at a time: -EBUSY; the error of fork(2). */
int helper_start(struct helper *helper, int file, void (*run)(void *userdata), void *userdata);

/* Readable when helper_has_ended() has something to do. It stays the helper's. */
int helper_fd(const struct helper *helper);

/* Has the child ended since it was started, or was it given up? True once. A child that has run for too long is
 * killed. */
bool helper_has_ended(struct helper *helper);

/* CPU time of all children that have ended, in ns. */
uint64_t helper_cpu_ns(const struct helper *helper);

/* Was the last child given up? It will do nothing more but end. */
bool helper_gave_up(const struct helper *helper);
/* So many children were given up, and have not ended. */
size_t helper_nr_stuck(struct helper *helper);

/* --- in the child, which may allocate nothing: other threads may have held any lock at the fork */

/* Opens a regular file only: opening a device can do something. -1: there is none. */
int helper_open_regular(const char *path, struct stat *ret);

/* Executes perfmond anew with this option, for a child that allocates memory or calls a library. files[i] becomes
 * descriptor i there; -1: that one is closed. Unless it is root, the new program has no capability. Returns only if it
 * fails. */
#define HELPER_FILES_MAX 8
void helper_execute(const char *option, const int *files, size_t nr);

/* To be called by the program that helper_execute() has executed. Closes all descriptors from nr_files on, and gives up
 * capabilities. Limits memory to so many bytes more than the process has now (mapped files do not count), and each file
 * that it writes to so many bytes. False: a limit can't be set. */
bool helper_limit(size_t nr_files, uint64_t memory, uint64_t written);

/* From now on everything but read(2), rt_sigreturn(2) and exit_group(2) kills it (seccomp). A child that can't be
 * sealed ends. */
void helper_seal(void);

/* The same for a child that was executed anew, so that it may allocate: it may also map memory of its own that is no
 * code, and read and write files that are open. */
void helper_seal_with_memory(void);

_Noreturn void helper_exit(void);
