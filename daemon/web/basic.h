/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The Authorization header of basic authentication (RFC 7617): "Basic " and the base64 of "name:password". Pure.
 */

/* Longer ones are nobody's; crypt(3) takes no more. */
#define BASIC_MAX 511

struct basic {
	char name[BASIC_MAX + 1];     /* without a colon */
	char password[BASIC_MAX + 1]; /* with any */
};

/* -EINVAL: it is none, or not whole, or there is a NUL in it; -E2BIG. ret is all zeros then. */
int basic_parse(const char *header, struct basic *ret);

/* Leaves nothing of it in memory. */
void basic_wipe(struct basic *basic);
