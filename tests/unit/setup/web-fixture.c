/* SPDX-License-Identifier: MIT */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "setup/web-fixture.h"

#include "setup/made-snapshot.h"

#include "base/config/address.h"
#include "base/util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define PATIENCE_NS (120 * (uint64_t)NS_PER_S)

static const struct made_event events[] = {
	{ SCOPE_CPU, "software", "context-switches", .type = PERF_TYPE_SOFTWARE, .config = 3 },
	{ SCOPE_CGROUP, "software", "page-faults", .type = PERF_TYPE_SOFTWARE, .config = 2 },
	{},
};

/* --- the time */

/* No longer than this passes between two looks at the clock, but for a pause of this process. */
#define LOOK_NS (100 * (uint64_t)NS_PER_MS)

/* Of the thread of the loop and the client. */
static _Thread_local uint64_t last_look; /* 0: another thread */
static _Atomic uint64_t paused_ns;
static struct fixture *fixture;

uint64_t __real_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void);

uint64_t __wrap_clock_monotonic_ns(void)
{
	uint64_t now = __real_clock_monotonic_ns();

	if (last_look && now - last_look > LOOK_NS)
		paused_ns += now - last_look - LOOK_NS;
	if (last_look)
		last_look = now;
	if (fixture && fixture->stopped_ns)
		return fixture->stopped_ns;
	return now - paused_ns + (fixture ? (uint64_t)fixture->answer_ms * fixture->fake->nr_written * NS_PER_MS : 0);
}

/* --- the server */

int fixture_start(struct fixture *f, const char *const *listen, size_t nr, struct reason *why)
{
	f->web = web_free(f->web);
	/* web_new() takes what the config has: strings that are not const, and that it leaves alone. */
	return web_new(&f->web, f->loop, (char *const *)(uintptr_t)listen, nr, &f->fake->source, f->options, why);
}

void fixture_start_one(struct fixture *f, const char *listen)
{
	struct reason why = {};

	if (fixture_start(f, &listen, 1, &why) < 0)
		fail_msg("%s", why.text);
}

void fixture_restart(struct fixture *f)
{
	fixture_start_one(f, "127.0.0.1:0");
}

int fixture_setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	last_look = __real_clock_monotonic_ns();
	paused_ns = 0;
	fixture = f;
	f->fake = fake_source_new(made_snapshot(events));
	made_row(f->fake->snapshot, SCOPE_CPU, 0, NULL, 0);
	made_cell(f->fake->snapshot, SCOPE_CPU, 0, 0, 7, 1);
	f->options = web_options_new();
	assert_non_null(f->options);
	f->options->max_connections_per_address = f->options->max_connections;
	assert_int_equal(sd_event_new(&f->loop), 0);
	strcpy(f->folder, "/tmp/perfmond-test-XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	fixture_start_one(f, "127.0.0.1:0");
	*state = f;
	return 0;
}

int fixture_teardown(void **state)
{
	struct fixture *f = *state;

	web_free(f->web);
	web_options_unref(f->options);
	/* Nothing of the web stays on the loop, which would be the last to hold it. */
	assert_null(sd_event_unref(f->loop));
	assert_int_equal(rmdir(f->folder), 0);
	fixture = NULL;
	fake_source_free(f->fake);
	free(f);
	return 0;
}

void fixture_make_large(struct fixture *f)
{
	char path[128];

	for (size_t i = 0; i < LARGE; i++) {
		(void)snprintf(path, sizeof(path), "/system.slice/a-rather-long-name-of-a-service-%zu.service", i);
		made_row(f->fake->snapshot, SCOPE_CGROUP, ROW_ALL_CPUS, path, i);
		made_cell(f->fake->snapshot, SCOPE_CGROUP, i, 0, i, 0);
	}
}

bool turn(struct fixture *f)
{
	int r = sd_event_run(f->loop, 2000);

	assert_true(r >= 0);
	/* The web looks at it now and then. */
	(void)clock_monotonic_ns();
	return (!f->holds_answers && fake_source_deliver(f->fake)) || r > 0;
}

uint64_t wait_begin(void)
{
	return __real_clock_monotonic_ns();
}

bool is_too_long(uint64_t begin)
{
	return __real_clock_monotonic_ns() - begin > PATIENCE_NS;
}

uint64_t now_ms(void)
{
	return clock_monotonic_ns() / NS_PER_MS;
}

void assert_idle(struct fixture *f)
{
	size_t idle = 0;

	for (size_t i = 0; idle < 20; i++) {
		assert_true(i < 10000);
		idle = turn(f) ? 0 : idle + 1;
	}
}

/* --- the client */

/* The address a URL of ours stands for. */
static void address_of(const char *url, struct address *ret)
{
	const char *text = strncmp(url, "unix:", 5) == 0 ? url + 5 : url + strlen("http://");

	assert_int_equal(address_parse(ret, text, NULL), 0);
}

int dial(struct fixture *f, size_t listener)
{
	struct address address;
	int fd;

	address_of(web_url(f->web, listener), &address);
	fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	/* The kernel takes it without the server's help. */
	if (connect(fd, &address.any, address.size) < 0)
		fail_msg("connect: %s", strerror(errno));
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

void send_all(struct fixture *f, int fd, const char *data, size_t n)
{
	uint64_t begin = wait_begin();

	while (n > 0) {
		ssize_t sent = send(fd, data, n, MSG_NOSIGNAL);

		if (sent > 0) {
			data += sent;
			n -= (size_t)sent;
		} else if (errno != EAGAIN) {
			return;
		}
		turn(f);
		if (is_too_long(begin))
			fail_msg("the server does not take the request: %zu bytes are left", n);
	}
}

void send_text(struct fixture *f, int fd, const char *text)
{
	send_all(f, fd, text, strlen(text));
}

/* Does b hold a whole reply with its body? Then where it ends. */
static bool is_complete(const struct buf *b, bool head, size_t *end)
{
	const char *body = memmem(b->data, b->len, "\r\n\r\n", 4), *length;

	if (!body)
		return false;
	length = memmem(b->data, (size_t)(body - b->data), "Content-Length: ", 16);
	if (!length)
		return false;
	*end = (size_t)(body + 4 - b->data) + (head ? 0 : strtoul(length + 16, NULL, 10));
	return b->len >= *end;
}

char *receive(struct fixture *f, int fd, bool head)
{
	uint64_t begin = wait_begin();
	struct buf b = {};
	size_t whole;

	do {
		ssize_t n;

		assert_true(buf_reserve(&b, 65536));
		n = recv(fd, b.data + b.len, b.cap - b.len, 0);
		if (n == 0 || (n < 0 && errno != EAGAIN)) {
			buf_release(&b);
			return NULL;
		}
		if (n > 0)
			b.len += (size_t)n;
		turn(f);
		if (is_too_long(begin))
			fail_msg("no whole reply has come, but %zu bytes", b.len);
	} while (!is_complete(&b, head, &whole));
	return buf_steal(&b);
}

char *exchange_on(struct fixture *f, size_t listener, const char *request)
{
	_cleanup_(closep) int fd = dial(f, listener);

	send_text(f, fd, request);
	return receive(f, fd, strncmp(request, "HEAD", 4) == 0);
}

char *exchange(struct fixture *f, const char *request)
{
	return exchange_on(f, 0, request);
}

char *get(struct fixture *f, const char *method, const char *target)
{
	char request[512];

	(void)snprintf(request, sizeof(request), "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		       method, target);
	return exchange(f, request);
}

unsigned status_of(const char *reply)
{
	unsigned status = 0;

	if (reply)
		(void)sscanf(reply, "HTTP/1.1 %u", &status);
	return status;
}

bool has_header(const char *reply, const char *header)
{
	const char *end = strstr(reply, "\r\n\r\n"), *p = strstr(reply, header);

	return p && p < end && p[-1] == '\n' && strncmp(p + strlen(header), "\r\n", 2) == 0;
}

void assert_waits(int fd)
{
	char byte;

	assert_true(recv(fd, &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN);
}

void expect(struct fixture *f, int fd, unsigned status, const char *says)
{
	_cleanup_(freep) char *reply = receive(f, fd, false);

	if (status_of(reply) != status || !strstr(reply, says))
		fail_msg("%s", reply);
	close(fd);
}

void assert_works(struct fixture *f)
{
	_cleanup_(freep) char *reply = get(f, "GET", "/-/healthy");

	assert_int_equal(status_of(reply), 200);
	assert_non_null(strstr(reply, "\r\n\r\nhealthy\n"));
}
