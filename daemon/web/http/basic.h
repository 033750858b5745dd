/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The Authorization header of basic authentication (RFC 7617): "Basic " and the base64 of "name:password". Pure.
 */

/* Longer credentials are refused: crypt(3) takes no longer password. */
#define BASIC_MAX 511

struct basic {
	char name[BASIC_MAX + 1];     /* without a colon */
	char password[BASIC_MAX + 1]; /* may contain colons */
};

/* -EINVAL: another scheme, malformed base64, no colon, or a NUL; -E2BIG: too long. ret is then all zeros. */
int basic_parse(const char *header, struct basic *ret);

/* Overwrites both in memory. */
void basic_wipe(struct basic *basic);
