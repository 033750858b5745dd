/* SPDX-License-Identifier: MIT */

/* What a client can send for Authorization and Host, and what somebody can write into a file of users. */

#include "fuzz.h"

#include "web/http/basic.h"
#include "web/http/host.h"
#include "web/http/users.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

static void encode(const char *bytes, size_t n, char *out)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < n; i += 3) {
		uint32_t bits = 0;

		for (size_t k = 0; k < 3; k++)
			bits = bits << 8 | (i + k < n ? (uint8_t)bytes[i + k] : 0);
		for (size_t k = 0; k < 4; k++)
			*out++ = (char)(i + k <= n ? letters[bits >> (18 - 6 * k) & 63] : '=');
	}
	*out = '\0';
}

/* What is taken is what stands there: encoded again, it is the same. */
static void fuzz_basic(const char *text)
{
	char joined[BASIC_MAX + 2], again[2 * BASIC_MAX];
	struct basic basic;
	int r = basic_parse(text, &basic);

	CHECK(r == 0 || r == -EINVAL || r == -E2BIG);
	if (r < 0) {
		CHECK(!*basic.name && !*basic.password);
		return;
	}
	CHECK(!strchr(basic.name, ':'));
	(void)snprintf(joined, sizeof(joined), "%s:%s", basic.name, basic.password);
	encode(joined, strlen(joined), again);
	text += strlen("Basic ");
	CHECK(strcmp(text + strspn(text, " "), again) == 0);
}

static void fuzz_users(const char *text)
{
	_cleanup_(users_freep) struct users *users = NULL;
	struct reason why = {};
	int r = users_parse(&users, "f", text, &why);

	CHECK(r == 0 ? users && users->nr > 0 && users->nr <= USERS_MAX : r == -EINVAL && *why.text && !users);
	for (size_t i = 0; users && i < users->nr; i++) {
		CHECK(users_find(users, users->items[i].name) == &users->items[i]);
		CHECK(strlen(users->items[i].hash) == 60);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = strndup((const char *)data, size);

	CHECK(text);
	fuzz_basic(text);
	fuzz_users(text);
	if (host_is_loopback(text))
		CHECK(strcspn(text, "/@ ") == strlen(text));
	return 0;
}
