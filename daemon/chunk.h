/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Files kept by the kernel in the queue of a Unix socket: one message, SCM_RIGHTS (unix(7)). Whoever has the socket can
 * have the files, as often as is wanted, and they are closed with it.
 */

#include <stdbool.h>
#include <stddef.h>

/* The kernel takes as many in one message (SCM_MAX_FD). */
#define CHUNK_MAX 253

/* A socket with copies of these files, at most CHUNK_MAX. The socket is the caller's; negative errno: -ETOOMANYREFS
 * where the user has more files under way than RLIMIT_NOFILE. */
int chunk_new(const int *fds, size_t nr);

/* Opens the files that are in the socket's message, close-on-exec; how many, or negative errno. whole: they are all,
 * and not fewer, since the process may not open so many. */
int chunk_look(int socket, int fds[static CHUNK_MAX], bool *whole);
