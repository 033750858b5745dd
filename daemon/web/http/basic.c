/* SPDX-License-Identifier: MIT */

#include "web/http/basic.h"

#include "web/http/pem.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

/* Is that the one way to write these bytes? GnuTLS skips white space, and takes more padding than there should be. */
static bool is_strict(const char *text, const gnutls_datum_t *bytes)
{
	gnutls_datum_t again;
	bool same;

	if (gnutls_base64_encode2(bytes, &again) < 0)
		return false;
	same = strlen(text) == again.size && memcmp(text, again.data, again.size) == 0;
	explicit_bzero(again.data, again.size);
	gnutls_free(again.data);
	return same;
}

/* Decodes strict base64 into out, of BASIC_MAX + 1 bytes. Returns the number of bytes; -EINVAL, or -E2BIG. */
static int decode(const char *text, char *out)
{
	const gnutls_datum_t encoded = pem_datum(text);
	gnutls_datum_t bytes;
	int r = -E2BIG;

	if (gnutls_base64_decode2(&encoded, &bytes) < 0)
		return -EINVAL;
	if (!is_strict(text, &bytes)) {
		r = -EINVAL;
	} else if (bytes.size <= BASIC_MAX) {
		memcpy(out, bytes.data, bytes.size);
		out[bytes.size] = '\0';
		r = (int)bytes.size;
	}
	explicit_bzero(bytes.data, bytes.size);
	gnutls_free(bytes.data);
	return r;
}

static int credentials_parse(const char *text, struct basic *ret)
{
	char both[BASIC_MAX + 1] = "", *colon;
	int n = decode(text, both);

	if (n >= 0) {
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
