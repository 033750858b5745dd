/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Messages between two processes of this program, over a pair of connected sockets (SOCK_SEQPACKET, unix(7)). Each end
 * takes the other for foreign: any packet is refused or becomes a whole message, and nothing that the other end does
 * later changes a message or kills its reader.
 *
 * A message is a packet: a header of fixed size, then the content. Content that does not fit into a packet is in a
 * memfd, which comes with the packet (SCM_RIGHTS) and is mapped by its receiver. It is mapped only if it has the
 * announced size, and neither its size nor its bytes can change any more (F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE,
 * fcntl(2)): reading beyond the end of a file that was cut would be SIGBUS. Beside its content a message can carry one
 * descriptor.
 *
 * Nothing blocks. Messages wait in the sender's memory while the socket is full, in order, up to a bound.
 */

#include "base/util/blob.h"
#include "base/util/reason.h"

/* Bytes: content up to here is in the packet. */
#define CHANNEL_PACKET_MAX (64 * 1024)

/* So many messages wait at most; and so many bytes of content, also of that in memfds, except in a single message. */
#define CHANNEL_QUEUE_MESSAGES 256
#define CHANNEL_QUEUE_BYTES (16 * 1024 * 1024)

/* The messages that an end takes. */
struct channel_rules {
	uint32_t protocol;  /* a magic number with the version in it; messages are sent with it too */
	uint32_t nr_kinds;  /* kinds are below it */
	size_t content_max; /* bytes */
};

struct message {
	uint32_t kind;
	uint64_t number; /* chosen by the sender: an answer has that of its question */
	const unsigned char *content;
	size_t len;
	struct blob *blob; /* has the content; steal_ptr() takes it out of the message */
	int fd;		   /* the descriptor that came with it, close-on-exec, or -1; steal_fd() takes it */
};

/* Of a struct that was not received; it may be released. */
#define MESSAGE_EMPTY ((struct message){ .fd = -1 })
void message_release(struct message *message);

struct channel;

/* A fresh pair of sockets, close-on-exec, for a channel each. Negative errno of socketpair(2). */
int channel_pair(int ret_fds[static 2]);

/* Takes over the socket, which becomes close-on-exec; on failure it stays the caller's. Negative errno of a system
 * call; -ENOMEM. */
int channel_new(struct channel **ret, int fd, const struct channel_rules *rules);
/* Messages that still wait are dropped. */
struct channel *channel_free(struct channel *channel);
DEFINE_CLEANUP(struct channel *, channel_free)

/* Stays the channel's. */
int channel_fd(const struct channel *channel);
/* For epoll_ctl(2): EPOLLIN, and EPOLLOUT while messages wait for channel_flush(). Changes with each call below. */
uint32_t channel_events(const struct channel *channel);

/*
 * Sends a message with len bytes of content, and a copy of the descriptor fd (-1: none). Both stay the caller's.
 * Returns 0 if it is sent or waits. On a negative errno it is not sent. -EPIPE: the other end is closed; messages that
 * it sent before can still be received. After any other error the channel can be used on: -ENOBUFS: too much waits;
 * -EMSGSIZE: it is larger than content_max; -ENOMEM, -ENOSPC, -EMFILE and others of memfd_create(2), write(2), fcntl(2)
 * and sendmsg(2).
 */
int channel_send(struct channel *channel, uint32_t kind, uint64_t number, const void *content, size_t len, int fd);

/* The content is that of a memfd, as a whole, which is not copied: it is sealed, for good. Errors as above; -EPERM: it
 * was made without MFD_ALLOW_SEALING; -EBUSY: it is mapped for writing; -EINVAL: it is no memfd. */
int channel_send_file(struct channel *channel, uint32_t kind, uint64_t number, int file, int fd);

/* Sends messages that wait, as far as the socket takes them. -EPIPE as above; after another error of sendmsg(2) they
 * still wait. */
int channel_flush(struct channel *channel);

/*
 * 1: *ret is a message, to be released. 0: there is none now. -EPIPE: the other end is closed, and all that it sent was
 * received. -ENOMEM: no memory, and a message may be lost. Other errors lose a message and write the sentence in why:
 * -EPROTO: it is not as the rules and this header have it; -EMFILE: its descriptors could not be opened; an error of
 * mmap(2).
 */
int channel_receive(struct channel *channel, struct message *ret, struct reason *why);
