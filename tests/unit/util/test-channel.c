/* SPDX-License-Identifier: MIT */

/* Messages between two ends: whole and in order, and nothing that one end sends harms the other. No test leaves a file
 * open. */

#include "base/util/channel.h"

#include "setup/limits.h"
#include "setup/no-memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PROTOCOL 0x70660001
#define NR_KINDS 10
#define LARGE (5 * 1024 * 1024)
#define CONTENT_MAX (32 * 1024 * 1024)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static const struct channel_rules rules = { PROTOCOL, NR_KINDS, CONTENT_MAX };

/* The header of a packet, as it is sent. */
struct raw {
	uint32_t protocol, kind;
	uint64_t number, len, carries;
};
#define CARRIES_FILE 1
#define CARRIES_FD 2

struct ends {
	struct channel *a, *b;
	size_t nr_files;
};

static struct ends open_ends(void)
{
	struct ends ends = { .nr_files = nr_open_files() };
	int fds[2];

	assert_int_equal(channel_pair(fds), 0);
	assert_int_equal(channel_new(&ends.a, fds[0], &rules), 0);
	assert_int_equal(channel_new(&ends.b, fds[1], &rules), 0);
	return ends;
}

static void close_ends(struct ends *ends)
{
	ends->a = channel_free(ends->a);
	ends->b = channel_free(ends->b);
	assert_int_equal(nr_open_files(), ends->nr_files);
}

static unsigned char *make_content(size_t len)
{
	unsigned char *content = malloc(len + 1);

	assert_non_null(content);
	for (size_t i = 0; i < len; i++)
		content[i] = (unsigned char)(i * 7 + i / 251);
	return content;
}

static int make_file(size_t len, unsigned flags)
{
	_cleanup_(freep) unsigned char *content = make_content(len);
	int file = memfd_create("test", MFD_CLOEXEC | flags);

	assert_true(file >= 0);
	assert_int_equal(write(file, content, len), len);
	return file;
}

static int make_sealed(size_t len, int seals)
{
	int file = make_file(len, MFD_ALLOW_SEALING);

	assert_int_equal(fcntl(file, F_ADD_SEALS, seals), 0);
	return file;
}

static ino_t inode_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

/* The next message, which has the content of make_content(); to be released. */
static struct message expect(struct channel *channel, uint32_t kind, uint64_t number, size_t len)
{
	_cleanup_(freep) unsigned char *content = make_content(len);
	struct message message;
	struct reason why = {};
	int r = channel_receive(channel, &message, &why);

	if (r != 1)
		fail_msg("%d for a message: %s", r, why.text);
	assert_int_equal(message.kind, kind);
	assert_int_equal(message.number, number);
	assert_int_equal(message.len, len);
	assert_memory_equal(message.content, content, len);
	return message;
}

static void expect_nothing(struct channel *channel, int result)
{
	struct message message = { .number = 77 };

	assert_int_equal(channel_receive(channel, &message, NULL), result);
	assert_int_equal(message.number, 77);
}

static void expect_alone(struct channel *channel, uint32_t kind, uint64_t number, size_t len)
{
	struct message message = expect(channel, kind, number, len);

	assert_int_equal(message.fd, -1);
	message_release(&message);
	message_release(&message);
}

/* After whatever was refused. */
static void expect_usable(const struct ends *ends)
{
	assert_int_equal(channel_send(ends->a, 1, 5, "", 0, -1), 0);
	expect_alone(ends->b, 1, 5, 0);
	expect_nothing(ends->b, 0);
}

static void test_sizes(_unused_ void **state)
{
	static const size_t sizes[] = {
		0, 1, CHANNEL_PACKET_MAX - 1, CHANNEL_PACKET_MAX, CHANNEL_PACKET_MAX + 1, LARGE
	};
	struct ends ends = open_ends();

	expect_nothing(ends.a, 0);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		_cleanup_(freep) unsigned char *content = make_content(sizes[i]);

		assert_int_equal(channel_send(ends.a, (uint32_t)i, UINT64_MAX - i, content, sizes[i], -1), 0);
		assert_int_equal(channel_send(ends.b, NR_KINDS - 1, 0, content, sizes[i], -1), 0);
		expect_alone(ends.a, NR_KINDS - 1, 0, sizes[i]);
		expect_alone(ends.b, (uint32_t)i, UINT64_MAX - i, sizes[i]);
		assert_int_equal(channel_events(ends.a), EPOLLIN);
	}
	expect_nothing(ends.b, 0);
	close_ends(&ends);
}

/* The socket's buffer decides which content is in a packet. */
static void test_small_buffer(_unused_ void **state)
{
	_cleanup_(freep) unsigned char *content = make_content(60000);
	struct ends ends = { .nr_files = nr_open_files() };
	int fds[2], least = 1;

	assert_int_equal(channel_pair(fds), 0);
	assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)), 0);
	assert_int_equal(channel_new(&ends.a, fds[0], &rules), 0);
	assert_int_equal(channel_new(&ends.b, fds[1], &rules), 0);
	for (size_t len = 4000; len < 5000; len++) {
		assert_int_equal(channel_send(ends.a, 1, len, content, len, -1), 0);
		expect_alone(ends.b, 1, len, len);
	}
	assert_int_equal(channel_send(ends.a, 1, 2, content, 60000, -1), 0);
	expect_alone(ends.b, 1, 2, 60000);
	close_ends(&ends);
}

static void test_descriptor(_unused_ void **state)
{
	static const size_t sizes[] = { 0, 10, LARGE };
	struct ends ends = open_ends();
	_cleanup_(closep) int fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		_cleanup_(freep) unsigned char *content = make_content(sizes[i]);
		struct message message;

		assert_int_equal(channel_send(ends.a, 1, 2, content, sizes[i], fd), 0);
		message = expect(ends.b, 1, 2, sizes[i]);
		assert_int_not_equal(message.fd, fd);
		assert_int_equal(inode_of(message.fd), inode_of(fd));
		assert_int_equal(fcntl(message.fd, F_GETFD), FD_CLOEXEC);
		message_release(&message);
	}
	assert_int_equal(channel_send(ends.a, 1, 2, "", 0, 9999), -EBADF);
	expect_usable(&ends);
	fd = safe_close(fd);
	close_ends(&ends);
}

/* The content and the descriptor of a message can outlive it. */
static void test_taking(_unused_ void **state)
{
	_cleanup_(freep) unsigned char *content = make_content(LARGE);
	struct ends ends = open_ends();
	struct message message;
	struct blob *blob;
	int fd;

	assert_int_equal(channel_send(ends.a, 1, 2, content, LARGE, STDERR_FILENO), 0);
	message = expect(ends.b, 1, 2, LARGE);
	blob = steal_ptr(message.blob);
	fd = steal_fd(&message.fd);
	message_release(&message);
	assert_memory_equal(blob->data, content, LARGE);
	blob_unref(blob);
	assert_int_equal(close(fd), 0);
	close_ends(&ends);
}

static void test_file(_unused_ void **state)
{
	static const size_t sizes[] = { 0, 1, 4096, LARGE };
	struct ends ends = open_ends();

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		_cleanup_(closep) int file = make_file(sizes[i], MFD_ALLOW_SEALING);
		struct message message;

		/* The second time it has its seals. */
		assert_int_equal(channel_send_file(ends.a, 1, 2, file, -1), 0);
		assert_int_equal(channel_send_file(ends.a, 3, 4, file, STDERR_FILENO), 0);
		assert_int_equal(fcntl(file, F_GET_SEALS), SEALS | F_SEAL_SEAL);
		expect_alone(ends.b, 1, 2, sizes[i]);
		message = expect(ends.b, 3, 4, sizes[i]);
		assert_int_equal(inode_of(message.fd), inode_of(STDERR_FILENO));
		message_release(&message);
	}
	close_ends(&ends);
}

static void test_wrong_file(_unused_ void **state)
{
	struct ends ends = open_ends();
	int for_good = make_file(10, 0), mapped = make_file(10, MFD_ALLOW_SEALING), pipes[2];
	void *memory = mmap(NULL, 10, PROT_READ | PROT_WRITE, MAP_SHARED, mapped, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(channel_send_file(ends.a, 1, 2, for_good, -1), -EPERM);
	assert_int_equal(channel_send_file(ends.a, 1, 2, mapped, -1), -EBUSY);
	assert_int_equal(channel_send_file(ends.a, 1, 2, pipes[1], -1), -EINVAL);
	assert_int_equal(channel_send_file(ends.a, 1, 2, -1, -1), -EBADF);
	expect_usable(&ends);
	(void)munmap(memory, 10);
	close(for_good);
	close(mapped);
	close(pipes[0]);
	close(pipes[1]);
	close_ends(&ends);
}

/* --- a full socket */

/* With packets that are no messages. */
static void fill(struct channel *channel)
{
	while (send(channel_fd(channel), "", 1, MSG_DONTWAIT) == 1)
		;
	assert_int_equal(errno, EAGAIN);
}

static void drain(struct channel *channel)
{
	char byte[2];

	while (recv(channel_fd(channel), byte, sizeof(byte), MSG_DONTWAIT) == 1)
		;
	assert_int_equal(errno, EAGAIN);
}

static bool is_writable(struct channel *channel)
{
	struct pollfd poll_fd = { .fd = channel_fd(channel), .events = POLLOUT };

	return poll(&poll_fd, 1, 0) == 1;
}

static size_t size_of_number(uint64_t number)
{
	return number % 50 == 7 ? CHANNEL_PACKET_MAX + number : number % 1000;
}

/* As many messages wait as may, of all kinds, and arrive in order. */
static void fill_with_messages(const struct ends *ends)
{
	_cleanup_(freep) unsigned char *content = make_content(2 * CHANNEL_PACKET_MAX);
	uint64_t nr_sent = 0, nr_waiting = 0;

	for (int r = 0; r == 0; nr_sent += r == 0) {
		r = channel_send(ends->a, 3, nr_sent, content, size_of_number(nr_sent),
				 nr_sent % 3 ? STDERR_FILENO : -1);
		assert_true(r == 0 || r == -ENOBUFS);
		nr_waiting += r == 0 && channel_events(ends->a) == (EPOLLIN | EPOLLOUT);
	}
	assert_int_equal(nr_waiting, CHANNEL_QUEUE_MESSAGES);
	assert_false(is_writable(ends->a));
	for (uint64_t number = 0; number < nr_sent; number++) {
		struct message message = expect(ends->b, 3, number, size_of_number(number));

		assert_int_equal(message.fd >= 0, number % 3 != 0);
		message_release(&message);
		if (is_writable(ends->a))
			assert_int_equal(channel_flush(ends->a), 0);
	}
	assert_int_equal(channel_events(ends->a), EPOLLIN);
	expect_usable(ends);
}

static void test_order(_unused_ void **state)
{
	struct ends ends = open_ends();

	fill_with_messages(&ends);
	fill_with_messages(&ends);
	close_ends(&ends);
}

/* Its owner need not call channel_flush(): a later message sends the earlier ones first. */
static void test_send_flushes(_unused_ void **state)
{
	struct ends ends = open_ends();

	fill(ends.a);
	assert_int_equal(channel_send(ends.a, 1, 1, "", 0, -1), 0);
	drain(ends.b);
	assert_int_equal(channel_send(ends.a, 1, 2, "", 0, -1), 0);
	assert_int_equal(channel_events(ends.a), EPOLLIN);
	expect_alone(ends.b, 1, 1, 0);
	expect_alone(ends.b, 1, 2, 0);
	close_ends(&ends);
}

static void test_waiting_bytes(_unused_ void **state)
{
	struct ends ends = open_ends();
	int half = make_file(CHANNEL_QUEUE_BYTES / 2, MFD_ALLOW_SEALING);
	int more = make_file(CHANNEL_QUEUE_BYTES + 1, MFD_ALLOW_SEALING);

	for (int times = 0; times < 2; times++) {
		fill(ends.a);
		assert_int_equal(channel_send_file(ends.a, 1, 1, half, -1), 0);
		assert_int_equal(channel_send_file(ends.a, 1, 2, half, -1), 0);
		assert_int_equal(channel_send(ends.a, 1, 3, "x", 1, -1), -ENOBUFS);
		assert_int_equal(channel_send(ends.a, 1, 4, "", 0, -1), 0);
		drain(ends.b);
		assert_int_equal(channel_flush(ends.a), 0);
		expect_alone(ends.b, 1, 1, CHANNEL_QUEUE_BYTES / 2);
		expect_alone(ends.b, 1, 2, CHANNEL_QUEUE_BYTES / 2);
		expect_alone(ends.b, 1, 4, 0);
	}
	/* A single message may be larger. */
	fill(ends.a);
	assert_int_equal(channel_send_file(ends.a, 1, 5, more, -1), 0);
	assert_int_equal(channel_send(ends.a, 1, 6, "", 0, -1), -ENOBUFS);
	drain(ends.b);
	assert_int_equal(channel_flush(ends.a), 0);
	expect_alone(ends.b, 1, 5, CHANNEL_QUEUE_BYTES + 1);
	close(half);
	close(more);
	close_ends(&ends);
}

static void test_dropped(_unused_ void **state)
{
	_cleanup_(freep) unsigned char *content = make_content(LARGE);
	struct ends ends = open_ends();

	rlim_t copy;

	fill(ends.a);
	copy = next_file();
	assert_int_equal(channel_send(ends.a, 1, 1, content, 10, STDERR_FILENO), 0);
	assert_int_equal(inode_of((int)copy), inode_of(STDERR_FILENO));
	assert_int_equal(fcntl((int)copy, F_GETFD), FD_CLOEXEC);
	assert_int_equal(channel_send(ends.a, 1, 2, content, LARGE, STDERR_FILENO), 0);
	close_ends(&ends);
}

/* --- the end */

static void test_end(_unused_ void **state)
{
	struct ends ends = open_ends();

	fill(ends.b);
	assert_int_equal(channel_send(ends.b, 1, 4, "", 0, -1), 0);
	drain(ends.a);
	assert_int_equal(channel_flush(ends.b), 0);
	/* Also where the end that was closed has not read all: the kernel tells that before the message. */
	assert_int_equal(channel_send(ends.a, 1, 3, "", 0, STDERR_FILENO), 0);
	ends.b = channel_free(ends.b);
	expect_alone(ends.a, 1, 4, 0);
	expect_nothing(ends.a, -EPIPE);
	expect_nothing(ends.a, -EPIPE);
	assert_int_equal(channel_send(ends.a, 1, 4, "", 0, -1), -EPIPE);
	close_ends(&ends);
}

static void test_end_of_waiting(_unused_ void **state)
{
	struct ends ends = open_ends();

	fill(ends.a);
	assert_int_equal(channel_send(ends.a, 1, 4, "", 0, -1), 0);
	ends.b = channel_free(ends.b);
	assert_int_equal(channel_flush(ends.a), -EPIPE);
	assert_int_equal(channel_send(ends.a, 1, 4, "", 0, -1), -EPIPE);
	expect_nothing(ends.a, -EPIPE);
	close_ends(&ends);
}

/* --- packets that are no messages */

/* The other end of a channel sends these bytes and descriptors. */
static void send_raw(struct channel *channel, const void *bytes, size_t n, const int *fds, size_t nr_fds)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(253 * sizeof(int))];
	} control = {};
	struct iovec part = { (void *)bytes, n };
	struct msghdr packet = { .msg_iov = &part, .msg_iovlen = 1 };

	if (nr_fds) {
		control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
		control.header.cmsg_len = CMSG_LEN(nr_fds * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, nr_fds * sizeof(int));
		packet.msg_control = &control;
		packet.msg_controllen = CMSG_SPACE(nr_fds * sizeof(int));
	}
	assert_int_equal(sendmsg(channel_fd(channel), &packet, 0), n);
}

/* The packet is refused with a sentence that has this text, and the next one is received. */
static void expect_refused(const struct ends *ends, int result, const char *text)
{
	struct message message;
	struct reason why = {};
	size_t nr_files = nr_open_files();
	int r = channel_receive(ends->b, &message, &why);

	if (r != result || !strstr(why.text, text))
		fail_msg("%d, \"%s\" for a packet of which is said \"%s\"", r, why.text, text);
	assert_int_equal(nr_open_files(), nr_files);
	expect_usable(ends);
}

static void test_nonsense(_unused_ void **state)
{
	static const struct {
		struct raw header;
		size_t n; /* bytes of the packet */
		const char *text;
	} cases[] = {
		{ { PROTOCOL, 1, 2, 0, 0 }, 1, "a packet of 1 bytes is shorter than a header" },
		{ { PROTOCOL, 1, 2, 0, 0 }, 31, "a packet of 31 bytes is shorter than a header" },
		{ { PROTOCOL + 1, 1, 2, 0, 0 }, 32, "protocol 0x70660002, and this process speaks 0x70660001" },
		{ { PROTOCOL, NR_KINDS, 2, 0, 0 }, 32, "the unknown kind 10" },
		{ { PROTOCOL, UINT32_MAX, 2, 0, 0 }, 32, "the unknown kind 4294967295" },
		{ { PROTOCOL, 1, 2, 0, 4 }, 32, "kind 1 carries unknown things" },
		{ { PROTOCOL, 1, 2, 0, 1ULL << 63 }, 32, "kind 1 carries unknown things" },
		{ { PROTOCOL, 1, 2, 1, 0 }, 32, "kind 1 has a wrong length" },
		{ { PROTOCOL, 1, 2, 0, 0 }, 33, "kind 1 has a wrong length" },
		{ { PROTOCOL, 1, 2, 10, 0 }, 41, "kind 1 has a wrong length" },
		{ { PROTOCOL, 1, 2, CHANNEL_PACKET_MAX, 0 }, CHANNEL_PACKET_MAX + 33, "kind 1 has a wrong length" },
		{ { PROTOCOL, 1, 2, CHANNEL_PACKET_MAX + 1, 0 }, CHANNEL_PACKET_MAX + 33, "a wrong length" },
		{ { PROTOCOL, 1, 2, CONTENT_MAX + 1, 0 }, 32, "kind 1 has more than 33554432 bytes" },
		{ { PROTOCOL, 1, 2, UINT64_MAX, 0 }, 32, "kind 1 has more than 33554432 bytes" },
		{ { PROTOCOL, 1, 2, 0, CARRIES_FD }, 32, "kind 1 has 0 descriptors, 1 were announced" },
		{ { PROTOCOL, 1, 2, 9, CARRIES_FILE }, 32, "kind 1 has 0 descriptors, 1 were announced" },
		{ { PROTOCOL, 1, 2, 9, CARRIES_FILE | CARRIES_FD }, 32, "kind 1 has 0 descriptors, 2 were announced" },
	};
	static unsigned char bytes[CHANNEL_PACKET_MAX + 100];
	struct ends ends = open_ends();

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		memcpy(bytes, &cases[i].header, sizeof(cases[i].header));
		send_raw(ends.a, bytes, cases[i].n, NULL, 0);
		expect_refused(&ends, -EPROTO, cases[i].text);
	}
	/* This one is a message. */
	send_raw(ends.a, &(struct raw){ PROTOCOL, 1, 2, 0, 0 }, 32, NULL, 0);
	expect_alone(ends.b, 1, 2, 0);
	close_ends(&ends);
}

/* The least that a receiver takes. */
static void test_limit(_unused_ void **state)
{
	_cleanup_(freep) unsigned char *content = make_content(CHANNEL_PACKET_MAX + 2);
	static const size_t limits[] = { 0, 10, CHANNEL_PACKET_MAX + 1 };

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct ends ends = { .nr_files = nr_open_files() };
		const struct channel_rules narrow = { PROTOCOL, NR_KINDS, limits[i] };
		int fds[2];

		assert_int_equal(channel_pair(fds), 0);
		assert_int_equal(channel_new(&ends.a, fds[0], &rules), 0);
		assert_int_equal(channel_new(&ends.b, fds[1], &narrow), 0);
		assert_int_equal(channel_send(ends.a, 1, 2, content, limits[i], -1), 0);
		expect_alone(ends.b, 1, 2, limits[i]);
		assert_int_equal(channel_send(ends.a, 1, 2, content, limits[i] + 1, STDERR_FILENO), 0);
		expect_refused(&ends, -EPROTO, "kind 1 has more than");
		close_ends(&ends);
	}
}

static void test_more_descriptors(_unused_ void **state)
{
	static const struct {
		uint64_t carries;
		size_t nr;
		const char *text;
	} cases[] = {
		{ 0, 1, "kind 1 has 1 descriptors, 0 were announced" },
		{ CARRIES_FD, 2, "kind 1 has 2 descriptors, 1 were announced" },
		{ CARRIES_FILE | CARRIES_FD, 1, "kind 1 has 1 descriptors, 2 were announced" },
		{ CARRIES_FILE | CARRIES_FD, 3, "kind 1 has more than 2 descriptors, 2 were announced" },
		{ 0, 253, "kind 1 has more than 2 descriptors, 0 were announced" },
	};
	struct ends ends = open_ends();
	int fds[253];

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = STDERR_FILENO;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		send_raw(ends.a, &(struct raw){ PROTOCOL, 1, 2, 0, cases[i].carries }, 32, fds, cases[i].nr);
		expect_refused(&ends, -EPROTO, cases[i].text);
	}
	/* The descriptors of what is no message are closed too. An empty packet is taken for the end. */
	send_raw(ends.a, "x", 1, fds, 2);
	expect_refused(&ends, -EPROTO, "a packet of 1 bytes is shorter than a header");
	send_raw(ends.a, "", 0, fds, 2);
	expect_nothing(ends.b, -EPIPE);
	close_ends(&ends);
}

/* Closes the file. */
static void expect_file_refused(const struct ends *ends, int file, size_t len, int result, const char *text)
{
	int fds[] = { file, STDERR_FILENO };

	assert_true(file >= 0);
	send_raw(ends->a, &(struct raw){ PROTOCOL, 1, 2, len, CARRIES_FILE | CARRIES_FD }, 32, fds, 2);
	assert_int_equal(close(file), 0);
	expect_refused(ends, result, text);
}

static int open_again(int file, int flags)
{
	char path[64];
	int again;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	again = open(path, flags | O_CLOEXEC);
	close(file);
	return again;
}

static void test_files_refused(_unused_ void **state)
{
	static const char unsealed[] = "kind 1 is not in a sealed memfd", size[] = "kind 1 has a wrong size";
	static const int few[] = { F_SEAL_SHRINK | F_SEAL_GROW, F_SEAL_SHRINK | F_SEAL_WRITE,
				   F_SEAL_GROW | F_SEAL_WRITE, F_SEAL_SEAL,
				   F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE };
	struct ends ends = open_ends();
	char both[sizeof(struct raw) + 1] = {};
	int pipes[2], file;

	expect_file_refused(&ends, make_file(1000, 0), 1000, -EPROTO, unsealed);
	expect_file_refused(&ends, make_file(1000, MFD_ALLOW_SEALING), 1000, -EPROTO, unsealed);
	for (size_t i = 0; i < ARRAY_SIZE(few); i++)
		expect_file_refused(&ends, make_sealed(1000, few[i]), 1000, -EPROTO, unsealed);
	expect_file_refused(&ends, make_sealed(1000, SEALS), 1001, -EPROTO, size);
	expect_file_refused(&ends, make_sealed(1000, SEALS), 999, -EPROTO, size);
	expect_file_refused(&ends, make_sealed(1000, SEALS), 0, -EPROTO, size);
	expect_file_refused(&ends, make_sealed(0, SEALS), LARGE, -EPROTO, size);
	expect_file_refused(&ends, make_sealed(1000, SEALS), CONTENT_MAX + 1, -EPROTO, "kind 1 has more than");
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	expect_file_refused(&ends, pipes[0], 0, -EPROTO, unsealed);
	close(pipes[1]);
	expect_file_refused(&ends, open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), 0, -EPROTO, unsealed);
	expect_file_refused(&ends, open_again(make_sealed(10, SEALS), O_PATH), 10, -EPROTO, unsealed);
	expect_file_refused(&ends, open_again(make_sealed(10, SEALS), O_WRONLY), 10, -EACCES, "can't be mapped");

	/* The content can't be in both places. */
	file = make_sealed(1, SEALS);
	memcpy(both, &(struct raw){ PROTOCOL, 1, 2, 1, CARRIES_FILE }, sizeof(struct raw));
	send_raw(ends.a, both, sizeof(both), &file, 1);
	expect_refused(&ends, -EPROTO, "kind 1 has a wrong length");
	close(file);
	close_ends(&ends);
}

/* --- nothing left */

static void test_no_file_to_send(_unused_ void **state)
{
	_cleanup_(freep) unsigned char *content = make_content(LARGE);
	struct ends ends = open_ends();
	rlim_t limit = limit_files(next_file());

	assert_int_equal(channel_send(ends.a, 1, 2, content, LARGE, -1), -EMFILE);
	assert_int_equal(channel_send(ends.a, 1, 3, content, 10, -1), 0);
	fill(ends.a);
	assert_int_equal(channel_send(ends.a, 1, 4, content, 10, STDERR_FILENO), -EMFILE);
	assert_int_equal(channel_send(ends.a, 1, 5, content, 10, -1), 0);
	(void)limit_files(limit);
	expect_alone(ends.b, 1, 3, 10);
	drain(ends.b);
	assert_int_equal(channel_flush(ends.a), 0);
	expect_alone(ends.b, 1, 5, 10);
	close_ends(&ends);
}

/* One of two descriptors can be opened, or none. */
static void test_no_file_to_receive(_unused_ void **state)
{
	_cleanup_(freep) unsigned char *content = make_content(LARGE);
	struct ends ends = open_ends();

	for (rlim_t room = 0; room < 2; room++) {
		struct reason why = {};
		struct message message;
		rlim_t limit;
		int r;

		assert_int_equal(channel_send(ends.a, 1, 2, content, LARGE, STDERR_FILENO), 0);
		limit = limit_files(next_file() + room);
		r = channel_receive(ends.b, &message, &why);
		(void)limit_files(limit);
		assert_int_equal(r, -EMFILE);
		assert_string_equal(why.text, "a message of kind 1 is lost: too many files are open");
		expect_usable(&ends);
	}
	close_ends(&ends);
}

int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);

static bool is_full;

int __wrap_memfd_create(const char *name, unsigned flags)
{
	return is_full ? open("/dev/full", O_RDWR | O_CLOEXEC) : __real_memfd_create(name, flags);
}

static void test_no_space(_unused_ void **state)
{
	_cleanup_(freep) unsigned char *content = make_content(LARGE);
	struct ends ends = open_ends();

	is_full = true;
	assert_int_equal(channel_send(ends.a, 1, 2, content, LARGE, -1), -ENOSPC);
	is_full = false;
	expect_usable(&ends);
	close_ends(&ends);
}

static int nr_allocations;

static bool next_fails(void)
{
	return nr_allocations-- == 0;
}

static void test_no_memory(_unused_ void **state)
{
	struct channel *channel = NULL;
	struct ends ends = open_ends();

	memory_fails = next_fails;
	nr_allocations = 0;
	assert_int_equal(channel_new(&channel, channel_fd(ends.a), &rules), -ENOMEM);
	assert_null(channel);

	/* Before it is received, it stays where it is; after that, it is lost. */
	assert_int_equal(channel_send(ends.a, 1, 2, "", 0, STDERR_FILENO), 0);
	nr_allocations = 0;
	expect_nothing(ends.b, -ENOMEM);
	nr_allocations = 1;
	expect_nothing(ends.b, -ENOMEM);
	memory_fails = NULL;
	expect_usable(&ends);

	fill(ends.a);
	memory_fails = next_fails;
	nr_allocations = 0;
	assert_int_equal(channel_send(ends.a, 1, 3, "", 0, STDERR_FILENO), -ENOMEM);
	memory_fails = NULL;
	assert_int_equal(channel_events(ends.a), EPOLLIN);
	drain(ends.b);
	expect_usable(&ends);
	close_ends(&ends);
}

/* A socket that was inherited is not passed on. */
static void test_new(_unused_ void **state)
{
	struct channel *channel = NULL;
	int fds[2], file = make_file(0, 0);

	assert_int_equal(channel_new(&channel, file, &rules), -ENOTSOCK);
	assert_null(channel);
	assert_int_equal(close(file), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	assert_int_equal(channel_new(&channel, fds[0], &rules), 0);
	assert_int_equal(channel_fd(channel), fds[0]);
	assert_int_equal(fcntl(fds[0], F_GETFD), FD_CLOEXEC);
	expect_nothing(channel, 0);
	assert_null(channel_free(channel));
	assert_null(channel_free(NULL));
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_small_buffer),
		cmocka_unit_test(test_descriptor),
		cmocka_unit_test(test_taking),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_wrong_file),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_send_flushes),
		cmocka_unit_test(test_waiting_bytes),
		cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_end_of_waiting),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_more_descriptors),
		cmocka_unit_test(test_files_refused),
		cmocka_unit_test(test_no_file_to_send),
		cmocka_unit_test(test_no_file_to_receive),
		cmocka_unit_test(test_no_space),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_new),
	};

	return cmocka_run_group_tests_name("channel", tests, NULL, NULL);
}
