/* SPDX-License-Identifier: MIT */

#include "web/http/client-cert.h"

#include "base/util/clock.h"
#include "base/util/log.h"

/* In TLS 1.2 there is no alert of its own for a missing certificate (RFC 8446, 6.2). */
static gnutls_alert_description_t alert_of_version(gnutls_session_t session, gnutls_alert_description_t alert)
{
	bool old = gnutls_protocol_get_version(session) < GNUTLS_TLS1_3;

	return old && alert == GNUTLS_A_CERTIFICATE_REQUIRED ? GNUTLS_A_HANDSHAKE_FAILURE : alert;
}

static void log_refusal(struct client *client, const struct reason *why)
{
	char text[PEER_TEXT_MAX];

	if (rate_limit_add(&client->clients->refusals, &client->peer, clock_monotonic_ns()))
		log_fields(&(struct log_field){ "CLIENT", peer_text(&client->peer, text) }, 1, LOG_NOTICE,
			   "HTTP: refused the client certificate of %s: %s", text, why->text);
}

/* Called by GnuTLS in the handshake, also if the client has shown no certificate. Not 0: the handshake ends. */
static int on_certificate(gnutls_session_t session)
{
	struct client *client = gnutls_session_get_ptr(session);
	gnutls_alert_description_t alert;
	const gnutls_datum_t *chain;
	struct reason why;
	unsigned nr = 0;

	chain = gnutls_certificate_get_peers(session, &nr);
	client->is_admitted = client_trust_admits(client->trust, chain, chain ? nr : 0, &alert, &why);
	if (client->is_admitted)
		return 0;
	client->is_refused = true;
	client->clients->stats->dropped_certificate++;
	log_refusal(client, &why);
	/* libmicrohttpd closes the connection without one. */
	(void)gnutls_alert_send(session, GNUTLS_AL_FATAL, alert_of_version(session, alert));
	return -1;
}

void client_guard(struct client *client, gnutls_session_t session, const struct client_trust *trust)
{
	client->trust = trust;
	/* libmicrohttpd itself uses the pointer for pre-shared keys only. */
	gnutls_session_set_ptr(session, client);
	gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUEST);
	gnutls_session_set_verify_function(session, on_certificate);
}
