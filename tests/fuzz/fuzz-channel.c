/* SPDX-License-Identifier: MIT */

/*
 * Packets of the other process: the input's first byte says which descriptors come with them, its rest is the packet.
 * It is refused with a sentence, or it is a message that can be read. No file stays open, and the next message comes.
 */

#include "fuzz.h"

#include "base/util/channel.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static const struct channel_rules rules = { 0x7a7a7a7a, 16, 100000 };

/* A sealed file, one without seals, and one that is no memfd. */
#define FILE_SIZE 70000
#define SEALED_FD 100
#define UNSEALED_FD 101
#define OTHER_FD 102

int LLVMFuzzerInitialize(_unused_ int *argc, _unused_ char ***argv)
{
	CHECK(dup2(memfd_create("sealed", MFD_ALLOW_SEALING), SEALED_FD) >= 0);
	CHECK(ftruncate(SEALED_FD, FILE_SIZE) == 0);
	CHECK(fcntl(SEALED_FD, F_ADD_SEALS, SEALS) == 0);
	CHECK(dup2(memfd_create("unsealed", MFD_ALLOW_SEALING), UNSEALED_FD) >= 0);
	CHECK(ftruncate(UNSEALED_FD, FILE_SIZE) == 0);
	CHECK(dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), OTHER_FD) >= 0);
	return 0;
}

/* Two bits of `which` for each of four descriptors: none, or one of the three. */
static void send_packet(int fd, const uint8_t *data, size_t size, unsigned which)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(4 * sizeof(int))];
	} control = {};
	struct iovec part = { (void *)data, size };
	struct msghdr packet = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control };
	int fds[4];
	size_t nr = 0;

	for (; which; which /= 4)
		if (which % 4)
			fds[nr++] = SEALED_FD + (int)(which % 4) - 1;
	control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	control.header.cmsg_len = CMSG_LEN(nr * sizeof(int));
	memcpy(CMSG_DATA(&control.header), fds, nr * sizeof(int));
	packet.msg_controllen = nr ? CMSG_SPACE(nr * sizeof(int)) : 0;
	CHECK(sendmsg(fd, &packet, 0) == (ssize_t)size);
}

static void check_message(const struct message *message)
{
	unsigned sum = 0;

	CHECK(message->kind < rules.nr_kinds && message->len <= rules.content_max);
	for (size_t i = 0; i < message->len; i++)
		sum += message->content[i];
	CHECK(sum <= 255 * message->len);
	CHECK(message->fd < 0 || fcntl(message->fd, F_GETFD) == FD_CLOEXEC);
}

static int next_file(void)
{
	int fd = dup(STDERR_FILENO);

	CHECK(fd >= 0);
	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(channel_freep) struct channel *to = NULL, *from = NULL;
	_cleanup_(message_release) struct message message = MESSAGE_EMPTY;
	struct reason why = {};
	int fds[2], before, r;

	/* An empty packet is the end. */
	if (size < 2 || size > 2 * CHANNEL_PACKET_MAX)
		return 0;
	CHECK(channel_pair(fds) == 0);
	CHECK(channel_new(&to, fds[0], &rules) == 0);
	CHECK(channel_new(&from, fds[1], &rules) == 0);
	before = next_file();
	send_packet(channel_fd(to), data + 1, size - 1, *data);
	r = channel_receive(from, &message, &why);
	CHECK(r == 1 || (r == -EPROTO && *why.text));
	for (const char *p = why.text; *p; p++)
		CHECK(!iscntrl((unsigned char)*p));
	if (r == 1)
		check_message(&message);
	message_release(&message);
	CHECK(next_file() == before);

	CHECK(channel_send(to, 15, 1, data, size, -1) == 0);
	CHECK(channel_receive(from, &message, &why) == (size > rules.content_max ? -EPROTO : 1));
	CHECK(size > rules.content_max || (message.len == size && memcmp(message.content, data, size) == 0));
	return 0;
}
