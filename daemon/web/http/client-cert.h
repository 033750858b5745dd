/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Refuses clients whose certificates are not trusted, in the TLS handshake: the client gets the alert that says why,
 * and no byte of HTTP is read from it. The log has the sentence, as often as the rate limit of wrong passwords allows.
 *
 * A client is admitted only by a handshake that this file has seen to its end: if a library ever left the check out,
 * requests would be refused.
 */

#include "web/http/client-trust.h"
#include "web/http/clients.h"

#include <gnutls/gnutls.h>

/* Called for a new connection, before its handshake. Sets client->is_admitted or client->is_refused when the client has
 * shown its certificate. Borrows all three. */
void client_guard(struct client *client, gnutls_session_t session, const struct client_trust *trust);
