/* SPDX-License-Identifier: MIT */

#include "web/http/client-trust.h"

#include "base/util/glob.h"
#include "base/util/text.h"
#include "web/http/pem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/x509-ext.h>
#include <gnutls/x509.h>
#include <stdint.h>
#include <string.h>

/* Certificates of a chain that are looked at: GnuTLS itself takes no longer ones. */
#define CHAIN_MAX 16

struct allowed_name {
	char *text;
	bool exact;
};

struct client_trust {
	gnutls_x509_trust_list_t list;
	gnutls_x509_crt_t *authorities; /* owned by the list, but for the array */
	unsigned nr_authorities;
	time_t until; /* when the first list of revoked certificates is out of date; -1: never */
	bool required;
	struct allowed_name *names;
	size_t nr_names; /* 0: any name */
};

static int out_of_memory(struct reason *why)
{
	return reason_set(why, -ENOMEM, "out of memory");
}

struct client_trust *client_trust_free(struct client_trust *trust)
{
	if (!trust)
		return NULL;
	if (trust->list)
		gnutls_x509_trust_list_deinit(trust->list, 1);
	gnutls_free(trust->authorities);
	for (size_t i = 0; i < trust->nr_names; i++)
		free(trust->names[i].text);
	free(trust->names);
	free(trust);
	return NULL;
}

/* The list takes over the certificates. */
static int add_authorities(struct client_trust *trust, const char *ca, struct reason *why)
{
	const gnutls_datum_t data = pem_datum(ca);
	int r = gnutls_x509_crt_list_import2(&trust->authorities, &trust->nr_authorities, &data, GNUTLS_X509_FMT_PEM,
					     0);

	if (r < 0)
		return reason_set(why, -EINVAL, "the file contains no complete certificate in PEM (%s)",
				  gnutls_strerror(r));
	r = gnutls_x509_trust_list_add_cas(trust->list, trust->authorities, trust->nr_authorities, 0);
	return r < 0 ? out_of_memory(why) : 0;
}

int client_trust_new(struct client_trust **ret, const char *ca, bool required, struct reason *why)
{
	_cleanup_(client_trust_freep) struct client_trust *trust = calloc(1, sizeof(*trust));
	int r;

	if (!trust || gnutls_x509_trust_list_init(&trust->list, 0) < 0)
		return out_of_memory(why);
	trust->required = required;
	trust->until = -1;
	r = add_authorities(trust, ca, why);
	if (r < 0)
		return r;
	*ret = steal_ptr(trust);
	return 0;
}

/* GnuTLS itself would drop a list that is out of date, and then nobody would be revoked. */
static bool is_of_authority(const struct client_trust *trust, gnutls_x509_crl_t crl)
{
	const unsigned dates = GNUTLS_CERT_REVOCATION_DATA_SUPERSEDED | GNUTLS_CERT_REVOCATION_DATA_ISSUED_IN_FUTURE;
	unsigned status = 0;

	return gnutls_x509_crl_verify(crl, trust->authorities, trust->nr_authorities, 0, &status) >= 0 &&
	       (status & ~dates & ~(unsigned)GNUTLS_CERT_INVALID) == 0;
}

/* Takes the list over. Of several lists of one authority, as after a change of its key, each counts. */
static int add_crl(struct client_trust *trust, gnutls_x509_crl_t crl, struct reason *why)
{
	time_t until = gnutls_x509_crl_get_next_update(crl);

	if (!is_of_authority(trust, crl)) {
		gnutls_x509_crl_deinit(crl);
		return reason_set(why, -EINVAL, "no trusted authority has signed this list of revoked certificates");
	}
	if (until != -1 && (trust->until == -1 || until < trust->until))
		trust->until = until;
	if (gnutls_x509_trust_list_add_crls(trust->list, &crl, 1, 0, 0) == 1)
		return 0;
	gnutls_x509_crl_deinit(crl);
	return out_of_memory(why);
}

int client_trust_revoke(struct client_trust *trust, const char *crl, time_t *ret_until, struct reason *why)
{
	const gnutls_datum_t data = pem_datum(crl);
	gnutls_x509_crl_t *lists;
	unsigned nr;
	int r = gnutls_x509_crl_list_import2(&lists, &nr, &data, GNUTLS_X509_FMT_PEM, 0);

	if (r < 0)
		return reason_set(why, -EINVAL,
				  "the file contains no complete list of revoked certificates in PEM (%s)",
				  gnutls_strerror(r));
	r = 0;
	for (unsigned i = 0; i < nr; i++)
		if (r == 0)
			r = add_crl(trust, lists[i], why);
		else
			gnutls_x509_crl_deinit(lists[i]);
	gnutls_free(lists);
	if (r < 0)
		return r;
	*ret_until = trust->until;
	return 0;
}

int client_trust_allow(struct client_trust *trust, const char *name, bool exact)
{
	struct allowed_name *names = reallocarray(trust->names, trust->nr_names + 1, sizeof(*names));
	char *text = strdup(name);

	if (names)
		trust->names = names;
	if (!names || !text) {
		free(text);
		return -ENOMEM;
	}
	names[trust->nr_names++] = (struct allowed_name){ .text = text, .exact = exact };
	return 0;
}

/* --- a chain */

/* By the first flag that is set. */
static bool refuse_status(unsigned status, gnutls_alert_description_t *ret_alert, struct reason *why)
{
	static const struct {
		unsigned flag;
		gnutls_alert_description_t alert;
		const char *sentence;
	} reasons[] = {
		{ GNUTLS_CERT_SIGNER_NOT_FOUND, GNUTLS_A_UNKNOWN_CA, "no trusted authority has issued it" },
		{ GNUTLS_CERT_SIGNER_NOT_CA, GNUTLS_A_UNKNOWN_CA, "its issuer is not an authority" },
		{ GNUTLS_CERT_REVOKED, GNUTLS_A_CERTIFICATE_REVOKED, "it is revoked" },
		{ GNUTLS_CERT_EXPIRED, GNUTLS_A_CERTIFICATE_EXPIRED, "it has expired" },
		{ GNUTLS_CERT_NOT_ACTIVATED, GNUTLS_A_CERTIFICATE_EXPIRED, "it is not valid yet" },
		{ GNUTLS_CERT_PURPOSE_MISMATCH, GNUTLS_A_UNSUPPORTED_CERTIFICATE, "it is not meant for clients" },
		{ GNUTLS_CERT_REVOCATION_DATA_SUPERSEDED, GNUTLS_A_CERTIFICATE_UNKNOWN,
		  "the list of revoked certificates is out of date" },
	};

	*ret_alert = GNUTLS_A_BAD_CERTIFICATE;
	(void)reason_set(why, 0, "it cannot be read or verified");
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (status & reasons[i].flag) {
			*ret_alert = reasons[i].alert;
			(void)reason_set(why, 0, "%s", reasons[i].sentence);
			break;
		}
	return false;
}

static bool name_is_allowed(const struct client_trust *trust, const char *name)
{
	for (size_t i = 0; i < trust->nr_names; i++) {
		const struct allowed_name *allowed = &trust->names[i];

		if (allowed->exact ? strcmp(allowed->text, name) == 0 : glob_match(allowed->text, name))
			return true;
	}
	return false;
}

/* One subject alternative name as text: false where it has none. An IP address is four or sixteen bytes. */
static bool name_to_text(unsigned type, const gnutls_datum_t *name, char *ret, size_t size)
{
	if (type == GNUTLS_SAN_IPADDRESS)
		return (name->size == 4 || name->size == 16) &&
		       inet_ntop(name->size == 4 ? AF_INET : AF_INET6, name->data, ret, (socklen_t)size);
	if (type != GNUTLS_SAN_DNSNAME && type != GNUTLS_SAN_RFC822NAME && type != GNUTLS_SAN_URI)
		return false;
	/* A NUL would hide the rest of a name. */
	if (name->size >= size || memchr(name->data, '\0', name->size))
		return false;
	memcpy(ret, name->data, name->size);
	ret[name->size] = '\0';
	return true;
}

static int check_names(const struct client_trust *trust, gnutls_subject_alt_names_t names, struct reason *why)
{
	char first[EXCERPT_MAX] = "", text[2048];
	gnutls_datum_t name;
	unsigned type;

	for (unsigned i = 0; gnutls_subject_alt_names_get(names, i, &type, &name, NULL) >= 0; i++) {
		if (!name_to_text(type, &name, text, sizeof(text)))
			continue;
		if (name_is_allowed(trust, text))
			return 0;
		if (!*first)
			(void)text_excerpt(first, text);
	}
	if (!*first)
		return reason_set(why, -EACCES, "it has no subject alternative name, and only some names are allowed");
	return reason_set(why, -EACCES, "its name '%s' is not allowed", first);
}

/* The names are in an extension of the certificate. */
static bool has_allowed_name(const struct client_trust *trust, gnutls_x509_crt_t certificate, struct reason *why)
{
	gnutls_subject_alt_names_t names;
	gnutls_datum_t extension = {};
	int r;

	if (trust->nr_names == 0)
		return true;
	if (gnutls_subject_alt_names_init(&names) < 0) {
		(void)out_of_memory(why);
		return false;
	}
	if (gnutls_x509_crt_get_extension_by_oid2(certificate, GNUTLS_X509EXT_OID_SAN, 0, &extension, NULL) >= 0)
		(void)gnutls_x509_ext_import_subject_alt_names(&extension, names, 0);
	r = check_names(trust, names, why);
	gnutls_free(extension.data);
	gnutls_subject_alt_names_deinit(names);
	return r == 0;
}

static bool admits_certificates(const struct client_trust *trust, gnutls_x509_crt_t *certificates, unsigned nr,
				gnutls_alert_description_t *ret_alert, struct reason *why)
{
	gnutls_typed_vdata_st purpose = { .type = GNUTLS_DT_KEY_PURPOSE_OID,
					  .data = (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT };
	unsigned status = 0;
	int r = gnutls_x509_trust_list_verify_crt2(trust->list, certificates, nr, &purpose, 1, 0, &status, NULL);

	/* GnuTLS does not look at the date of a list that it has. */
	if (r >= 0 && status == 0 && trust->until != -1 && trust->until < time(NULL))
		status = GNUTLS_CERT_REVOCATION_DATA_SUPERSEDED;
	if (r < 0 || status)
		return refuse_status(r < 0 ? GNUTLS_CERT_INVALID : status, ret_alert, why);
	*ret_alert = GNUTLS_A_ACCESS_DENIED;
	return has_allowed_name(trust, certificates[0], why);
}

/* Returns how many there are, which the caller releases; 0: one of them cannot be read, or there are too many. */
static unsigned import_chain(gnutls_x509_crt_t certificates[static CHAIN_MAX], const gnutls_datum_t *chain, unsigned nr)
{
	for (unsigned n = 0; n < nr; n++) {
		if (n < CHAIN_MAX && gnutls_x509_crt_init(&certificates[n]) >= 0) {
			if (gnutls_x509_crt_import(certificates[n], &chain[n], GNUTLS_X509_FMT_DER) >= 0)
				continue;
			gnutls_x509_crt_deinit(certificates[n]);
		}
		while (n > 0)
			gnutls_x509_crt_deinit(certificates[--n]);
		return 0;
	}
	return nr;
}

bool client_trust_admits(const struct client_trust *trust, const gnutls_datum_t *chain, unsigned nr,
			 gnutls_alert_description_t *ret_alert, struct reason *why)
{
	gnutls_x509_crt_t certificates[CHAIN_MAX];
	bool admitted;

	if (nr == 0) {
		*ret_alert = GNUTLS_A_CERTIFICATE_REQUIRED;
		(void)reason_set(why, 0, "there was none");
		return !trust->required;
	}
	nr = import_chain(certificates, chain, nr);
	if (nr == 0)
		return refuse_status(GNUTLS_CERT_INVALID, ret_alert, why);
	admitted = admits_certificates(trust, certificates, nr, ret_alert, why);
	for (unsigned i = 0; i < nr; i++)
		gnutls_x509_crt_deinit(certificates[i]);
	return admitted;
}
