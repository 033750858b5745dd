/* SPDX-License-Identifier: MIT */

/* Requests and clients of all kinds, over real sockets. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "setup/web-fixture.h"

#include "setup/made-snapshot.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

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
	char *headers = strndup(reply, (size_t)(strstr(reply, "\r\n\r\n") - reply));
	char *date = strstr(headers, "Date: ");

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
		"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\na=b",
		"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"PUT /none HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"BREW /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
		/* Refused before the gigabyte is sent. */
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\nExpect: 100-continue\r\n\r\n",
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

/* It is not received: the connection ends. */
static void test_body_of_get(void **state)
{
	static const char *const requests[] = {
		"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
		"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000000\r\n\r\n",
		"HEAD / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		_cleanup_(closep) int fd = dial(f, 0);
		_cleanup_(freep) char *reply = NULL;

		send_text(f, fd, requests[i]);
		reply = receive(f, fd, requests[i][0] == 'H');
		assert_int_equal(status_of(reply), 400);
		assert_true(has_header(reply, "Connection: close"));
		assert_null(receive(f, fd, false));
	}
	assert_int_equal(f->fake->stats.requests[SELF_HTTP_400], ARRAY_SIZE(requests));
	assert_works(f);
}

static void test_keep_alive_and_pipelining(void **state)
{
	struct fixture *f = *state;
	_cleanup_(closep) int fd = dial(f, 0);
	_cleanup_(freep) char *first = NULL, *two = NULL;
	const char *second;

	send_text(f, fd, "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n");
	first = receive(f, fd, false);
	assert_int_equal(status_of(first), 200);

	send_text(f, fd,
		  "GET /-/ready HTTP/1.1\r\nHost: localhost\r\n\r\n"
		  "GET /none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
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
	/* The second is the cache's. */
	assert_int_equal(f->fake->snapshot->refs, 2);
}

static void test_failing_source(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *metrics = NULL, *ready = NULL;

	f->fake->snapshot_error = -ENOMEM;
	f->fake->ready = false;
	metrics = get(f, "GET", "/metrics");
	assert_int_equal(status_of(metrics), 503);
	assert_non_null(strstr(metrics, "\r\n\r\ncannot read the counters: Cannot allocate memory\n"));
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
	(void)snprintf(flood, n, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ");
	memset(flood + strlen(flood), 'a', n - strlen(flood));
	strcpy(flood + n, "\r\n\r\n");
	headers = exchange(f, flood);
	assert_int_equal(status_of(headers), 431);

	/* Headers without an end. */
	(void)snprintf(flood, n, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n");
	for (size_t at = strlen(flood); at < n; at += 6)
		strcpy(flood + at, "a: b\r\n");
	many = exchange(f, flood);
	assert_int_equal(status_of(many), 431);

	/* A request line of 64 KB. */
	memset(flood, 'a', n);
	memcpy(flood, "GET /", 5);
	strcpy(flood + n, " HTTP/1.1\r\nHost: localhost\r\n\r\n");
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
		{ "GET /metrics\0 HTTP/1.1\r\nHost: localhost\r\n\r\n", 36 },
		{ "GET /metrics HTTP/9.9\r\nHost: localhost\r\n\r\n", 35 },
		{ "\0\0\0\0\0\0\0\0\r\n\r\n", 12 },
		{ "GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 55 },
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

	fixture_make_large(f);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = dial(f, 0);
		send_text(f, fds[i], "GET /metrics HTTP/1.1\r\nHo");
		if (i % 2 == 0)
			send_text(f, fds[i], "st: localhost\r\n\r\n");
	}
	assert_works(f);
	assert_idle(f);

	/* The answer waits, whole, for whoever takes it late. */
	reply = receive(f, fds[0], false);
	assert_int_equal(status_of(reply), 200);
	assert_non_null(strstr(reply, "perf_cgroup_page_faults_total{cgroup=\"/system.slice/a-rather-long-name-of-a-"
				      "service-9999.service\"} 9999\n"));
	assert_string_equal(reply + strlen(reply) - 1, "\n");

	send_text(f, fds[1], "st: localhost\r\n\r\n");
	free(reply);
	reply = receive(f, fds[1], false);
	assert_int_equal(status_of(reply), 200);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		safe_close(fds[i]);
	assert_works(f);
}

/* Clients that ask for the same share one response, however slowly they take it. */
static void test_many_slow_clients_share(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *reply = NULL;
	int fds[60];
	size_t body;

	fixture_make_large(f);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = dial(f, 0);
		send_text(f, fds[i], "GET /api/v1/snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n");
		turn(f);
	}
	turn_until(f, f->fake->nr_scraped == ARRAY_SIZE(fds));
	assert_int_equal(f->fake->nr_written, 1);
	reply = receive(f, fds[ARRAY_SIZE(fds) - 1], false);
	assert_int_equal(status_of(reply), 200);
	assert_true(strlen(reply) * ARRAY_SIZE(fds) > 64 * 1024 * 1024);
	body = strlen(strstr(reply, "\r\n\r\n") + 4);
	assert_int_equal(f->fake->stats.unsent, body);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		safe_close(fds[i]);
	turn_until(f, f->fake->stats.unsent == 0);
}

/* The cache keeps a snapshot while the source has it, and not for long after that. */
static void test_stale_responses(void **state)
{
	struct fixture *f = *state;
	struct snapshot *old = f->fake->snapshot, *new = made_snapshot((const struct made_event[]){ {} });
	struct plan *plan = plan_ref(old->plan);
	uint64_t start = now_ms();

	for (size_t i = 0; i < 2; i++)
		free(get(f, "GET", "/metrics"));
	assert_int_equal(f->fake->nr_scraped, 2);
	assert_int_equal(f->fake->nr_written, 1);
	turn_until(f, now_ms() >= start + 1500);
	assert_int_equal(old->refs, 2);

	f->fake->snapshot = new;
	snapshot_unref(old);
	assert_int_equal(plan->refs, 2);
	turn_until(f, plan->refs == 1);
	plan_unref(plan);
	assert_idle(f);
}

/* Answers that nobody takes are bounded, where each is another one; when their connections end, there is room again. */
static void test_unsent_answers_are_bounded(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *reply = NULL, *after = NULL;
	char request[128];
	int fds[40];
	size_t nr = 0;

	fixture_make_large(f);
	/* Two are too much. Who has been at it for a second makes room: where this process had to wait for so long, it
	 * is tried again. */
	f->options->max_unsent_bytes = 8 * 1024 * 1024;
	fixture_restart(f);
	do {
		for (int i = 0; i < 2; i++, nr++) {
			fds[nr] = dial(f, 0);
			(void)snprintf(request, sizeof(request),
				       "GET /api/v1/snapshot?limit=%zu HTTP/1.1\r\nHost: localhost\r\n\r\n",
				       LARGE - 1 - nr);
			send_text(f, fds[nr], request);
			turn(f);
		}
		free(reply);
		reply = get(f, "GET", "/api/v1/snapshot");
	} while (status_of(reply) == 200 && nr < ARRAY_SIZE(fds));
	assert_int_equal(status_of(reply), 503);
	assert_non_null(strstr(reply, "\r\n\r\n{\"error\":\"too many responses are waiting for slow clients; "
				      "try again later\"}\n"));
	/* What is short is answered all the same. */
	assert_works(f);

	for (size_t i = 0; i < nr; i++)
		safe_close(fds[i]);
	for (size_t i = 0; i < 20; i++)
		turn(f);
	after = get(f, "GET", "/metrics");
	assert_int_equal(status_of(after), 200);
}

/* Connections that are all there before each asks for a large answer of its own. */
static void ask_at_once(struct fixture *f, int *fds, size_t nr)
{
	char request[128];

	for (size_t i = 0; i < nr; i++) {
		fds[i] = dial(f, 0);
		turn(f);
	}
	turn_until(f, f->fake->stats.connections == nr);
	for (size_t i = 0; i < nr; i++) {
		int n = snprintf(request, sizeof(request),
				 "GET /api/v1/snapshot?limit=%zu HTTP/1.1\r\nHost: localhost\r\n\r\n", LARGE - 1 - i);

		assert_int_equal(send(fds[i], request, (size_t)n, 0), n);
	}
}

/* Different requests at the same time are responded to one after the other, with turns of the loop in between. */
static void test_many_at_once_take_turns(void **state)
{
	struct fixture *f = *state;
	unsigned written = 0;
	int fds[16];

	fixture_make_large(f);
	f->answer_ms = 10;
	f->options->max_unsent_bytes = (size_t)1 << 30;
	fixture_restart(f);
	ask_at_once(f, fds, ARRAY_SIZE(fds));
	while (f->fake->nr_written < ARRAY_SIZE(fds)) {
		written = f->fake->nr_written;
		turn_until(f, f->fake->nr_written > written);
		assert_in_range(f->fake->nr_written - written, 1, 3);
	}
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		_cleanup_(freep) char *reply = receive(f, fds[i], false);

		assert_int_equal(status_of(reply), 200);
		safe_close(fds[i]);
	}
	assert_int_equal(f->fake->nr_scraped, ARRAY_SIZE(fds));
	assert_idle(f);
}

/* A client that waits for its turn hangs up, and the web ends meanwhile. */
static void test_gone_before_its_turn(void **state)
{
	struct fixture *f = *state;
	int fds[8];

	fixture_make_large(f);
	f->answer_ms = 10;
	ask_at_once(f, fds, ARRAY_SIZE(fds));
	turn_until(f, f->fake->nr_written > 0);
	assert_in_range(f->fake->nr_written, 1, ARRAY_SIZE(fds) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(fds) / 2; i++)
		safe_close(fds[i]);
	turn(f);
	f->web = web_free(f->web);
	assert_int_equal(f->fake->stats.connections, 0);
	for (size_t i = ARRAY_SIZE(fds) / 2; i < ARRAY_SIZE(fds); i++)
		safe_close(fds[i]);
}

static void test_negotiation(void **state)
{
	static const char head[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
				   "Accept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\n";
	struct fixture *f = *state;
	_cleanup_(freep) char *plain = NULL, *open = NULL, *gzip = NULL, *errors = NULL, *probe = NULL;
	char request[512];

	plain = get(f, "GET", "/metrics");
	assert_true(has_header(plain, "Content-Type: text/plain; version=0.0.4; charset=utf-8"));
	assert_true(has_header(plain, "Vary: Accept, Accept-Encoding"));
	assert_true(has_header(plain, "Cache-Control: no-store"));
	assert_null(strstr(plain, "Content-Encoding"));

	(void)snprintf(request, sizeof(request), "%s\r\n", head);
	open = exchange(f, request);
	assert_true(has_header(open, "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8"));
	assert_non_null(strstr(open, "\n# EOF\n"));

	(void)snprintf(request, sizeof(request), "%sAccept-Encoding: gzip\r\n\r\n", head);
	gzip = exchange(f, request);
	assert_true(has_header(gzip, "Content-Encoding: gzip"));
	assert_true(has_header(gzip, "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8"));
	assert_memory_equal(strstr(gzip, "\r\n\r\n") + 4, "\x1f\x8b", 2);

	/* What is wrong, and what is a word long, comes as it is. */
	errors = exchange(f, "GET /api/v1/snapshot?x=y HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n");
	assert_int_equal(status_of(errors), 400);
	assert_null(strstr(errors, "Content-Encoding"));
	probe = exchange(f, "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n");
	assert_non_null(strstr(probe, "\r\n\r\nhealthy\n"));
	assert_null(strstr(probe, "Vary"));
}

/* A client that goes away in the middle of its answer: the write fails, and no signal ends the process. */
static void test_client_goes_away(void **state)
{
	struct fixture *f = *state;
	const struct linger reset = { .l_onoff = 1 };

	fixture_make_large(f);
	for (size_t i = 0; i < 5; i++) {
		int fd = dial(f, 0);

		send_text(f, fd, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
		assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
		safe_close(fd);
		for (size_t k = 0; k < 5; k++)
			turn(f);
	}
	assert_works(f);
}

/* Connections beyond the limit are refused, and there is room again when others have gone; the loop does not spin
 * meanwhile. */
static void test_connection_limit(void **state)
{
	struct fixture *f = *state;
	int fds[300];
	_cleanup_(freep) char *reply = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = dial(f, 0);
		turn(f);
	}
	assert_idle(f);
	assert_int_equal(f->fake->stats.connections, 256);
	assert_null(receive(f, fds[299], false));

	for (size_t i = 0; i < 200; i++)
		safe_close(fds[i]);
	for (size_t i = 0; i < 20; i++)
		turn(f);
	assert_works(f);
	send_text(f, fds[255], "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n");
	reply = receive(f, fds[255], false);
	assert_int_equal(status_of(reply), 200);
	for (size_t i = 200; i < ARRAY_SIZE(fds); i++)
		safe_close(fds[i]);
	assert_works(f);
}

/* --- stopping */

static void test_stop_with_open_connections(void **state)
{
	struct fixture *f = *state;
	_cleanup_(closep) int idle = dial(f, 0), reading = dial(f, 0);

	fixture_make_large(f);
	send_text(f, idle, "GET /met");
	send_text(f, reading, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
	f->web = web_free(f->web);
	assert_int_equal(f->fake->snapshot->refs, 1);
	assert_null(receive(f, idle, false));
	assert_null(receive(f, reading, false));
}

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
		fixture_test(test_many_slow_clients_share),
		fixture_test(test_stale_responses),
		fixture_test(test_unsent_answers_are_bounded),
		fixture_test(test_many_at_once_take_turns),
		fixture_test(test_gone_before_its_turn),
		fixture_test(test_negotiation),
		fixture_test(test_client_goes_away),
		fixture_test(test_connection_limit),
		fixture_test(test_stop_with_open_connections),
	};

	return cmocka_run_group_tests_name("web", tests, NULL, NULL);
}
