/* SPDX-License-Identifier: MIT */

/* Listening sockets: addresses, Unix sockets and their files. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "setup/needs.h"
#include "setup/web-fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* --- addresses */

static void test_several_addresses(void **state)
{
	struct fixture *f = *state;
	char path[100];
	const char *listen[] = { "127.0.0.1:0", path, "127.0.0.2:0" };
	struct reason why = {};

	(void)snprintf(path, sizeof(path), "%s/socket", f->folder);
	assert_int_equal(fixture_start(f, listen, 3, &why), 0);
	assert_int_equal(strncmp(web_url(f->web, 0), "http://127.0.0.1:", 17), 0);
	assert_int_not_equal(atoi(web_url(f->web, 0) + 17), 0);
	assert_int_equal(strncmp(web_url(f->web, 1), "unix:/tmp/perfmond-test-", 24), 0);
	assert_int_equal(strncmp(web_url(f->web, 2), "http://127.0.0.2:", 17), 0);
	assert_null(web_url(f->web, 3));

	for (size_t i = 0; i < 3; i++) {
		_cleanup_(freep) char *reply = exchange_on(f, i, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");

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
	const char *listen = "[::1]:0";
	char v4[64], v6[64];
	const char *both[] = { v4, v6 };
	struct reason why = {};

	needs("ipv6");
	if (fixture_start(f, &listen, 1, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(strncmp(web_url(f->web, 0), "http://[::1]:", 13), 0);
	assert_works(f);

	/* One port on all addresses of both kinds. */
	fixture_start_one(f, "0.0.0.0:0");
	(void)snprintf(v4, sizeof(v4), "%s", web_url(f->web, 0) + strlen("http://"));
	(void)snprintf(v6, sizeof(v6), "[::]%s", strchr(v4, ':'));
	assert_int_equal(fixture_start(f, both, 2, &why), 0);
}

static void test_address_in_use(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *address = strdup(web_url(f->web, 0) + strlen("http://"));
	const char *listen[] = { "127.0.0.1:0", address };
	char expected[256];
	struct web *second = NULL;
	struct reason why = {};
	int r;

	(void)snprintf(expected, sizeof(expected),
		       "cannot listen on %s: address already in use (is another perfmond running?)", address);
	r = web_new(&second, f->loop, (char *const *)(uintptr_t)listen, 2, &f->fake->source, f->options, &why);
	assert_int_equal(r, -EADDRINUSE);
	assert_null(second);
	assert_string_equal(why.text, expected);
	assert_works(f);

	/* Stopped, it can be listened on again at once, in spite of the connections that were on it. */
	assert_int_equal(fixture_start(f, &listen[1], 1, &why), 0);
	assert_works(f);
}

static void test_addresses_not_to_be_had(void **state)
{
	static const struct {
		const char *listen;
		int error;
		const char *says;
	} cases[] = {
		{ "192.0.2.1:9753", -EADDRNOTAVAIL,
		  "cannot listen on 192.0.2.1:9753: no network interface has this address" },
		{ "nonsense", -EINVAL, "cannot listen: 'nonsense' is not an address to listen on" },
		{ "[fe80::1%none]:9753", -ENODEV,
		  "cannot listen: '[fe80::1%none]:9753' names a network interface that" },
		{ "[fe80::1%2147483647]:9753", -ENODEV,
		  "cannot listen on [fe80::1%2147483647]:9753: this machine has no such network interface" },
		{ "/none/such/folder/socket", -ENOENT,
		  "cannot listen on /none/such/folder/socket: there is no such directory" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct reason why = {};

		assert_int_equal(fixture_start(f, &cases[i].listen, 1, &why), cases[i].error);
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

	fixture_start_one(f, path);
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
	assert_int_equal(fixture_start(f, &listen_on, 1, &why), -EADDRINUSE);
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
	assert_int_equal(fixture_start(f, &listen_on, 1, &why), -EADDRINUSE);
	assert_non_null(strstr(why.text, "the file exists and is no socket"));
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(unlink(path), 0);
}

/* By then the file at the path is another one. */
static void test_replaced_socket_is_left_alone(void **state)
{
	struct fixture *f = *state;
	struct sockaddr_un address;
	char path[100];

	make_socket_path(f, path, &address);
	fixture_start_one(f, path);
	assert_int_equal(unlink(path), 0);
	safe_close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	f->web = web_free(f->web);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(unlink(path), 0);
}

/* --- sockets that listen already */

static int listening_on(int family, const struct sockaddr *address, socklen_t size)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, address, size), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

static void start_on(struct fixture *f, const int *sockets, size_t nr)
{
	struct reason why = {};

	f->web = web_free(f->web);
	if (web_new_on(&f->web, f->loop, sockets, nr, &f->fake->source, f->options, &why) < 0)
		fail_msg("%s", why.text);
}

/* One web after the other serves on them, also connections that came while there was none. */
static void test_passed_sockets(void **state)
{
	const struct sockaddr_in loopback = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct fixture *f = *state;
	struct sockaddr_un local;
	char path[100], url[110];
	int sockets[2], early;

	make_socket_path(f, path, &local);
	(void)snprintf(url, sizeof(url), "unix:%s", path);
	sockets[0] = listening_on(AF_INET, (const struct sockaddr *)&loopback, sizeof(loopback));
	sockets[1] = listening_on(AF_UNIX, (const struct sockaddr *)&local, sizeof(local));

	for (size_t run = 0; run < 3; run++) {
		_cleanup_(freep) char *reply = NULL;

		start_on(f, sockets, 2);
		assert_int_equal(strncmp(web_url(f->web, 0), "http://127.0.0.1:", 17), 0);
		assert_int_not_equal(atoi(web_url(f->web, 0) + 17), 0);
		assert_string_equal(web_url(f->web, 1), url);
		assert_null(web_url(f->web, 2));
		assert_works(f);
		reply = exchange_on(f, 1, "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n");
		assert_int_equal(status_of(reply), 200);
		assert_idle(f);
	}

	f->web = web_free(f->web);
	assert_int_equal(access(path, F_OK), 0);
	early = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(connect(early, (struct sockaddr *)&local, sizeof(local)), 0);
	start_on(f, sockets, 2);
	send_text(f, early, "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
	{
		_cleanup_(freep) char *reply = receive(f, early, false);

		assert_int_equal(status_of(reply), 200);
	}
	safe_close(early);

	f->web = web_free(f->web);
	safe_close(sockets[0]);
	safe_close(sockets[1]);
	assert_int_equal(unlink(path), 0);
}

static void test_passed_socket_with_an_abstract_name(void **state)
{
	struct sockaddr_un local = { .sun_family = AF_UNIX };
	struct fixture *f = *state;
	int fd;

	(void)snprintf(local.sun_path + 1, sizeof(local.sun_path) - 1, "perfmond-test-%d", getpid());
	fd = listening_on(AF_UNIX, (const struct sockaddr *)&local,
			  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(local.sun_path + 1)));
	start_on(f, &fd, 1);
	assert_int_equal(strncmp(web_url(f->web, 0), "unix:@perfmond-test-", 20), 0);
	f->web = web_free(f->web);
	safe_close(fd);
}

static void test_passed_what_is_no_socket(void **state)
{
	struct fixture *f = *state;
	int pair[2];
	struct reason why = {};

	f->web = web_free(f->web);
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	assert_int_equal(web_new_on(&f->web, f->loop, pair, 1, &f->fake->source, f->options, &why), -ENOTSOCK);
	assert_non_null(strstr(why.text, "the socket that was passed"));
	safe_close(pair[0]);
	safe_close(pair[1]);
	/* A number that nothing else gets meanwhile. */
	pair[0] = 100000;
	assert_int_equal(web_new_on(&f->web, f->loop, pair, 1, &f->fake->source, f->options, &why), -EBADF);
	assert_null(f->web);

	pair[0] = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);
	assert_int_equal(web_new_on(&f->web, f->loop, pair, 1, &f->fake->source, f->options, &why), -EAFNOSUPPORT);
	assert_non_null(strstr(why.text, "no TCP or Unix socket"));
	safe_close(pair[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fixture_test(test_several_addresses),	     fixture_test(test_ipv6),
		fixture_test(test_address_in_use),	     fixture_test(test_addresses_not_to_be_had),
		fixture_test(test_stale_socket_is_replaced), fixture_test(test_live_socket_is_left_alone),
		fixture_test(test_file_is_left_alone),	     fixture_test(test_replaced_socket_is_left_alone),
		fixture_test(test_passed_sockets),	     fixture_test(test_passed_socket_with_an_abstract_name),
		fixture_test(test_passed_what_is_no_socket),
	};

	return cmocka_run_group_tests_name("web-listen", tests, NULL, NULL);
}
