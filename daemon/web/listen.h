/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Listening sockets.
 *
 * A Unix socket leaves a file behind when its owner dies. The file is taken over where nobody listens on
 * it any more, and removed at the end where it still is the one that was made. What somebody else made, who passed
 * the socket, is left to him.
 */

#include "web/address.h"

#include <sys/stat.h>

struct listening {
	int fd;
	struct address address; /* with the port that was taken, where 0 was asked for */
	struct stat file;	/* of a Unix socket that was made here; zeroed for others, as no file is */
};

/* text is the address as configured, for sentences. The fd is close-on-exec and non-blocking, and the
 * caller's. Negative errno with the sentence in why: -EADDRINUSE, -EACCES, -EADDRNOTAVAIL, … */
int listening_open(struct listening *ret, const struct address *address, const char *text, struct reason *why);

/* A duplicate of a socket that listens already, made non-blocking, which the original is by that as well. -EAFNOSUPPORT
 * with the sentence in why where it is no TCP or Unix socket, or what asking for its address said. */
int listening_share(struct listening *ret, int fd, struct reason *why);

/* Removes a Unix socket's file; leaves the fd alone. */
void listening_remove_file(const struct listening *listening);
