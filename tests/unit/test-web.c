/* SPDX-License-Identifier: MIT */

/*
 * The web room on a real loop and real sockets. Client and server are in one process: the client's sockets
 * do not block, and the loop is run in turns with them.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fake-source.h"
#include "made-snapshot.h"

#include "web/address.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* No exchange takes longer, but for a server that hangs. */
#define PATIENCE_NS 10000000000U

static const struct made_event events[] = {
	{ SCOPE_CPU, "software", "context-switches", .type = PERF_TYPE_SOFTWARE, .config = 3 },
	{ SCOPE_CGROUP, "software", "page-faults", .type = PERF_TYPE_SOFTWARE, .config = 2 },
	{},
};

struct fixture {
	sd_event *loop;
	struct web *web;
	struct fake_source *fake;
	char folder[64]; /* for Unix sockets */
};

/* --- the server */

static int start(struct fixture *f, const char *const *listen, size_t nr, struct reason *why)
{
	char *addresses[8];

	for (size_t i = 0; i < nr; i++)
		addresses[i] = strdup(listen[i]);
	f->web = web_free(f->web);
	int r = web_new(&f->web, f->loop, addresses, nr, &f->fake->source, why);
	for (size_t i = 0; i < nr; i++)
		free(addresses[i]);
	return r;
}

static void start_one(struct fixture *f, const char *listen)
{
	struct reason why = {};

	if (start(f, &listen, 1, &why) < 0)
		fail_msg("%s", why.text);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->fake = fake_source_new(made_snapshot(events));
	made_row(f->fake->snapshot, SCOPE_CPU, 0, NULL, 0);
	made_cell(f->fake->snapshot, SCOPE_CPU, 0, 0, 7, 1);
	assert_int_equal(sd_event_new(&f->loop), 0);
	strcpy(f->folder, "/tmp/perfmond-test-XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	start_one(f, "127.0.0.1:0");
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	web_free(f->web);
	/* Nothing of the web stays on the loop, which would be the last to hold it. */
	assert_null(sd_event_unref(f->loop));
	assert_int_equal(rmdir(f->folder), 0);
	fake_source_free(f->fake);
	free(f);
	return 0;
}

/* Some MB: an answer that no socket buffer holds. */
#define LARGE 10000U

static void make_large(struct fixture *f)
{
	char path[128];

	for (size_t i = 0; i < LARGE; i++) {
		(void)snprintf(path, sizeof(path), "/system.slice/a-rather-long-name-of-a-service-%zu.service", i);
		made_row(f->fake->snapshot, SCOPE_CGROUP, ROW_ALL_CPUS, path, i);
		made_cell(f->fake->snapshot, SCOPE_CGROUP, i, 0, i, 0);
	}
}

static void turn(struct fixture *f)
{
	assert_true(sd_event_run(f->loop, 2000) >= 0);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

/* Nothing happens: the loop waits, and does not spin. */
static void assert_idle(struct fixture *f)
{
	uint64_t start_ns;

	for (size_t i = 0; i < 20; i++)
		turn(f);
	start_ns = now_ns();
	for (size_t i = 0; i < 20; i++)
		turn(f);
	assert_true(now_ns() - start_ns > 20 * 1000000);
}

/* --- the client */

/* The address a URL of ours stands for. */
static void address_of(const char *url, struct address *ret)
{
	const char *text = strncmp(url, "unix:", 5) == 0 ? url + 5 : url + strlen("http://");

	assert_int_equal(address_parse(ret, text, NULL), 0);
}

static int dial(struct fixture *f, size_t listener)
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

/* Sends all of it, or what the server takes before it hangs up. */
static void send_all(struct fixture *f, int fd, const char *data, size_t n)
{
	uint64_t end = now_ns() + PATIENCE_NS;

	while (n > 0) {
		ssize_t sent = send(fd, data, n, MSG_NOSIGNAL);

		if (sent > 0) {
			data += sent;
			n -= (size_t)sent;
		} else if (errno != EAGAIN) {
			return;
		}
		turn(f);
		assert_true(now_ns() < end);
	}
}

static void send_text(struct fixture *f, int fd, const char *text)
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

/* One reply, as text; NULL where the connection ended before it was whole. */
static char *receive(struct fixture *f, int fd, bool head)
{
	uint64_t end = now_ns() + PATIENCE_NS;
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
		assert_true(now_ns() < end);
	} while (!is_complete(&b, head, &whole));
	return buf_steal(&b);
}

static char *exchange_on(struct fixture *f, size_t listener, const char *request)
{
	_cleanup_(closep) int fd = dial(f, listener);

	send_text(f, fd, request);
	return receive(f, fd, strncmp(request, "HEAD", 4) == 0);
}

static char *exchange(struct fixture *f, const char *request)
{
	return exchange_on(f, 0, request);
}

static char *get(struct fixture *f, const char *method, const char *target)
{
	char request[512];

	(void)snprintf(request, sizeof(request), "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", method, target);
	return exchange(f, request);
}

static unsigned status_of(const char *reply)
{
	unsigned status = 0;

	if (reply)
		(void)sscanf(reply, "HTTP/1.1 %u", &status);
	return status;
}

static bool has_header(const char *reply, const char *header)
{
	const char *end = strstr(reply, "\r\n\r\n"), *p = strstr(reply, header);

	return p && p < end && p[-1] == '\n' && strncmp(p + strlen(header), "\r\n", 2) == 0;
}

static void assert_works(struct fixture *f)
{
	_cleanup_(freep) char *reply = get(f, "GET", "/-/healthy");

	assert_int_equal(status_of(reply), 200);
	assert_non_null(strstr(reply, "\r\n\r\nhealthy\n"));
}

/* --- requests */

static void test_headers(void **state)
{
	static const struct {
		const char *method, *target;
		unsigned status;
		const char *type;
	} cases[] = {
		{ "GET", "/", 200, "Content-Type: text/html; charset=utf-8" },
		{ "GET", "/metrics", 200, "Content-Type: text/plain; version=0.0.4; charset=utf-8" },
		{ "GET", "/api/v1/snapshot?limit=1", 200, "Content-Type: application/json" },
		{ "GET", "/api/v1/snapshot?limit=x", 400, "Content-Type: application/json" },
		{ "GET", "/api/v1/events", 200, "Content-Type: application/json" },
		{ "GET", "/api/v1/cgroups", 200, "Content-Type: application/json" },
		{ "GET", "/api/v1/status", 200, "Content-Type: application/json" },
		{ "GET", "/-/healthy", 200, "Content-Type: text/plain; charset=utf-8" },
		{ "GET", "/-/ready", 200, "Content-Type: text/plain; charset=utf-8" },
		{ "GET", "/none", 404, "Content-Type: text/plain; charset=utf-8" },
		{ "GET", "//metrics", 404, "Content-Type: text/plain; charset=utf-8" },
		{ "GET", "/metrics%00", 400, "Content-Type: text/plain; charset=utf-8" },
		{ "GET", "http://any.host/metrics", 200, "Content-Type: text/plain; version=0.0.4; charset=utf-8" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *reply = get(f, cases[i].method, cases[i].target);

		if (status_of(reply) != cases[i].status)
			fail_msg("%s: %s", cases[i].target, reply ? reply : "nothing");
		assert_true(has_header(reply, cases[i].type));
		assert_true(has_header(reply, "X-Content-Type-Options: nosniff"));
		assert_true(has_header(reply, "Cache-Control: no-store"));
		assert_non_null(strstr(reply, "\r\nDate: "));
		assert_null(strstr(reply, "\r\nAllow: "));
	}
}

/* The part of a reply that HEAD and GET have in common. */
static char *headers_of(const char *reply)
{
	char *headers = strndup(reply, (size_t)(strstr(reply, "\r\n\r\n") - reply)), *date = strstr(headers, "Date: ");

	/* A second can pass between the two. */
	memset(date, ' ', strcspn(date, "\r"));
	return headers;
}

static void test_head(void **state)
{
	/* Not the snapshot's, which tells its own age. */
	static const char *const targets[] = { "/", "/metrics", "/api/v1/events", "/-/ready", "/none" };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		_cleanup_(freep) char *head = get(f, "HEAD", targets[i]), *whole = NULL;
		_cleanup_(freep) char *a = NULL, *b = NULL;

		whole = get(f, "GET", targets[i]);
		a = headers_of(head);
		b = headers_of(whole);
		assert_string_equal(a, b);
		assert_string_equal(strstr(head, "\r\n\r\n"), "\r\n\r\n");
	}
}

static void test_methods(void **state)
{
	static const char *const requests[] = {
		"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na=b",
		"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
		"PUT /none HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"DELETE / HTTP/1.1\r\nHost: x\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
		"BREW /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
		/* Refused before the gigabyte is sent. */
		"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\nExpect: 100-continue\r\n\r\n",
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		_cleanup_(freep) char *reply = exchange(f, requests[i]);

		if (status_of(reply) != 405)
			fail_msg("%s: %s", requests[i], reply ? reply : "nothing");
		assert_true(has_header(reply, "Allow: GET, HEAD"));
	}
	assert_int_equal(f->fake->nr_snapshots, 0);
}

static void test_body_of_get(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *large = calloc(1, 2000000), *reply = NULL;
	_cleanup_(closep) int fd = -1;

	reply = exchange(f, "GET /-/healthy HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
	assert_int_equal(status_of(reply), 200);

	/* Thrown away up to a bound, then the connection is. */
	fd = dial(f, 0);
	send_text(f, fd, "GET /-/healthy HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n");
	send_all(f, fd, large, 500000);
	free(reply);
	reply = receive(f, fd, false);
	assert_int_equal(status_of(reply), 200);

	send_text(f, fd, "GET /-/healthy HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n");
	send_all(f, fd, large, 2000000);
	assert_null(receive(f, fd, false));
	assert_works(f);
}

static void test_keep_alive_and_pipelining(void **state)
{
	struct fixture *f = *state;
	_cleanup_(closep) int fd = dial(f, 0);
	_cleanup_(freep) char *first = NULL, *two = NULL;
	const char *second;

	send_text(f, fd, "GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n");
	first = receive(f, fd, false);
	assert_int_equal(status_of(first), 200);

	send_text(f, fd,
		  "GET /-/ready HTTP/1.1\r\nHost: x\r\n\r\n"
		  "GET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	two = receive(f, fd, false);
	assert_int_equal(status_of(two), 200);
	second = strstr(two, "ready\nHTTP/1.1 404");
	if (!second) {
		free(two);
		two = receive(f, fd, false);
		assert_int_equal(status_of(two), 404);
	}
}

static void test_scrapes_are_counted(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < 3; i++)
		free(get(f, "GET", "/metrics"));
	free(get(f, "GET", "/"));
	assert_int_equal(f->fake->nr_scraped, 3);
	assert_int_equal(f->fake->snapshot->refs, 1);
}

static void test_failing_source(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *metrics = NULL, *ready = NULL;

	f->fake->snapshot_error = -ENOMEM;
	f->fake->ready = false;
	metrics = get(f, "GET", "/metrics");
	assert_int_equal(status_of(metrics), 503);
	assert_non_null(strstr(metrics, "\r\n\r\nthe counters can't be read: Cannot allocate memory\n"));
	ready = get(f, "GET", "/-/ready");
	assert_int_equal(status_of(ready), 503);
	assert_non_null(strstr(ready, "\r\n\r\nnot ready: 5 cgroups are still to be opened\n"));
	assert_works(f);
}

/* --- clients that misbehave */

static void test_floods(void **state)
{
	struct fixture *f = *state;
	size_t n = 64 * 1024;
	_cleanup_(freep) char *flood = malloc(n + 64), *headers = NULL, *line = NULL, *many = NULL;

	/* One header of 64 KB. */
	(void)snprintf(flood, n, "GET /metrics HTTP/1.1\r\nHost: x\r\nX: ");
	memset(flood + strlen(flood), 'a', n - strlen(flood));
	strcpy(flood + n, "\r\n\r\n");
	headers = exchange(f, flood);
	assert_int_equal(status_of(headers), 431);

	/* Headers without an end. */
	(void)snprintf(flood, n, "GET /metrics HTTP/1.1\r\nHost: x\r\n");
	for (size_t at = strlen(flood); at < n; at += 6)
		strcpy(flood + at, "a: b\r\n");
	many = exchange(f, flood);
	assert_int_equal(status_of(many), 431);

	/* A request line of 64 KB. */
	memset(flood, 'a', n);
	memcpy(flood, "GET /", 5);
	strcpy(flood + n, " HTTP/1.1\r\nHost: x\r\n\r\n");
	line = exchange(f, flood);
	assert_true(status_of(line) == 414 || status_of(line) == 431);

	assert_int_equal(f->fake->nr_snapshots, 0);
	assert_works(f);
}

static void test_noise(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
	} cases[] = {
		{ "\r\n\r\n", 4 },
		{ "GET\r\n\r\n", 7 },
		{ "GET /\r\n\r\n", 9 },
		{ "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11 }, /* TLS */
		{ "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24 },
		{ "GET /metrics\0 HTTP/1.1\r\nHost: x\r\n\r\n", 36 },
		{ "GET /metrics HTTP/9.9\r\nHost: x\r\n\r\n", 35 },
		{ "\0\0\0\0\0\0\0\0\r\n\r\n", 12 },
		{ "GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 55 },
		{ "GET /metrics HTTP/1.1\r\nno colon\r\n\r\n", 35 },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(closep) int fd = dial(f, 0);

		send_all(f, fd, cases[i].bytes, cases[i].n);
		for (size_t k = 0; k < 10; k++)
			turn(f);
		assert_works(f);
	}
}

/* Clients that stop in the middle of a request, or do not take their answer, stop nobody else. */
static void test_slow_clients(void **state)
{
	struct fixture *f = *state;
	int fds[20];
	_cleanup_(freep) char *reply = NULL;

	make_large(f);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = dial(f, 0);
		send_text(f, fds[i], i % 2 ? "GET /metrics HTTP/1.1\r\nHo" : "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	}
	assert_works(f);
	assert_idle(f);

	/* The answer waits, whole, for whoever takes it late. */
	reply = receive(f, fds[0], false);
	assert_int_equal(status_of(reply), 200);
	assert_non_null(strstr(reply, "perf_cgroup_page_faults_total{cgroup=\"/system.slice/a-rather-long-name-of-a-service-"
				      "9999.service\"} 9999\n"));
	assert_string_equal(reply + strlen(reply) - 1, "\n");

	send_text(f, fds[1], "st: x\r\n\r\n");
	free(reply);
	reply = receive(f, fds[1], false);
	assert_int_equal(status_of(reply), 200);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		safe_close(fds[i]);
	assert_works(f);
}

/* Answers that nobody takes are bounded; when their connections end, there is room again. */
static void test_unsent_answers_are_bounded(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *reply = NULL, *after = NULL;
	int fds[40];

	make_large(f);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = dial(f, 0);
		send_text(f, fds[i], "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
		turn(f);
	}
	reply = receive(f, fds[ARRAY_SIZE(fds) - 1], false);
	assert_int_equal(status_of(reply), 503);
	assert_non_null(strstr(reply, "\r\n\r\ntoo many answers wait for slow clients; try again later\n"));
	/* What is short is answered all the same. */
	assert_works(f);

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		safe_close(fds[i]);
	for (size_t i = 0; i < 20; i++)
		turn(f);
	after = get(f, "GET", "/metrics");
	assert_int_equal(status_of(after), 200);
}

/* A client that goes away in the middle of its answer: the write fails, and no signal ends the process. */
static void test_client_goes_away(void **state)
{
	struct fixture *f = *state;
	const struct linger reset = { .l_onoff = 1 };

	make_large(f);
	for (size_t i = 0; i < 5; i++) {
		int fd = dial(f, 0);

		send_text(f, fd, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
		assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
		safe_close(fd);
		for (size_t k = 0; k < 5; k++)
			turn(f);
	}
	assert_works(f);
}

/* Connections beyond the limit wait until there is room; the loop does not spin meanwhile. */
static void test_connection_limit(void **state)
{
	struct fixture *f = *state;
	int fds[140];
	_cleanup_(freep) char *reply = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = dial(f, 0);
		turn(f);
	}
	assert_idle(f);

	send_text(f, fds[139], "GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n");
	for (size_t i = 0; i < 100; i++)
		safe_close(fds[i]);
	reply = receive(f, fds[139], false);
	assert_int_equal(status_of(reply), 200);
	for (size_t i = 100; i < ARRAY_SIZE(fds); i++)
		safe_close(fds[i]);
	assert_works(f);
}

/* --- addresses */

static void test_several_addresses(void **state)
{
	struct fixture *f = *state;
	char path[100];
	const char *listen[] = { "127.0.0.1:0", path, "127.0.0.2:0" };
	struct reason why = {};

	(void)snprintf(path, sizeof(path), "%s/socket", f->folder);
	assert_int_equal(start(f, listen, 3, &why), 0);
	assert_int_equal(strncmp(web_url(f->web, 0), "http://127.0.0.1:", 17), 0);
	assert_int_not_equal(atoi(web_url(f->web, 0) + 17), 0);
	assert_int_equal(strncmp(web_url(f->web, 1), "unix:/tmp/perfmond-test-", 24), 0);
	assert_int_equal(strncmp(web_url(f->web, 2), "http://127.0.0.2:", 17), 0);
	assert_null(web_url(f->web, 3));

	for (size_t i = 0; i < 3; i++) {
		_cleanup_(freep) char *reply = exchange_on(f, i, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");

		assert_int_equal(status_of(reply), 200);
		assert_non_null(strstr(reply, "perfmond_up 1\n"));
	}
	assert_int_equal(access(path, F_OK), 0);
	f->web = web_free(f->web);
	assert_int_equal(access(path, F_OK), -1);
}

static void test_ipv6(void **state)
{
	struct fixture *f = *state;
	const char *listen = "[::1]:0", *both[] = { "0.0.0.0:0", "[::]:0" };
	struct reason why = {};
	int r = start(f, &listen, 1, &why);

	if (r == -EADDRNOTAVAIL || r == -EAFNOSUPPORT) {
		print_message("skipped: %s\n", why.text);
		skip();
	}
	assert_int_equal(r, 0);
	assert_int_equal(strncmp(web_url(f->web, 0), "http://[::1]:", 13), 0);
	assert_works(f);
	assert_int_equal(start(f, both, 2, &why), 0);
}

static void test_address_in_use(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *address = strdup(web_url(f->web, 0) + strlen("http://"));
	const char *listen[] = { "127.0.0.1:0", address };
	char expected[256];
	struct web *second = NULL;
	struct reason why = {};

	(void)snprintf(expected, sizeof(expected),
		       "cannot listen on %s: address already in use (is another perfmond running?)", address);
	assert_int_equal(web_new(&second, f->loop, (char **)(uintptr_t)listen, 2, &f->fake->source, &why), -EADDRINUSE);
	assert_null(second);
	assert_string_equal(why.text, expected);
	assert_works(f);

	/* Stopped, it can be listened on again at once, in spite of the connections that were on it. */
	assert_int_equal(start(f, &listen[1], 1, &why), 0);
	assert_works(f);
}

static void test_addresses_not_to_be_had(void **state)
{
	static const struct {
		const char *listen;
		int error;
		const char *says;
	} cases[] = {
		{ "192.0.2.1:9753", -EADDRNOTAVAIL, "cannot listen on 192.0.2.1:9753: no network interface has this address" },
		{ "nonsense", -EINVAL, "cannot listen on 'nonsense': write ADDRESS:PORT" },
		{ "/none/such/folder/socket", -ENOENT, "cannot listen on /none/such/folder/socket: there is no such folder" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct reason why = {};

		assert_int_equal(start(f, &cases[i].listen, 1, &why), cases[i].error);
		assert_null(f->web);
		if (strncmp(why.text, cases[i].says, strlen(cases[i].says)))
			fail_msg("%s", why.text);
	}
}

/* --- Unix sockets */

static void make_socket_path(const struct fixture *f, char path[static 100], struct sockaddr_un *address)
{
	(void)snprintf(path, 100, "%s/socket", f->folder);
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	strcpy(address->sun_path, path);
}

static void test_stale_socket_is_replaced(void **state)
{
	struct fixture *f = *state;
	struct sockaddr_un address;
	char path[100];
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	make_socket_path(f, path, &address);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	safe_close(fd);
	assert_int_equal(access(path, F_OK), 0);

	start_one(f, path);
	assert_works(f);
}

static void test_live_socket_is_left_alone(void **state)
{
	struct fixture *f = *state;
	struct sockaddr_un address;
	char path[100], expected[256];
	const char *listen_on = path;
	struct reason why = {};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	make_socket_path(f, path, &address);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(start(f, &listen_on, 1, &why), -EADDRINUSE);
	(void)snprintf(expected, sizeof(expected),
		       "cannot listen on %s: address already in use (is another perfmond running?)", path);
	assert_string_equal(why.text, expected);
	assert_int_equal(access(path, F_OK), 0);
	safe_close(fd);
	assert_int_equal(unlink(path), 0);
}

static void test_file_is_left_alone(void **state)
{
	struct fixture *f = *state;
	struct sockaddr_un address;
	char path[100];
	const char *listen_on = path;
	struct reason why = {};

	make_socket_path(f, path, &address);
	safe_close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(start(f, &listen_on, 1, &why), -EADDRINUSE);
	assert_non_null(strstr(why.text, "the file is there already and is no socket"));
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(unlink(path), 0);
}

/* What stands at the path by then is another's. */
static void test_replaced_socket_is_left_alone(void **state)
{
	struct fixture *f = *state;
	struct sockaddr_un address;
	char path[100];

	make_socket_path(f, path, &address);
	start_one(f, path);
	assert_int_equal(unlink(path), 0);
	safe_close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	f->web = web_free(f->web);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(unlink(path), 0);
}

/* --- stopping */

static void test_stop_with_open_connections(void **state)
{
	struct fixture *f = *state;
	_cleanup_(closep) int idle = dial(f, 0), reading = dial(f, 0);

	make_large(f);
	send_text(f, idle, "GET /met");
	send_text(f, reading, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	f->web = web_free(f->web);
	assert_int_equal(f->fake->snapshot->refs, 1);
	assert_null(receive(f, idle, false));
	assert_null(receive(f, reading, false));
}

#define fixture_test(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		fixture_test(test_headers),
		fixture_test(test_head),
		fixture_test(test_methods),
		fixture_test(test_body_of_get),
		fixture_test(test_keep_alive_and_pipelining),
		fixture_test(test_scrapes_are_counted),
		fixture_test(test_failing_source),
		fixture_test(test_floods),
		fixture_test(test_noise),
		fixture_test(test_slow_clients),
		fixture_test(test_unsent_answers_are_bounded),
		fixture_test(test_client_goes_away),
		fixture_test(test_connection_limit),
		fixture_test(test_several_addresses),
		fixture_test(test_ipv6),
		fixture_test(test_address_in_use),
		fixture_test(test_addresses_not_to_be_had),
		fixture_test(test_stale_socket_is_replaced),
		fixture_test(test_live_socket_is_left_alone),
		fixture_test(test_file_is_left_alone),
		fixture_test(test_replaced_socket_is_left_alone),
		fixture_test(test_stop_with_open_connections),
	};

	return cmocka_run_group_tests_name("web", tests, NULL, NULL);
}
