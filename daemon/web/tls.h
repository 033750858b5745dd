/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A certificate and its key, in PEM: what libmicrohttpd takes as text is looked at first, since it says nothing of what
 * is wrong.
 */

#include "util/reason.h"

#include <time.h>

/* What connections are encrypted with, at the least. */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:%SERVER_PRECEDENCE"

struct tls {
	char *certificate; /* with the chain behind it, if any */
	char *key;
};

struct tls *tls_free(struct tls *tls);
DEFINE_CLEANUP(struct tls *, tls_free)

/* expires: of the first certificate. -EINVAL with the sentence, which names no file, in why. */
int tls_check_certificate(const char *certificate, time_t *expires, struct reason *why);
int tls_check_key(const char *key, struct reason *why);
/* Do they belong together? Both have been looked at. */
int tls_check_pair(const char *certificate, const char *key, struct reason *why);
