/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Listening sockets.
 *
 * The file of a Unix socket stays when its owner dies. listening_open() replaces a file on which nobody listens any
 * more, and listening_close() removes a file only if it is still the one that was made here. Files of sockets that were
 * passed to the daemon are left alone.
 */

#include "base/config/address.h"

#include <sys/stat.h>

struct listening {
	int fd;
	struct address address; /* with the actual port, if 0 was configured */
	struct stat file;	/* of a Unix socket that was made here; zeroed for other sockets */
};

/* text is the address as configured, for sentences. The fd is close-on-exec and non-blocking, and becomes the caller's.
 * Negative errno with the sentence in why: -EADDRINUSE, -EACCES, -EADDRNOTAVAIL, … */
int listening_open(struct listening *ret, const struct address *address, const char *text, struct reason *why);

/* Duplicates a socket that already listens and makes it non-blocking, and by that the original, too. -EAFNOSUPPORT
 * if it is no TCP or Unix socket, or the errno of getsockname(2), with the sentence in why. */
int listening_share(struct listening *ret, int fd, struct reason *why);

/* Closes the fd, and removes the file of a Unix socket that was made here. */
void listening_close(struct listening *listening);
