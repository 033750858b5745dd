/* SPDX-License-Identifier: MIT */

/* What is listened on: addresses, Unix sockets and their files. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "web-fixture.h"

#include <errno.h>
#include <fcntl.h>
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
	const char *listen = "[::1]:0";
	char v4[64], v6[64];
	const char *both[] = { v4, v6 };
	struct reason why = {};
	int r = fixture_start(f, &listen, 1, &why);

	if (r == -EADDRNOTAVAIL || r == -EAFNOSUPPORT) {
		print_message("skipped: %s\n", why.text);
		skip();
	}
	assert_int_equal(r, 0);
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
	r = web_new(&second, f->loop, (char *const *)(uintptr_t)listen, 2, &f->fake->source, &why);
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
		{ "nonsense", -EINVAL, "cannot listen on 'nonsense': write ADDRESS:PORT" },
		{ "/none/such/folder/socket", -ENOENT,
		  "cannot listen on /none/such/folder/socket: there is no such folder" },
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
	fixture_start_one(f, path);
	assert_int_equal(unlink(path), 0);
	safe_close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	f->web = web_free(f->web);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(unlink(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fixture_test(test_several_addresses),
		fixture_test(test_ipv6),
		fixture_test(test_address_in_use),
		fixture_test(test_addresses_not_to_be_had),
		fixture_test(test_stale_socket_is_replaced),
		fixture_test(test_live_socket_is_left_alone),
		fixture_test(test_file_is_left_alone),
		fixture_test(test_replaced_socket_is_left_alone),
	};

	return cmocka_run_group_tests_name("web-listen", tests, NULL, NULL);
}
