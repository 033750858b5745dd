/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A certificate and its key, in PEM, checked before libmicrohttpd gets them as text, since it does not report why it
 * refuses them.
 */

#include "web/http/client-trust.h"

struct tls {
	char *certificate; /* followed by its chain, if any */
	char *key;
	char *priorities;		   /* a priority string of GnuTLS */
	char *client_ca;		   /* PEM; NULL: clients need no certificates */
	struct client_trust *client_trust; /* NULL: likewise */
};

struct tls *tls_free(struct tls *tls);
DEFINE_CLEANUP(struct tls *, tls_free)

/* ret_expires: of the first certificate. -EINVAL with the sentence, without the file's name, in why. */
int tls_check_certificate(const char *certificate, time_t *ret_expires, struct reason *why);
int tls_check_key(const char *key, struct reason *why);
/* Do the two belong together? Both must have been checked. */
int tls_check_pair(const char *certificate, const char *key, struct reason *why);
