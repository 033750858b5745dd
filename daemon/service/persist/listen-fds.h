/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The files that systemd passes at start (sd_listen_fds(3)): listening sockets of perfmond.socket, and files that an
 * earlier instance put into the fd store.
 *
 * The list is read once, before anything is opened, and removed from the environment. A file belongs to the list until
 * somebody takes it and sets its fd to -1. The others are closed with the list.
 */

#include "base/util/reason.h"

#include <stdbool.h>
#include <stddef.h>

struct listen_fd {
	int fd;	    /* close-on-exec; -1: taken */
	char *name; /* FileDescriptorName= or FDNAME=; "unknown", from systemd, where there was none */
};

struct listen_fds {
	struct listen_fd *fds;
	size_t nr;
};

/* The list is empty where nothing was passed, or it was passed to another process. Negative errno with the sentence in
 * why: LISTEN_FDS and the files do not agree; -ENOMEM. */
int listen_fds_read(struct listen_fds *ret, struct reason *why);
void listen_fds_release(struct listen_fds *passed);

/* Is it a listening stream socket (TCP, Unix)? Every other file is from the fd store. */
bool listen_fd_is_listening(const struct listen_fd *file);

/* Writes the fds of the listening sockets, in their order, into ret, which has room for passed->nr of them; returns
 * their number. They stay the list's. */
size_t listen_fds_listening(const struct listen_fds *passed, int *ret);
