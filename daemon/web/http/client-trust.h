/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which clients TLS admits, by their certificates (mutual TLS). Knows no connections: certificates come in, verdicts go
 * out.
 *
 * A certificate has to be of one of the trusted authorities, within its dates, not revoked by a list of theirs, and
 * meant for clients if it names a purpose. If there are names, one of its subject alternative names (DNS, IP, email,
 * URI) has to match one of them. Its common name is not looked at.
 */

#include "base/util/reason.h"

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <time.h>

struct client_trust;

/* ca: certificates of authorities in PEM. required: a client without a certificate is refused. -EINVAL with the
 * sentence, without the file's name, in why; -ENOMEM. */
int client_trust_new(struct client_trust **ret, const char *ca, bool required, struct reason *why);
struct client_trust *client_trust_free(struct client_trust *trust);
DEFINE_CLEANUP(struct client_trust *, client_trust_free)

/* Adds lists of revoked certificates (CRLs) in PEM. *ret_until: when the first of them is out of date, or -1; from then
 * on every certificate is refused, since nobody knows any more which are revoked. Likewise. */
int client_trust_revoke(struct client_trust *trust, const char *crl, time_t *ret_until, struct reason *why);

/* Adds a name: a glob (base/util/glob.h), or, with exact, a plain text. -ENOMEM. */
int client_trust_allow(struct client_trust *trust, const char *name, bool exact);

/* The verdict on a chain as gnutls_certificate_get_peers() returns it; nr 0: there was no certificate. If it is
 * refused, *ret_alert is the alert for the client, and why has the sentence. */
bool client_trust_admits(const struct client_trust *trust, const gnutls_datum_t *chain, unsigned nr,
			 gnutls_alert_description_t *ret_alert, struct reason *why);
