/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Versions, cipher suites and curves, by the names that Go and exporter-toolkit have for them, as a priority string of
 * GnuTLS. Pure.
 *
 * GnuTLS takes ciphers and key exchanges apart, and its ciphers hold for TLS 1.2 and 1.3 alike. A list of suites can
 * therefore only be kept if each of its ciphers comes with each of its key exchanges.
 */

#include "base/util/buf.h"
#include "base/util/reason.h"

#include <stdbool.h>

#define TLS_SUITES_MAX 32

/* Zeroed, all is as it is by default, without a file of exporter-toolkit's, too: TLS 1.2 at least, with authenticated
 * encryption (no CBC) and forward secrecy only. */
struct toolkit_tls {
	bool without_1_2, without_1_3;
	bool client_order; /* the client's preference counts, not the server's */
	const struct toolkit_suite *suites[TLS_SUITES_MAX];
	const char *groups[TLS_SUITES_MAX]; /* GnuTLS's names */
	size_t nr_suites, nr_groups;
};

/* Each takes one value of the key that its name says; -EINVAL with the sentence, without a place, in why. */
int toolkit_tls_min_version(struct toolkit_tls *tls, const char *value, struct reason *why);
int toolkit_tls_max_version(struct toolkit_tls *tls, const char *value, struct reason *why);
int toolkit_tls_suite(struct toolkit_tls *tls, const char *value, struct reason *why);
int toolkit_tls_curve(struct toolkit_tls *tls, const char *value, struct reason *why);

/* -EINVAL if all of it together cannot be kept; -ENOMEM. */
int toolkit_tls_priorities(const struct toolkit_tls *tls, char **ret, struct reason *why);
