/* SPDX-License-Identifier: MIT */

/* What a client can send for a request-target, what somebody can write for an address to listen on, and what a
 * file named cpu.stat can hold. */

#include "fuzz.h"

#include "base/cgroup/usage.h"
#include "base/config/address.h"
#include "base/util/text.h"
#include "web/api/request-target.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static void check_utf8(const char *text)
{
	for (const char *p = text; *p; p += utf8_length(p))
		CHECK(utf8_length(p) > 0);
}

static void fuzz_path(const char *text)
{
	_cleanup_(freep) char *path = NULL;
	struct reason why = {};
	int r = target_path(text, &path, &why);

	CHECK(r == 0 || (r == -EINVAL && *why.text && !path));
	if (path)
		check_utf8(path);
}

static void fuzz_parameters(const char *text)
{
	_cleanup_(parameters_release) struct parameters parameters = {};
	struct reason why = {};
	int r = target_parameters(text, NULL, &parameters, &why);

	CHECK(r == 0 || (r == -EINVAL && *why.text && parameters.nr == 0));
	CHECK(parameters.nr <= PARAMETERS_MAX);
	for (size_t i = 0; i < parameters.nr; i++) {
		check_utf8(parameters.items[i].name);
		check_utf8(parameters.items[i].value);
		CHECK(strlen(parameters.items[i].name) + strlen(parameters.items[i].value) <= PARAMETER_MAX);
		for (size_t k = 0; k < i; k++)
			CHECK(strcmp(parameters.items[i].name, parameters.items[k].name));
	}
}

/* What an address is shown as is an address too, and the same one. */
static void fuzz_address(const char *text)
{
	_cleanup_(freep) char *url = NULL, *again = NULL;
	struct address address, second;
	struct reason why = {};
	int r = address_parse(&address, text, &why);

	CHECK(r == 0 || (r == -EINVAL && *why.text));
	if (r < 0)
		return;
	url = address_url(&address, false);
	CHECK(url);
	if (strncmp(url, "unix:", 5) == 0) {
		CHECK(strcmp(url + 5, text) == 0);
		return;
	}
	/* A zone is escaped in a URL, and only there. */
	if (strchr(url, '%'))
		return;
	CHECK(address_parse(&second, url + strlen("http://"), &why) == 0);
	again = address_url(&second, false);
	CHECK(again && strcmp(url, again) == 0);
}

static void fuzz_usage(const char *text)
{
	const char *key = "usage_usec ", *line = strstr(text, key);
	uint64_t usec = 7;
	int r = cgroup_usage_parse(text, &usec);

	CHECK(r == 0 || (r == -EBADMSG && usec == 7));
	CHECK(r < 0 || line);
	/* What is read is what stands there, but for zeros before it. */
	if (r == 0 && (line == text || line[-1] == '\n')) {
		char digits[24];

		line += strlen(key);
		line += strspn(line, "0");
		(void)snprintf(digits, sizeof(digits), "%" PRIu64, usec);
		CHECK(strncmp(line, usec ? digits : "", usec ? strlen(digits) : 0) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = strndup((const char *)data, size);

	CHECK(text);
	fuzz_path(text);
	fuzz_parameters(text);
	fuzz_address(text);
	fuzz_usage(text);
	return 0;
}
