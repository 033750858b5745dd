/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Files that the kernel holds in the queue of a Unix socket, in one message (SCM_RIGHTS, unix(7)). Whoever has the
 * socket can open them, as often as needed, since the message is peeked at (MSG_PEEK) and never taken. They are closed
 * with the socket.
 */

#include <stdbool.h>
#include <stddef.h>

/* The kernel's limit for one message (SCM_MAX_FD). */
#define FD_PARCEL_MAX 253

/* A socket that holds copies of the files, at most FD_PARCEL_MAX; it is the caller's. Negative errno; -ETOOMANYREFS:
 * the user has more files in flight in sockets than RLIMIT_NOFILE (unix(7)). */
int fd_parcel_new(const int *fds, size_t nr);

/* Opens the files of the socket's message, close-on-exec, and returns their number, or negative errno. *ret_whole is
 * false where the limit of open files left some out. */
int fd_parcel_peek(int socket, int fds[static FD_PARCEL_MAX], bool *ret_whole);
