/* SPDX-License-Identifier: MIT */

#include "web/http/tls.h"

#include "base/util/secret.h"
#include "web/http/pem.h"

#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

struct tls *tls_free(struct tls *tls)
{
	if (!tls)
		return NULL;
	secret_free(tls->certificate);
	secret_free(tls->key);
	free(tls->priorities);
	free(tls->client_ca);
	client_trust_free(tls->client_trust);
	free(tls);
	return NULL;
}

int tls_check_certificate(const char *certificate, time_t *ret_expires, struct reason *why)
{
	const gnutls_datum_t data = pem_datum(certificate);
	gnutls_x509_crt_t *list;
	unsigned nr;
	int r = gnutls_x509_crt_list_import2(&list, &nr, &data, GNUTLS_X509_FMT_PEM, 0);

	if (r < 0)
		return reason_set(why, -EINVAL, "the file contains no complete certificate in PEM (%s)",
				  gnutls_strerror(r));
	*ret_expires = gnutls_x509_crt_get_expiration_time(list[0]);
	for (unsigned i = 0; i < nr; i++)
		gnutls_x509_crt_deinit(list[i]);
	gnutls_free(list);
	return 0;
}

int tls_check_key(const char *key, struct reason *why)
{
	const gnutls_datum_t data = pem_datum(key);
	gnutls_x509_privkey_t parsed;
	int r = gnutls_x509_privkey_init(&parsed);

	if (r == 0) {
		r = gnutls_x509_privkey_import2(parsed, &data, GNUTLS_X509_FMT_PEM, NULL, 0);
		gnutls_x509_privkey_deinit(parsed);
	}
	if (r == GNUTLS_E_DECRYPTION_FAILED)
		return reason_set(why, -EINVAL, "the key is protected by a password, which nobody can enter here");
	if (r < 0)
		return reason_set(why, -EINVAL, "the file contains no complete private key in PEM (%s)",
				  gnutls_strerror(r));
	return 0;
}

int tls_check_pair(const char *certificate, const char *key, struct reason *why)
{
	const gnutls_datum_t first = pem_datum(certificate), second = pem_datum(key);
	gnutls_certificate_credentials_t credentials;
	int r = gnutls_certificate_allocate_credentials(&credentials);

	if (r == 0) {
		r = gnutls_certificate_set_x509_key_mem(credentials, &first, &second, GNUTLS_X509_FMT_PEM);
		gnutls_certificate_free_credentials(credentials);
	}
	if (r == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
		return reason_set(why, -EINVAL, "the key belongs to another certificate");
	return r < 0 ? reason_set(why, -EINVAL, "certificate and key cannot be used: %s", gnutls_strerror(r)) : 0;
}
