/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What systemd hands over at start (sd_listen_fds(3)): listening sockets of perfmond.socket, and what an earlier
 * run put into the fd store.
 *
 * It is read once, before anything is opened, and the environment forgets it. Each file belongs to the list until
 * somebody takes it, which sets its fd to -1; what nobody took is closed with the list.
 */

#include "util/reason.h"

#include <stdbool.h>
#include <stddef.h>

struct inherited_fd {
	int fd;	    /* close-on-exec; -1: taken */
	char *name; /* FileDescriptorName=, FDNAME=; systemd's "unknown" where it has none */
};

struct inherited {
	struct inherited_fd *fds;
	size_t nr;
};

/* An empty list where nothing was passed, or to another process. Negative errno with the sentence in why: what was
 * passed makes no sense, -ENOMEM. */
int inherited_read(struct inherited *ret, struct reason *why);
void inherited_release(struct inherited *inherited);

/* Is it a stream socket that listens (TCP, Unix)? All else came out of the fd store. */
bool inherited_is_listening(const struct inherited_fd *file);

/* Writes the fds of all that listen, in their order, into ret, which has room for nr of them, and says how many they
 * are. They stay the list's. */
size_t inherited_listening(const struct inherited *inherited, int *ret);
