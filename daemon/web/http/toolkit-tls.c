/* SPDX-License-Identifier: MIT */

#include "web/http/toolkit-tls.h"

#include "base/util/text.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <string.h>

struct toolkit_suite {
	const char *name;
	const char *exchange, *cipher; /* GnuTLS's names */
};

/* With forward secrecy and authenticated encryption: the others are never spoken here. */
static const struct toolkit_suite suites[] = {
	{ "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA", "AES-128-GCM" },
	{ "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA", "AES-256-GCM" },
	{ "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA", "CHACHA20-POLY1305" },
	{ "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA", "AES-128-GCM" },
	{ "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA", "AES-256-GCM" },
	{ "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA", "CHACHA20-POLY1305" },
};

static const struct {
	const char *name, *group;
} curves[] = {
	{ "X25519", "X25519" },
	{ "CurveP256", "SECP256R1" },
	{ "CurveP384", "SECP384R1" },
	{ "CurveP521", "SECP521R1" },
};

/* 10 to 13, or 0. */
static int version_of(const char *value)
{
	static const char *const names[] = { "TLS10", "TLS11", "TLS12", "TLS13" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(value, names[i]) == 0)
			return 10 + (int)i;
	return 0;
}

static int fail_version(const char *value, int version, struct reason *why)
{
	char excerpt[EXCERPT_MAX];

	if (version)
		return reason_set(why, -EINVAL, "%s is too old and not spoken here; write TLS12 or TLS13", value);
	return reason_set(why, -EINVAL, "'%s' is no version; write TLS12 or TLS13", text_excerpt(excerpt, value));
}

int toolkit_tls_min_version(struct toolkit_tls *tls, const char *value, struct reason *why)
{
	int version = version_of(value);

	tls->without_1_2 = version == 13;
	return version < 12 ? fail_version(value, version, why) : 0;
}

int toolkit_tls_max_version(struct toolkit_tls *tls, const char *value, struct reason *why)
{
	int version = version_of(value);

	tls->without_1_3 = version == 12;
	return version < 12 ? fail_version(value, version, why) : 0;
}

int toolkit_tls_suite(struct toolkit_tls *tls, const char *value, struct reason *why)
{
	char excerpt[EXCERPT_MAX];

	if (tls->nr_suites == TLS_SUITES_MAX)
		return reason_set(why, -EINVAL, "more than %d suites", TLS_SUITES_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(suites); i++)
		if (strcmp(value, suites[i].name) == 0) {
			tls->suites[tls->nr_suites++] = &suites[i];
			return 0;
		}
	if (strncmp(value, "TLS_", 4) == 0 && !strstr(value, "_WITH_"))
		return reason_set(why, -EINVAL,
				  "%s is of TLS 1.3, which takes the ciphers of the other suites here; leave it out",
				  text_excerpt(excerpt, value));
	return reason_set(why, -EINVAL,
			  "'%s' is not spoken here: a suite needs ECDHE and AES-GCM or ChaCha20-Poly1305, such as %s",
			  text_excerpt(excerpt, value), suites[0].name);
}

int toolkit_tls_curve(struct toolkit_tls *tls, const char *value, struct reason *why)
{
	char excerpt[EXCERPT_MAX];

	if (tls->nr_groups == TLS_SUITES_MAX)
		return reason_set(why, -EINVAL, "more than %d curves", TLS_SUITES_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(curves); i++)
		if (strcmp(value, curves[i].name) == 0) {
			tls->groups[tls->nr_groups++] = curves[i].group;
			return 0;
		}
	return reason_set(why, -EINVAL, "'%s' is no curve; write X25519, CurveP256, CurveP384 or CurveP521",
			  text_excerpt(excerpt, value));
}

/* --- the priority string */

static bool has_suite(const struct toolkit_tls *tls, const char *exchange, const char *cipher)
{
	for (size_t i = 0; i < tls->nr_suites; i++)
		if (strcmp(tls->suites[i]->exchange, exchange) == 0 && strcmp(tls->suites[i]->cipher, cipher) == 0)
			return true;
	return false;
}

static int check_suites(const struct toolkit_tls *tls, struct reason *why)
{
	for (size_t i = 0; i < tls->nr_suites; i++)
		for (size_t k = 0; k < tls->nr_suites; k++)
			if (!has_suite(tls, tls->suites[i]->exchange, tls->suites[k]->cipher))
				return reason_set(why, -EINVAL,
						  "these suites cannot be told apart here: with %s and %s, %s with %s "
						  "is spoken as well; add it, or leave one of them out",
						  tls->suites[i]->name, tls->suites[k]->name, tls->suites[i]->exchange,
						  tls->suites[k]->cipher);
	return 0;
}

static void add_suites(struct buf *out, const struct toolkit_tls *tls)
{
	if (tls->nr_suites == 0)
		return;
	buf_str(out, ":-CIPHER-ALL:-KX-ALL");
	for (size_t i = 0; i < tls->nr_suites; i++) {
		buf_printf(out, ":+%s", tls->suites[i]->cipher);
		buf_printf(out, ":+%s", tls->suites[i]->exchange);
	}
}

static int check_priorities(const char *text, struct reason *why)
{
	gnutls_priority_t priority;
	const char *at = text;

	if (gnutls_priority_init(&priority, text, &at) < 0)
		return reason_set(why, -EINVAL, "GnuTLS does not take these versions, suites and curves together: %s",
				  at);
	gnutls_priority_deinit(priority);
	return 0;
}

int toolkit_tls_priorities(const struct toolkit_tls *tls, char **ret, struct reason *why)
{
	_cleanup_(freep) char *text = NULL;
	struct buf out = {};
	int r;

	if (tls->without_1_2 && tls->without_1_3)
		return reason_set(why, -EINVAL, "max_version is below min_version: no version is left");
	r = check_suites(tls, why);
	if (r < 0)
		return r;
	buf_str(&out, "NORMAL:-VERS-ALL");
	buf_str(&out, tls->without_1_3 ? "" : ":+VERS-TLS1.3");
	buf_str(&out, tls->without_1_2 ? "" : ":+VERS-TLS1.2");
	buf_str(&out, ":-MAC-ALL:+AEAD:-RSA");
	add_suites(&out, tls);
	if (tls->nr_groups > 0)
		buf_str(&out, ":-GROUP-ALL");
	for (size_t i = 0; i < tls->nr_groups; i++)
		buf_printf(&out, ":+GROUP-%s", tls->groups[i]);
	if (!tls->client_order)
		buf_str(&out, ":%SERVER_PRECEDENCE");
	text = buf_steal(&out);
	if (!text)
		return reason_set(why, -ENOMEM, "out of memory");
	r = check_priorities(text, why);
	if (r < 0)
		return r;
	*ret = steal_ptr(text);
	return 0;
}
