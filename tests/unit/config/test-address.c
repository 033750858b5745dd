/* SPDX-License-Identifier: MIT */

/* config/address: which addresses can be configured, what is said of others, and their URLs. */

#include "base/config/address.h"
#include "base/util/cleanup.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_addresses(_unused_ void **state)
{
	static const struct {
		const char *text, *url;
	} cases[] = {
		{ "127.0.0.1:9753", "http://127.0.0.1:9753" },
		{ "0.0.0.0:0", "http://0.0.0.0:0" },
		{ "255.255.255.255:65535", "http://255.255.255.255:65535" },
		{ "[::1]:9753", "http://[::1]:9753" },
		{ "[::]:80", "http://[::]:80" },
		{ "[2001:DB8::0:1]:80", "http://[2001:db8::1]:80" },
		{ "[::ffff:1.2.3.4]:80", "http://[::ffff:1.2.3.4]:80" },
		{ "[fe80::1%7]:80", "http://[fe80::1%257]:80" },
		{ "/run/perfmond.sock", "unix:/run/perfmond.sock" },
		{ "/a:b", "unix:/a:b" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *url = NULL;
		struct reason why = {};
		struct address address;

		if (address_check(cases[i].text, &why) < 0 || address_parse(&address, cases[i].text, &why) < 0)
			fail_msg("%s: %s", cases[i].text, why.text);
		url = address_url(&address, false);
		assert_string_equal(url, cases[i].url);
	}
}

/* By name and by number; one that does not exist is no mistake in a config, and cannot be listened on. */
static void test_zones(_unused_ void **state)
{
	static const char *const unknown[] = { "[fe80::1%none]:80", "[fe80::1%0]:80", "[fe80::1%4294967297]:80",
					       "[fe80::1%0x1]:80", "[febf::1%-1]:80" };
	static const char *const names[][2] = { { "eth0.7-a_b~", "eth0.7-a_b~" }, { "a:b%@", "a%3Ab%25%40" } };
	struct address address = {};
	struct reason why;

	assert_int_equal(address_parse(&address, "[fe80::1%lo]:9753", &why), 0);
	assert_int_equal(address.v6.sin6_scope_id, if_nametoindex("lo"));
	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++) {
		assert_int_equal(address_check(unknown[i], &why), 0);
		assert_int_equal(address_parse(&address, unknown[i], &why), -ENODEV);
		assert_non_null(strstr(why.text, unknown[i]));
		assert_non_null(strstr(why.text, "names a network interface that this machine does not have"));
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_(freep) char *url = NULL;
		char expected[64];

		strcpy(address.zone, names[i][0]);
		(void)snprintf(expected, sizeof(expected), "https://[fe80::1%%25%s]:9753", names[i][1]);
		url = address_url(&address, true);
		assert_string_equal(url, expected);
	}
}

static void test_bad_addresses(_unused_ void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "", "is not an address to listen on" },
		{ "9753", "is not an address to listen on" },
		{ "127.0.0.1", "is not an address to listen on" },
		{ "::1:9753", "is not an address to listen on" },
		{ "::", "is not an address to listen on" },
		{ ":9753", "is not an address to listen on" },
		{ "[::1]", "is not an address to listen on" },
		{ "[::1", "is not an address to listen on" },
		{ "[::1]80", "is not an address to listen on" },
		{ "[::1:80", "is not an address to listen on" },
		{ "[", "is not an address to listen on" },
		{ "[:", "is not an address to listen on" },
		{ "]", "is not an address to listen on" },
		{ "run/x", "is not an address to listen on" },
		{ "http://127.0.0.1:9753", "is not an address to listen on" },
		{ "127.0.0.1:80:", "is not an address to listen on" },
		{ "127.0.0.1:", "has a port that is not a number from 0 to 65535" },
		{ "127.0.0.1:65536", "has a port" },
		{ "127.0.0.1:-1", "has a port" },
		{ "127.0.0.1:+80", "has a port" },
		{ "127.0.0.1:80 ", "has a port" },
		{ "127.0.0.1: 80", "has a port" },
		{ "127.0.0.1:0x50", "has a port" },
		{ "127.0.0.1:http", "has a port" },
		{ "127.0.0.1:99999999999999999999", "has a port" },
		{ "[::1]:", "has a port" },
		{ "unix:/run/x", "has a port" },
		{ "localhost:9753", "has no numeric address (names are not looked up)" },
		{ "*:9753", "has no numeric address" },
		{ "127.1:9753", "has no numeric address" },
		{ "127.0.0.256:80", "has no numeric address" },
		{ "1.2.3.4.5:80", "has no numeric address" },
		{ "127.0.0.1%lo:80", "has no numeric address" },
		{ "[]:80", "has no numeric address" },
		{ "[x]:80", "has no numeric address" },
		{ "[%lo]:80", "has no numeric address" },
		{ "[1.2.3.4]:80", "has no numeric address" },
		{ "[:]:80", "has no numeric address" },
		{ "[fe80::1]:80", "needs its network interface; write [fe80::1%eth0]:9753" },
		{ "[febf::1%]:80", "needs its network interface" },
		{ "[::1%lo]:80", "which link-local addresses alone have; write [::1]:9753" },
		{ "[::1%]:80", "which link-local addresses alone have" },
		{ "[2001:db8::1%1]:80", "which link-local addresses alone have" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct address address = { .size = 77 };
		struct reason why = {};

		assert_int_equal(address_check(cases[i].text, &why), -EINVAL);
		assert_int_equal(address_parse(&address, cases[i].text, &why), -EINVAL);
		if (!strstr(why.text, cases[i].says) || !strstr(why.text, cases[i].text))
			fail_msg("'%s': %s", cases[i].text, why.text);
		assert_int_equal(address.size, 77);
	}
}

static void test_long_addresses(_unused_ void **state)
{
	char text[600];
	struct address address;
	struct reason why;

	memset(text, 'a', sizeof(text));
	text[0] = '/';
	text[107] = '\0';
	assert_int_equal(address_parse(&address, text, &why), 0);
	text[107] = 'a';
	text[108] = '\0';
	assert_int_equal(address_parse(&address, text, &why), -EINVAL);
	assert_non_null(strstr(why.text, "at most 107 bytes"));

	memset(text, '1', sizeof(text));
	memcpy(text + 590, ":80", 4);
	assert_int_equal(address_parse(&address, text, &why), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_zones),
		cmocka_unit_test(test_bad_addresses),
		cmocka_unit_test(test_long_addresses),
	};

	return cmocka_run_group_tests_name("address", tests, NULL, NULL);
}
