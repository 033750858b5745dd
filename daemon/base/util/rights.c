/* SPDX-License-Identifier: MIT */

#include "base/util/rights.h"

#include <string.h>

void rights_put(struct msghdr *message, char *room, const int *fds, size_t nr)
{
	struct cmsghdr *header;

	message->msg_control = room;
	message->msg_controllen = CMSG_SPACE(nr * sizeof(int));
	header = CMSG_FIRSTHDR(message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(nr * sizeof(int));
	memcpy(CMSG_DATA(header), fds, nr * sizeof(int));
}

/* The kernel puts all of them into one header. */
size_t rights_take(struct msghdr *message, int *ret)
{
	const struct cmsghdr *header = CMSG_FIRSTHDR(message);
	size_t nr;

	if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
		return 0;
	nr = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(ret, CMSG_DATA(header), nr * sizeof(int));
	return nr;
}
