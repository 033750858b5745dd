/* SPDX-License-Identifier: MIT */

#include "web/basic.h"

#include "util/cleanup.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

static const char base64_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Strict base64: whole groups of four, and no bits set behind the last byte. Returns the number of bytes; -EINVAL, or
 * -E2BIG for more than max. */
static int base64_decode(const char *text, char *out, size_t max)
{
	size_t n = strspn(text, base64_letters), padding = strspn(text + n, "="), written = 0;
	uint32_t bits = 0;

	if (text[n + padding] || padding > 2 || (n + padding) % 4)
		return -EINVAL;
	if (n * 3 / 4 > max)
		return -E2BIG;
	for (size_t i = 0; i < n; i++) {
		bits = bits << 6 | (uint32_t)(strchr(base64_letters, text[i]) - base64_letters);
		if (i % 4)
			out[written++] = (char)(bits >> (6 - i % 4 * 2) & 0xff);
	}
	return padding && bits & ((1U << padding * 2) - 1) ? -EINVAL : (int)written;
}

static int credentials_parse(const char *text, struct basic *ret)
{
	char both[BASIC_MAX + 1] = "", *colon;
	int n = base64_decode(text, both, BASIC_MAX);

	if (n >= 0) {
		both[n] = '\0';
		colon = strchr(both, ':');
		if (!colon || strlen(both) != (size_t)n) {
			n = -EINVAL;
		} else {
			memcpy(ret->name, both, (size_t)(colon - both));
			strcpy(ret->password, colon + 1);
		}
	}
	explicit_bzero(both, sizeof(both));
	return n < 0 ? n : 0;
}

int basic_parse(const char *header, struct basic *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (strncasecmp(header, "Basic ", strlen("Basic ")) != 0)
		return -EINVAL;
	header += strlen("Basic ");
	return credentials_parse(header + strspn(header, " "), ret);
}

void basic_wipe(struct basic *basic)
{
	explicit_bzero(basic, sizeof(*basic));
}
