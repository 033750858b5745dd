/* SPDX-License-Identifier: MIT */

#include "web/web-config.h"

#include "host/fd-budget.h"
#include "util/log.h"
#include "util/secret.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* --- the object */

struct web_options *web_options_new(void)
{
	struct web_options *options = calloc(1, sizeof(*options));

	if (options)
		*options = (struct web_options){
			.refs = 1,
			.max_connections = 256,
			.max_connections_per_address = 64,
			.max_header_bytes = 16 * 1024,
			.max_unsent_bytes = 64 * 1024 * 1024,
			.request_timeout = 10000000000U,
			.answer_timeout = 60000000000U,
			.idle_timeout = 120000000000U,
		};
	return options;
}

struct web_options *web_options_ref(struct web_options *options)
{
	options->refs++;
	return options;
}

struct web_options *web_options_unref(struct web_options *options)
{
	if (!options || --options->refs > 0)
		return NULL;
	tls_free(options->tls);
	users_free(options->users);
	free(options->cors_origin);
	free(options);
	return NULL;
}

/* --- limits */

/* Connections are bounded by the files that the budget leaves for them. */
static unsigned limit_connections(const struct config *config, uint64_t fd_limit)
{
	unsigned fit = fd_budget_connections(fd_limit, config->max_connections);

	if (fit < config->max_connections)
		log_warning("[web] max_connections: %u instead of %u, since the limit of open files is low", fit,
			    (unsigned)config->max_connections);
	return fit;
}

/* --- files */

/* Prefixes the sentence in why with the place of the key in the config. */
static int prefix_place(const struct config_text *text, const char *key, const char *path, int r, struct reason *why)
{
	return reason_prefix(why, r, "%s:%u: %s: %s", text->place.file, text->place.line, key,
			     path ? path : text->text);
}

/* Reads the file that the key names. ret_path is also set where only reading fails. secret: everybody being allowed to
 * read the file is worth a warning. */
static int read_named_file(const struct config_text *text, const char *key, bool secret, char **ret_path, char **ret,
			   struct reason *why)
{
	bool exposed = false;
	int r = secret_path(text->text, ret_path, why);

	if (r >= 0)
		r = secret_read(*ret_path, ret, &exposed, why);
	if (r < 0)
		return prefix_place(text, key, *ret_path, r, why);
	if (secret && exposed)
		log_warning("%s: everybody on this machine may read it (chmod o-r)", *ret_path);
	return 0;
}

/* An expired certificate is no error: it is served as it is, and clients refuse it. */
static void warn_of_expiry(const char *path, time_t expires)
{
	if (expires != (time_t)-1 && expires < time(NULL))
		log_warning("%s: the certificate has expired", path);
}

static int load_tls(struct web_options *options, const struct config *config, struct reason *why)
{
	_cleanup_(freep) char *certificate_path = NULL, *key_path = NULL;
	struct tls *tls = options->tls = calloc(1, sizeof(*tls));
	time_t expires = -1;
	int r;

	if (!tls)
		return reason_set(why, -ENOMEM, "out of memory");
	r = read_named_file(&config->tls_certificate, "tls_certificate", false, &certificate_path, &tls->certificate,
			    why);
	if (r < 0)
		return r;
	r = tls_check_certificate(tls->certificate, &expires, why);
	if (r < 0)
		return prefix_place(&config->tls_certificate, "tls_certificate", certificate_path, r, why);
	r = read_named_file(&config->tls_key, "tls_key", true, &key_path, &tls->key, why);
	if (r < 0)
		return r;
	r = tls_check_key(tls->key, why);
	if (r >= 0)
		r = tls_check_pair(tls->certificate, tls->key, why);
	if (r < 0)
		return prefix_place(&config->tls_key, "tls_key", key_path, r, why);
	warn_of_expiry(certificate_path, expires);
	return 0;
}

static int load_users(struct web_options *options, const struct config *config, struct reason *why)
{
	_cleanup_(secret_freep) char *text = NULL;
	_cleanup_(freep) char *path = NULL;
	int r = read_named_file(&config->users, "users", true, &path, &text, why);

	if (r < 0)
		return r;
	r = users_parse(&options->users, path, text, why);
	return r < 0 ? reason_prefix(why, r, "%s:%u: users", config->users.place.file, config->users.place.line) : 0;
}

int web_config_load(struct web_options **ret, const struct config *config, uint64_t fd_limit, struct reason *why)
{
	_cleanup_(web_options_unrefp) struct web_options *options = web_options_new();
	int r = 0;

	if (options && *config->cors_origin.text)
		options->cors_origin = strdup(config->cors_origin.text);
	if (!options || (*config->cors_origin.text && !options->cors_origin))
		return reason_set(why, -ENOMEM, "out of memory");
	if (*config->tls_certificate.text)
		r = load_tls(options, config, why);
	if (r == 0 && *config->users.text)
		r = load_users(options, config, why);
	if (r < 0)
		return r;
	options->max_connections = limit_connections(config, fd_limit);
	options->max_connections_per_address = (unsigned)config->max_connections_per_address;
	options->max_header_bytes = config->max_header_bytes;
	options->max_unsent_bytes = config->max_unsent_bytes;
	options->request_timeout = config->request_timeout;
	options->answer_timeout = config->answer_timeout;
	options->idle_timeout = config->idle_timeout;
	*ret = steal_ptr(options);
	return 0;
}
