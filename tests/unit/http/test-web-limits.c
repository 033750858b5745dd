/* SPDX-License-Identifier: MIT */

/* The limits on requests and their timeouts, over real sockets, with passwords that are checked meanwhile. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "setup/web-fixture.h"

#include <crypt.h>
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static bool has_ended(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN);
}

/* Turns of the loop until the connection has ended. */
static void until_ended(struct fixture *f, int fd)
{
	turn_until(f, has_ended(fd));
}

/* The connection does not end in some turns of the loop. */
static void assert_stays(struct fixture *f, int fd)
{
	for (size_t i = 0; i < 20; i++) {
		turn(f);
		assert_false(has_ended(fd));
	}
}

/* Turns of the loop until so many connections are there: a turn may go to something else. */
static void until_connected(struct fixture *f, size_t nr)
{
	turn_until(f, f->fake->stats.connections == nr);
}

/* --- names and sizes */

static void test_hosts(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *evil = exchange(f, "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n");
	_cleanup_(freep) char *port = exchange(f, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n");
	_cleanup_(freep) char *api = exchange(f, "GET /api/v1/status HTTP/1.1\r\nHost: evil.example\r\n\r\n");
	_cleanup_(freep) char *none = exchange(f, "GET /-/healthy HTTP/1.0\r\n\r\n");

	assert_int_equal(status_of(evil), 421);
	assert_non_null(strstr(evil, "use localhost, 127.0.0.1 or [::1]\n"));
	assert_int_equal(status_of(port), 200);
	assert_int_equal(status_of(api), 421);
	assert_true(has_header(api, "Content-Type: application/json"));
	assert_non_null(strstr(none, " 200 "));
	assert_int_equal(f->fake->stats.requests[SELF_HTTP_421], 2);
	assert_int_equal(f->fake->stats.requests[SELF_HTTP_200], 2);
}

/* A proxy on loopback in front of a Unix socket can be reached by a browser. */
static void test_host_on_a_unix_socket(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *path = NULL, *other = NULL, *own = NULL;

	assert_true(asprintf(&path, "%s/s", f->folder) > 0);
	fixture_start_one(f, path);
	other = exchange(f, "GET /-/healthy HTTP/1.1\r\nHost: any.example\r\n\r\n");
	assert_int_equal(status_of(other), 421);
	own = exchange(f, "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n");
	assert_int_equal(status_of(own), 200);
	f->web = web_free(f->web);
}

static void test_header_bytes(void **state)
{
	static const char begin[] = "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nX: ";
	struct fixture *f = *state;
	char request[4096];

	f->options->max_header_bytes = 2048;
	fixture_restart(f);
	for (size_t size = 2047; size <= 2049; size++) {
		_cleanup_(freep) char *reply = NULL;

		memset(request, 'a', sizeof(request));
		memcpy(request, begin, strlen(begin));
		strcpy(request + size - 4, "\r\n\r\n");
		reply = exchange(f, request);
		assert_int_equal(status_of(reply), size <= 2048 ? 200 : 431);
	}
	assert_int_equal(f->fake->stats.requests[SELF_HTTP_431], 1);
}

/* Requests that libmicrohttpd refuses by itself count by connection; a client that hangs up in the middle does not. */
static void test_malformed(void **state)
{
	static const char *const texts[] = {
		"\x16\x03\x01\x02\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
		"GET / HTTP/2.0\r\n\r\n",
	};
	struct fixture *f = *state;
	_cleanup_(freep) char *large = malloc(100000), *own = NULL;
	_cleanup_(closep) int fd = dial(f, 0);
	int gone = dial(f, 0), silent = dial(f, 0);

	memset(large, 'a', 99999);
	large[99999] = '\0';
	memcpy(large, "GET / HTTP/1.1\r\nX: ", 19);
	send_text(f, fd, large);
	turn_until(f, f->fake->stats.dropped_malformed == 1);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		_cleanup_(closep) int other = dial(f, 0);

		send_text(f, other, texts[i]);
		turn_until(f, f->fake->stats.dropped_malformed == i + 2);
	}
	send_text(f, gone, "GET / HT");
	safe_close(gone);
	safe_close(silent);
	until_connected(f, 0);
	own = exchange(f, "GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n");
	gone = dial(f, 0);
	send_text(f, gone, "GET / HT");
	f->web = web_free(f->web);
	safe_close(gone);
	assert_int_equal(f->fake->stats.dropped_malformed, 4);
	assert_int_equal(f->fake->stats.requests[SELF_HTTP_404], 1);
	assert_int_equal(f->fake->stats.connections, 0);
}

static void test_security_headers(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *reply = get(f, "GET", "/");

	assert_true(has_header(reply, "X-Content-Type-Options: nosniff"));
	assert_true(has_header(reply, "X-Frame-Options: DENY"));
	assert_true(has_header(reply, "Referrer-Policy: no-referrer"));
	assert_non_null(strstr(reply, "frame-ancestors 'none'"));
	assert_null(strstr(reply, "Access-Control-"));
	assert_null(strstr(reply, "\r\nVary: Origin"));
}

static void test_cors(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *own = NULL, *other = NULL, *preflight = NULL, *others = NULL;

	f->options->cors_origin = strdup("https://grafana.example");
	fixture_restart(f);
	own = exchange(f, "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nOrigin: https://grafana.example\r\n\r\n");
	assert_true(has_header(own, "Access-Control-Allow-Origin: https://grafana.example"));
	assert_true(has_header(own, "Vary: Origin"));
	other = exchange(f, "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\r\n");
	assert_int_equal(status_of(other), 200);
	assert_null(strstr(other, "Access-Control-"));
	assert_true(has_header(other, "Vary: Origin"));

	preflight = exchange(f, "OPTIONS /metrics HTTP/1.1\r\nHost: localhost\r\nOrigin: https://grafana.example\r\n"
				"Access-Control-Request-Method: GET\r\n\r\n");
	assert_int_equal(status_of(preflight), 200);
	assert_true(has_header(preflight, "Access-Control-Allow-Headers: Authorization"));
	others = exchange(f, "OPTIONS /metrics HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\r\n");
	assert_int_equal(status_of(others), 405);
}

/* --- time */

/* A byte in each tenth of a second, until the connection has ended. */
static void drip(struct fixture *f, int fd, const char *byte)
{
	uint64_t next;
	unsigned nr = 0;

	for (; !has_ended(fd); nr++) {
		assert_true(nr < 100);
		(void)send(fd, byte, 1, MSG_NOSIGNAL);
		next = now_ms() + 100;
		turn_until(f, has_ended(fd) || now_ms() >= next);
	}
}

/* A byte now and then does not prolong the phase; a quick client stays connected. */
static void test_slow_request(void **state)
{
	struct fixture *f = *state;
	_cleanup_(closep) int slow = -1, silent = -1, quick = -1;
	_cleanup_(freep) char *reply = NULL;
	uint64_t start = now_ms();

	f->options->request_timeout = 1000000000U;
	fixture_restart(f);
	slow = dial(f, 0);
	silent = dial(f, 0);
	quick = dial(f, 0);
	send_text(f, quick, "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n");
	reply = receive(f, quick, false);
	send_text(f, slow, "GET /-/healthy HTTP/1.1\r\nX: ");
	drip(f, slow, "a");
	assert_true(now_ms() - start >= 1000);
	until_ended(f, silent);
	assert_stays(f, quick);
	assert_int_equal(f->fake->stats.dropped_request, 2);
	assert_int_equal(f->fake->stats.connections, 1);
	assert_works(f);
}

/* The second request of a connection has no more time; a connection without a request may be idle for longer. */
static void test_slow_second_request(void **state)
{
	static const char whole[] = "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n";
	struct fixture *f = *state;
	_cleanup_(closep) int slow = -1, idle = -1;
	_cleanup_(freep) char *first = NULL, *second = NULL;
	uint64_t start;

	f->options->request_timeout = 1000000000U;
	f->options->idle_timeout = 4000000000U;
	fixture_restart(f);
	slow = dial(f, 0);
	idle = dial(f, 0);
	send_text(f, slow, whole);
	first = receive(f, slow, false);
	start = now_ms();
	send_text(f, idle, whole);
	second = receive(f, idle, false);
	drip(f, slow, "G");
	assert_true(now_ms() - start >= 1000);
	assert_int_equal(f->fake->stats.dropped_request, 1);
	assert_int_equal(f->fake->stats.dropped_idle, 0);
	until_ended(f, idle);
	assert_true(now_ms() - start >= 3900);
	assert_int_equal(f->fake->stats.dropped_idle, 1);
	assert_works(f);
}

/* Taking a little now and then does not prolong it either. */
static void test_slow_answer(void **state)
{
	struct fixture *f = *state;
	_cleanup_(closep) int fd = -1;
	uint64_t start = now_ms();
	char some[100];

	fixture_make_large(f);
	f->options->answer_timeout = 1000000000U;
	fixture_restart(f);
	fd = dial(f, 0);
	send_text(f, fd, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
	until_connected(f, 1);
	turn_until(f, recv(fd, some, sizeof(some), MSG_DONTWAIT) == 0 || f->fake->stats.connections == 0);
	assert_int_equal(f->fake->stats.dropped_answer, 1);
	assert_int_equal(f->fake->stats.unsent, 0);
	assert_true(now_ms() - start >= 1000);
	assert_works(f);
}

/* The daemon's end of a connection: it is in this process. */
static int other_end(int fd)
{
	struct sockaddr_storage own, peer;
	socklen_t own_size = sizeof(own), peer_size;

	assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &own_size), 0);
	for (int other = 0; other < 1024; other++) {
		peer_size = sizeof(peer);
		if (getpeername(other, (struct sockaddr *)&peer, &peer_size) == 0 && peer_size == own_size &&
		    memcmp(&own, &peer, own_size) == 0)
			return other;
	}
	fail_msg("there is no other end");
	return -1;
}

/* Bytes of a response in the kernel, which count as received, are bounded. */
static void test_bytes_in_the_kernel(void **state)
{
	struct fixture *f = *state;
	_cleanup_(closep) int fd = -1;
	int server, bytes = 0, limit = 0;

	fixture_make_large(f);
	fd = dial(f, 0);
	send_text(f, fd, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
	turn_until(f, f->fake->nr_scraped == 1);
	for (int i = 0; i < 100; i++)
		turn(f);
	server = other_end(fd);
	assert_int_equal(ioctl(server, TIOCOUTQ, &bytes), 0);
	assert_in_range(bytes, 1, 512 * 1024);
	assert_int_equal(getsockopt(server, SOL_SOCKET, SO_RCVBUF, &limit, &(socklen_t){ sizeof(limit) }), 0);
	assert_in_range(limit, 1, 128 * 1024);
}

/* --- how many */

static void test_connections_of_an_address(void **state)
{
	struct fixture *f = *state;
	int fds[6];
	_cleanup_(freep) char *reply = NULL;

	f->options->max_connections_per_address = 4;
	fixture_restart(f);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = dial(f, 0);
		until_connected(f, i < 4 ? i + 1 : 4);
	}
	turn_until(f, f->fake->stats.refused_address == 2);
	assert_int_equal(f->fake->stats.connections, 4);
	until_ended(f, fds[5]);

	/* One that is idle after its answer makes room. */
	send_text(f, fds[1], "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n");
	reply = receive(f, fds[1], false);
	assert_works(f);
	until_ended(f, fds[1]);
	assert_int_equal(f->fake->stats.dropped_idle, 1);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		safe_close(fds[i]);
}

/* One address has all it may have, and none is idle: what has been slow for a second makes room. */
static void test_slow_ones_make_room(void **state)
{
	static const char part[] = "GET / HT", large[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
	struct fixture *f = *state;
	int fds[4], newcomers[4];
	uint64_t start;

	fixture_make_large(f);
	for (size_t pass = 0; pass < 2; pass++) {
		f->options->max_connections_per_address = pass ? 256 : ARRAY_SIZE(fds);
		f->options->max_connections = pass ? ARRAY_SIZE(fds) : 256;
		fixture_restart(f);
		for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
			fds[i] = dial(f, 0);
			send_text(f, fds[i], i ? part : large);
		}
		until_connected(f, ARRAY_SIZE(fds));
		turn_until(f, f->fake->nr_scraped == pass + 1);
		start = now_ms();
		turn_until(f, now_ms() >= start + 1100);
		for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
			newcomers[i] = dial(f, 0);
			assert_stays(f, newcomers[i]);
			/* The last is the one that does not take its answer, of which the kernel has some. */
			if (i < 3)
				until_ended(f, fds[i + 1]);
		}
		turn_until(f, f->fake->stats.dropped_answer == pass + 1);
		assert_int_equal(f->fake->stats.dropped_request, (pass + 1) * (ARRAY_SIZE(fds) - 1));
		for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
			safe_close(fds[i]);
			safe_close(newcomers[i]);
		}
	}
}

/* With all connections taken by one address, others are served, and it has one less; with none idle, too. */
static void test_greedy_ones_make_room(void **state)
{
	struct fixture *f = *state;
	const char *listen[] = { "127.0.0.1:0", NULL };
	_cleanup_(freep) char *path = NULL, *reply = NULL;
	int fds[5];

	assert_true(asprintf(&path, "%s/s", f->folder) > 0);
	listen[1] = path;
	f->options->max_connections = 4;
	f->options->max_connections_per_address = 4;
	assert_int_equal(fixture_start(f, listen, 2, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = dial(f, 0);
		until_connected(f, i < 4 ? i + 1 : 4);
	}
	assert_int_equal(f->fake->stats.connections, 4);
	until_ended(f, fds[4]);
	/* A Unix socket's user is another address. */
	reply = exchange_on(f, 1, "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n");
	assert_int_equal(status_of(reply), 200);
	until_ended(f, fds[0]);
	assert_stays(f, fds[3]);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		safe_close(fds[i]);
	f->web = web_free(f->web);
}

/* --- options that change */

static void test_new_options(void **state)
{
	struct fixture *f = *state;
	_cleanup_(web_options_unrefp) struct web_options *options = web_options_new();
	_cleanup_(closep) int idle = dial(f, 0), reading = dial(f, 0);
	_cleanup_(freep) char *first = NULL, *last = NULL, *whole = NULL;

	fixture_make_large(f);
	send_text(f, idle, "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n");
	first = receive(f, idle, false);
	assert_null(strstr(first, "Connection: close"));
	send_text(f, reading, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
	assert_int_equal(web_set_options(f->web, options, NULL), 0);
	assert_works(f);

	/* What is under way is finished, and idle ones have one more answer. */
	whole = receive(f, reading, false);
	assert_int_equal(status_of(whole), 200);
	send_text(f, idle, "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n");
	last = receive(f, idle, false);
	assert_non_null(strcasestr(last, "Connection: close"));
	until_ended(f, idle);
	/* Those of a server that is two changes old are dropped. */
	assert_int_equal(web_set_options(f->web, options, NULL), 0);
	assert_int_equal(web_set_options(f->web, options, NULL), 0);
	until_ended(f, reading);
	assert_works(f);
	assert_int_equal(f->fake->stats.connections, 0);
}

/* --- passwords */

#define ADA "Authorization: Basic YWRhOmVuZ2luZQ==\r\n"

char *__wrap_crypt_r(const char *password, const char *hash, struct crypt_data *data);
char *__real_crypt_r(const char *password, const char *hash, struct crypt_data *data);

static _Atomic bool hashing_waits;

char *__wrap_crypt_r(const char *password, const char *hash, struct crypt_data *data)
{
	while (hashing_waits)
		(void)usleep(1000);
	return __real_crypt_r(password, hash, data);
}

static void need_password(struct fixture *f, const char *cost)
{
	char text[128];

	(void)snprintf(text, sizeof(text), "ada:$2b$%s$abcdefghijklmnopqrstuu.abcdefghijklmnopqrstuvwxyzABCD\n", cost);
	users_free(f->options->users);
	assert_int_equal(users_parse(&f->options->users, "f", text, NULL), 0);
	fixture_restart(f);
}

static void test_password_is_needed(void **state)
{
	static const char *const paths[] = { "/", "/metrics", "/-/healthy", "/-/ready", "/api/v1/status", "/none" };
	struct fixture *f = *state;

	need_password(f, "04");
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		_cleanup_(freep) char *reply = get(f, "GET", paths[i]);

		assert_int_equal(status_of(reply), 401);
		assert_true(has_header(reply, "WWW-Authenticate: Basic realm=\"perfmond\", charset=\"UTF-8\""));
	}
	assert_int_equal(f->fake->nr_snapshots, 0);
}

/* While one is hashed, others are answered; a client that goes away, and the web's end, do no harm. */
static void test_others_while_one_is_hashed(void **state)
{
	struct fixture *f = *state;
	_cleanup_(closep) int waits = -1, last = -1;
	int leaves;
	_cleanup_(freep) char *reply = NULL, *late = NULL;

	need_password(f, "04");
	hashing_waits = true;
	waits = dial(f, 0);
	leaves = dial(f, 0);
	send_text(f, waits, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n" ADA "\r\n");
	send_text(f, leaves, "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n" ADA "\r\n12345");
	for (size_t i = 0; i < 5; i++)
		turn(f);
	safe_close(leaves);
	reply = get(f, "GET", "/metrics");
	assert_int_equal(status_of(reply), 401);
	assert_true(recv(waits, &(char){ 0 }, 1, MSG_PEEK | MSG_DONTWAIT) < 0);
	hashing_waits = false;
	late = receive(f, waits, false);
	assert_int_equal(status_of(late), 401);

	last = dial(f, 0);
	send_text(f, last, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n" ADA "\r\n");
	for (size_t i = 0; i < 5; i++)
		turn(f);
	f->web = web_free(f->web);
	assert_int_equal(f->fake->stats.connections, 0);
}

/* New users in the middle of it: the request is looked at anew. */
static void test_new_users_meanwhile(void **state)
{
	struct fixture *f = *state;
	_cleanup_(web_options_unrefp) struct web_options *open = web_options_new();
	_cleanup_(closep) int fd = -1;
	_cleanup_(freep) char *reply = NULL;

	need_password(f, "04");
	hashing_waits = true;
	fd = dial(f, 0);
	send_text(f, fd, "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n" ADA "\r\n");
	for (size_t i = 0; i < 5; i++)
		turn(f);
	assert_int_equal(web_set_options(f->web, open, NULL), 0);
	hashing_waits = false;
	reply = receive(f, fd, false);
	assert_int_equal(status_of(reply), 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fixture_test(test_hosts),
		fixture_test(test_host_on_a_unix_socket),
		fixture_test(test_header_bytes),
		fixture_test(test_malformed),
		fixture_test(test_security_headers),
		fixture_test(test_cors),
		fixture_test(test_slow_request),
		fixture_test(test_slow_second_request),
		fixture_test(test_slow_answer),
		fixture_test(test_bytes_in_the_kernel),
		fixture_test(test_connections_of_an_address),
		fixture_test(test_slow_ones_make_room),
		fixture_test(test_greedy_ones_make_room),
		fixture_test(test_new_options),
		fixture_test(test_password_is_needed),
		fixture_test(test_others_while_one_is_hashed),
		fixture_test(test_new_users_meanwhile),
	};

	return cmocka_run_group_tests_name("web-limits", tests, NULL, NULL);
}
