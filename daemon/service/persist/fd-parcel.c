/* SPDX-License-Identifier: MIT */

#include "service/persist/fd-parcel.h"

#include "base/util/cleanup.h"
#include "base/util/rights.h"

#include <errno.h>

/* The message has one byte of data: an empty one could not be told from the end of file. */
union control {
	RIGHTS_ROOM(FD_PARCEL_MAX);
};

int fd_parcel_new(const int *fds, size_t nr)
{
	_cleanup_(closep) int to = -1, from = -1;
	union control control = {};
	char byte = 0;
	struct iovec data = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
	int pair[2];

	if (nr == 0 || nr > FD_PARCEL_MAX)
		return -EINVAL;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	to = pair[0];
	from = pair[1];
	rights_put(&message, control.room, fds, nr);
	if (sendmsg(to, &message, MSG_NOSIGNAL) < 0)
		return -errno;
	return steal_fd(&from);
}

int fd_parcel_peek(int socket, int fds[static FD_PARCEL_MAX], bool *ret_whole)
{
	union control control;
	char byte;
	struct iovec data = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	if (recvmsg(socket, &message, MSG_PEEK | MSG_CMSG_CLOEXEC | MSG_DONTWAIT) < 0)
		return -errno;
	*ret_whole = !(message.msg_flags & MSG_CTRUNC);
	return (int)rights_take(&message, fds);
}
