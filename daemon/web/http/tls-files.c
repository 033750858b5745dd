/* SPDX-License-Identifier: MIT */

#include "web/http/tls-files.h"

#include "base/util/log.h"
#include "base/util/secret.h"

#include <errno.h>
#include <string.h>

int web_file_fail(const struct web_file *file, const char *path, int r, struct reason *why)
{
	const char *what = path ? path : file->name;

	if (what && *what)
		return reason_prefix(why, r, "%s:%u: %s: %s", file->file, file->line, file->key, what);
	return reason_prefix(why, r, "%s:%u: %s", file->file, file->line, file->key);
}

int web_file_read(const struct web_file *file, bool secret, char **ret_path, char **ret, struct reason *why)
{
	bool exposed = false;
	int r;

	if (file->text) {
		*ret_path = strdup("");
		*ret = *ret_path ? strdup(file->text) : NULL;
		return *ret ? 0 : reason_set(why, -ENOMEM, "out of memory");
	}
	r = secret_path(file->name, ret_path, why);
	if (r >= 0)
		r = secret_read(*ret_path, ret, &exposed, why);
	if (r < 0)
		return web_file_fail(file, *ret_path, r, why);
	if (secret && exposed)
		log_warning("%s: everybody on this machine may read it (chmod o-r)", *ret_path);
	return 0;
}

static void warn_of_date(const char *path, time_t until, const char *sentence)
{
	if (until != (time_t)-1 && until < time(NULL))
		log_warning("%s%s%s", path, *path ? ": " : "", sentence);
}

static int load_pair(struct tls *tls, const struct tls_settings *settings, struct reason *why)
{
	_cleanup_(freep) char *certificate_path = NULL, *key_path = NULL;
	time_t expires = -1;
	int r = web_file_read(&settings->certificate, false, &certificate_path, &tls->certificate, why);

	if (r < 0)
		return r;
	r = tls_check_certificate(tls->certificate, &expires, why);
	if (r < 0)
		return web_file_fail(&settings->certificate, certificate_path, r, why);
	r = web_file_read(&settings->key, true, &key_path, &tls->key, why);
	if (r < 0)
		return r;
	r = tls_check_key(tls->key, why);
	if (r >= 0)
		r = tls_check_pair(tls->certificate, tls->key, why);
	if (r < 0)
		return web_file_fail(&settings->key, key_path, r, why);
	/* It is served as it is, and clients refuse it. */
	warn_of_date(certificate_path, expires, "the certificate has expired");
	return 0;
}

static int load_crl(struct tls *tls, const struct tls_settings *settings, struct reason *why)
{
	_cleanup_(secret_freep) char *text = NULL;
	_cleanup_(freep) char *path = NULL;
	time_t until = -1;
	int r;

	if (!web_file_is_given(&settings->client_crl))
		return 0;
	r = web_file_read(&settings->client_crl, false, &path, &text, why);
	if (r < 0)
		return r;
	r = client_trust_revoke(tls->client_trust, text, &until, why);
	if (r < 0)
		return web_file_fail(&settings->client_crl, path, r, why);
	warn_of_date(path, until, "a list of revoked certificates is out of date: no client certificate is accepted");
	return 0;
}

static int load_clients(struct tls *tls, const struct tls_settings *settings, struct reason *why)
{
	_cleanup_(freep) char *path = NULL;
	int r;

	if (!web_file_is_given(&settings->client_ca))
		return 0;
	r = web_file_read(&settings->client_ca, false, &path, &tls->client_ca, why);
	if (r < 0)
		return r;
	r = client_trust_new(&tls->client_trust, tls->client_ca, settings->client_required, why);
	if (r < 0)
		return web_file_fail(&settings->client_ca, path, r, why);
	for (size_t i = 0; i < settings->nr_client_names; i++)
		if (client_trust_allow(tls->client_trust, settings->client_names[i], settings->names_are_exact) < 0)
			return reason_set(why, -ENOMEM, "out of memory");
	return load_crl(tls, settings, why);
}

int tls_load(struct tls **ret, const struct tls_settings *settings, struct reason *why)
{
	_cleanup_(tls_freep) struct tls *tls = calloc(1, sizeof(*tls));
	int r;

	if (tls)
		tls->priorities = strdup(settings->priorities);
	if (!tls || !tls->priorities)
		return reason_set(why, -ENOMEM, "out of memory");
	r = load_pair(tls, settings, why);
	if (r >= 0)
		r = load_clients(tls, settings, why);
	if (r < 0)
		return r;
	*ret = steal_ptr(tls);
	return 0;
}
