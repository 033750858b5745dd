/* SPDX-License-Identifier: MIT */
#pragma once

/* Descriptors that travel with a message between processes (SCM_RIGHTS, unix(7)). */

#include <stdalign.h>
#include <stddef.h>
#include <sys/socket.h>

/* Room for nr descriptors beside a message, as a member of a union or struct. */
#define RIGHTS_ROOM(nr) alignas(struct cmsghdr) char room[CMSG_SPACE((nr) * sizeof(int))]

/* Has the message carry nr descriptors, at least one. room: zeroed, and large enough; borrowed until it is sent. */
void rights_put(struct msghdr *message, char *room, const int *fds, size_t nr);

/* The descriptors of a message that was received, which are the caller's; at most as many as its room was for. */
size_t rights_take(struct msghdr *message, int *ret);
