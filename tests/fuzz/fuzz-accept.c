/* SPDX-License-Identifier: MIT */

/* What a client can send for Accept and Accept-Encoding. */

#include "fuzz.h"

#include "base/util/cleanup.h"
#include "web/api/accept.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct media offers[] = {
		{ .type = "text/plain", .parameters = { { "version", "0.0.4" } } },
		{ .type = "application/openmetrics-text", .parameters = { { "version", "1.0.0" } } },
		{ .type = "application/json" },
		{ .type = "application/vnd.google.protobuf",
		  .parameters = { { "proto", "family" }, { "encoding", "delimited" } },
		  .needs_parameters = true },
	};
	_cleanup_(freep) char *text = strndup((const char *)data, size), *twice = NULL;
	size_t chosen, n;

	CHECK(text);
	n = strlen(text);
	chosen = accept_media(text, offers, ARRAY_SIZE(offers));
	CHECK(chosen < ARRAY_SIZE(offers));
	/* What is preferred to the first has been named, by itself or by a star. */
	CHECK(chosen == 0 || strcasestr(text, offers[chosen].type) || strchr(text, '*'));
	CHECK(!accept_gzip(text) || strcasestr(text, "gzip") || strchr(text, '*'));

	/* Said twice, it is the same. An open quote would swallow the second. */
	if (strchr(text, '"'))
		return 0;
	twice = malloc(2 * n + 2);
	CHECK(twice);
	memcpy(twice, text, n);
	twice[n] = ',';
	memcpy(twice + n + 1, text, n + 1);
	CHECK(accept_media(twice, offers, ARRAY_SIZE(offers)) == chosen);
	CHECK(accept_gzip(twice) == accept_gzip(text));
	return 0;
}
