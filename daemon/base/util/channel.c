/* SPDX-License-Identifier: MIT */

#include "base/util/channel.h"

#include "base/util/file.h"
#include "base/util/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* The memfd with the content, and the descriptor beside it. */
#define FDS_MAX 2

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* Bits of header.carries; the descriptors come in this order. */
enum {
	CARRIES_FILE = 1,
	CARRIES_FD = 2,
};

struct header {
	uint32_t protocol;
	uint32_t kind;
	uint64_t number;
	uint64_t len; /* of the content */
	uint64_t carries;
};

union control {
	RIGHTS_ROOM(FDS_MAX);
};

struct fds {
	int fd[FDS_MAX];
	size_t nr;
};

/* A message to be sent. One that waits owns its descriptors, and its content stands behind it. */
struct outgoing {
	struct outgoing *next;
	struct header header;
	const void *content; /* in the packet */
	size_t len;
	struct fds fds;
};

struct channel {
	int fd;
	struct channel_rules rules;
	size_t packet_max; /* bytes of content */
	struct outgoing *first, **end;
	size_t nr_waiting;
	uint64_t bytes_waiting;
};

void message_release(struct message *message)
{
	blob_unref(message->blob);
	safe_close(message->fd);
	*message = MESSAGE_EMPTY;
}

/* --- life */

int channel_pair(int ret_fds[static 2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret_fds) < 0 ? -errno : 0;
}

int channel_new(struct channel **ret, int fd, const struct channel_rules *rules)
{
	_cleanup_(freep) struct channel *channel = calloc(1, sizeof(*channel));
	/* A packet is at most as large as the socket's buffer less 32 bytes (unix_dgram_sendmsg() of the kernel), which
	 * net.core.wmem_default can make small. */
	const size_t overhead = 32 + sizeof(struct header);
	int buffer;
	socklen_t size = sizeof(buffer);

	if (!channel)
		return -ENOMEM;
	if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, &size) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	channel->fd = fd;
	channel->rules = *rules;
	channel->packet_max = (size_t)buffer - overhead;
	if (channel->packet_max > CHANNEL_PACKET_MAX)
		channel->packet_max = CHANNEL_PACKET_MAX;
	channel->end = &channel->first;
	*ret = steal_ptr(channel);
	return 0;
}

static void fds_release(struct fds *fds)
{
	while (fds->nr)
		safe_close(fds->fd[--fds->nr]);
}

static void outgoing_free(struct outgoing *out)
{
	fds_release(&out->fds);
	free(out);
}
DEFINE_CLEANUP(struct outgoing *, outgoing_free)

static void drop_first(struct channel *channel)
{
	struct outgoing *first = channel->first;

	channel->first = first->next;
	if (!channel->first)
		channel->end = &channel->first;
	channel->nr_waiting--;
	channel->bytes_waiting -= first->header.len;
	outgoing_free(first);
}

struct channel *channel_free(struct channel *channel)
{
	if (!channel)
		return NULL;
	while (channel->first)
		drop_first(channel);
	safe_close(channel->fd);
	free(channel);
	return NULL;
}

int channel_fd(const struct channel *channel)
{
	return channel->fd;
}

uint32_t channel_events(const struct channel *channel)
{
	return EPOLLIN | (channel->first ? EPOLLOUT : 0);
}

/* --- sending */

static int transmit(int socket, struct outgoing *out)
{
	union control control = {};
	struct iovec parts[] = { { &out->header, sizeof(out->header) }, { (void *)out->content, out->len } };
	struct msghdr packet = { .msg_iov = parts, .msg_iovlen = ARRAY_SIZE(parts) };

	if (out->fds.nr)
		rights_put(&packet, control.room, out->fds.fd, out->fds.nr);
	if (sendmsg(socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
		return 0;
	/* The first call after the other end was closed tells with ECONNRESET that messages to it were unread. */
	return errno == ECONNRESET ? -EPIPE : -errno;
}

int channel_flush(struct channel *channel)
{
	while (channel->first) {
		int r = transmit(channel->fd, channel->first);

		if (r < 0)
			return r == -EAGAIN ? 0 : r;
		drop_first(channel);
	}
	return 0;
}

static int enqueue(struct channel *channel, const struct outgoing *out)
{
	_cleanup_(outgoing_freep) struct outgoing *copy = NULL;

	if (channel->nr_waiting == CHANNEL_QUEUE_MESSAGES ||
	    (channel->first && channel->bytes_waiting + out->header.len > CHANNEL_QUEUE_BYTES))
		return -ENOBUFS;
	copy = malloc(sizeof(*copy) + out->len);
	if (!copy)
		return -ENOMEM;
	*copy = *out;
	copy->content = copy + 1;
	if (out->len)
		memcpy(copy + 1, out->content, out->len);
	for (copy->fds.nr = 0; copy->fds.nr < out->fds.nr; copy->fds.nr++) {
		int fd = fcntl(out->fds.fd[copy->fds.nr], F_DUPFD_CLOEXEC, 0);

		if (fd < 0)
			return -errno;
		copy->fds.fd[copy->fds.nr] = fd;
	}
	channel->nr_waiting++;
	channel->bytes_waiting += copy->header.len;
	*channel->end = copy;
	channel->end = &steal_ptr(copy)->next;
	return 0;
}

static void add_fd(struct outgoing *out, int fd, uint64_t bit)
{
	if (fd < 0)
		return;
	out->fds.fd[out->fds.nr++] = fd;
	out->header.carries |= bit;
}

/* file: -1, or the content, and then there is none in the packet. */
static int send_or_enqueue(struct channel *channel, struct outgoing *out, int file, int fd)
{
	int r = channel_flush(channel);

	if (r < 0)
		return r;
	add_fd(out, file, CARRIES_FILE);
	add_fd(out, fd, CARRIES_FD);
	out->header.protocol = channel->rules.protocol;
	r = channel->first ? -EAGAIN : transmit(channel->fd, out);
	return r == -EAGAIN ? enqueue(channel, out) : r;
}

static bool is_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & SEALS) == SEALS;
}

int channel_send_file(struct channel *channel, uint32_t kind, uint64_t number, int file, int fd)
{
	struct outgoing out = { .header = { .kind = kind, .number = number } };
	struct stat st;

	if ((!is_sealed(file) && fcntl(file, F_ADD_SEALS, SEALS | F_SEAL_SEAL) < 0) || fstat(file, &st) < 0)
		return -errno;
	out.header.len = (uint64_t)st.st_size;
	if (out.header.len > channel->rules.content_max)
		return -EMSGSIZE;
	return send_or_enqueue(channel, &out, file, fd);
}

int channel_send(struct channel *channel, uint32_t kind, uint64_t number, const void *content, size_t len, int fd)
{
	struct outgoing out = { .header = { .kind = kind, .number = number, .len = len },
				.content = content,
				.len = len };
	_cleanup_(closep) int file = -1;
	int r;

	if (len <= channel->packet_max)
		return send_or_enqueue(channel, &out, -1, fd);
	file = memfd_create("perfmond-message", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	r = file < 0 ? -errno : write_all(file, content, len);
	return r < 0 ? r : channel_send_file(channel, kind, number, file, fd);
}

/* --- receiving */

/* n: bytes of the packet; flags: of recvmsg(2). */
static int check_packet(const struct channel_rules *rules, const struct header *header, size_t n, int flags,
			size_t nr_fds, struct reason *why)
{
	const size_t nr_announced = !!(header->carries & CARRIES_FILE) + !!(header->carries & CARRIES_FD);
	const uint64_t len_inside = header->carries & CARRIES_FILE ? 0 : header->len;
	const unsigned kind = header->kind;

	if (n < sizeof(*header))
		return reason_set(why, -EPROTO, "a packet of %zu bytes is shorter than a header", n);
	if (header->protocol != rules->protocol)
		return reason_set(why, -EPROTO, "a message is of protocol %#x, and this process speaks %#x",
				  header->protocol, rules->protocol);
	if (kind >= rules->nr_kinds)
		return reason_set(why, -EPROTO, "a message is of the unknown kind %u", kind);
	if (header->carries & ~(uint64_t)(CARRIES_FILE | CARRIES_FD))
		return reason_set(why, -EPROTO, "a message of kind %u carries unknown things", kind);
	/* The kernel drops descriptors that do not fit into the room for them, or that it can't open. */
	if ((flags & MSG_CTRUNC) && nr_fds < FDS_MAX)
		return reason_set(why, -EMFILE, "a message of kind %u is lost: too many files are open", kind);
	if ((flags & MSG_CTRUNC) || nr_fds != nr_announced)
		return reason_set(why, -EPROTO, "a message of kind %u has %s%zu descriptors, %zu were announced", kind,
				  flags & MSG_CTRUNC ? "more than " : "", nr_fds, nr_announced);
	if (header->len > rules->content_max)
		return reason_set(why, -EPROTO, "a message of kind %u has more than %zu bytes", kind,
				  rules->content_max);
	if ((flags & MSG_TRUNC) || n - sizeof(*header) != len_inside)
		return reason_set(why, -EPROTO, "a packet of kind %u has a wrong length", kind);
	return 0;
}

static int map_file(struct blob **ret, int file, const struct header *header, struct reason *why)
{
	struct stat st;
	int r;

	/* The seals come first: without them the size can change after the check. */
	if (!is_sealed(file))
		return reason_set(why, -EPROTO, "a message of kind %u is not in a sealed memfd", header->kind);
	if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != header->len)
		return reason_set(why, -EPROTO, "the file of a message of kind %u has a wrong size", header->kind);
	r = blob_new_mapped(ret, file, (size_t)header->len);
	return r == 0 ? 0 : reason_set(why, r, "the file of a message of kind %u can't be mapped", header->kind);
}

int channel_receive(struct channel *channel, struct message *ret, struct reason *why)
{
	_cleanup_(buf_release) struct buf content = {};
	_cleanup_(fds_release) struct fds fds = {};
	union control control;
	struct blob *blob = NULL;
	struct header header = {};
	struct iovec parts[] = { { &header, sizeof(header) }, { NULL, CHANNEL_PACKET_MAX } };
	struct msghdr packet = {
		.msg_iov = parts,
		.msg_iovlen = ARRAY_SIZE(parts),
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n;
	int r;

	if (!buf_reserve(&content, CHANNEL_PACKET_MAX))
		return -ENOMEM;
	parts[1].iov_base = content.data;
	/* ECONNRESET is told once, before the messages of the end that was closed. */
	do
		n = recvmsg(channel->fd, &packet, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (n < 0 && errno == ECONNRESET);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	fds.nr = rights_take(&packet, fds.fd);
	/* An empty packet, which no channel sends, can't be told from the end. */
	if (n == 0)
		return -EPIPE;
	r = check_packet(&channel->rules, &header, (size_t)n, packet.msg_flags, fds.nr, why);
	if (r < 0)
		return r;
	content.len = (size_t)n - sizeof(header);
	r = header.carries & CARRIES_FILE ? map_file(&blob, fds.fd[0], &header, why) : blob_new(&blob, &content);
	if (r < 0)
		return r;
	*ret = (struct message){
		.kind = header.kind,
		.number = header.number,
		.content = (const unsigned char *)blob->data,
		.len = blob->len,
		.blob = blob,
		.fd = header.carries & CARRIES_FD ? steal_fd(&fds.fd[fds.nr - 1]) : -1,
	};
	return 1;
}
