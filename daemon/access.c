/* SPDX-License-Identifier: MIT */

#include "access.h"

#include "util/log.h"
#include "util/secret.h"

#include <errno.h>
#include <string.h>
#include <time.h>

size_t access_fd_reserve(const struct config *config, uint64_t fd_limit)
{
	uint64_t wanted = FDS_OF_OTHERS + config->max_connections, most = fd_limit / 2;

	/* Where there are very few, it is not counting that has to work first. */
	if (most < FDS_OF_ITSELF + FEW_CONNECTIONS)
		most = fd_limit < FDS_OF_ITSELF + FEW_CONNECTIONS ? fd_limit : FDS_OF_ITSELF + FEW_CONNECTIONS;
	return (size_t)(wanted < most ? wanted : most);
}

/* Of those, how many are not for connections. */
static size_t fds_of_others(size_t reserve)
{
	size_t half = reserve / 2;

	return half > FDS_OF_OTHERS ? FDS_OF_OTHERS : half > FDS_OF_ITSELF ? half : FDS_OF_ITSELF;
}

/* As many as the files that are left for them. */
static unsigned max_connections(const struct config *config, uint64_t fd_limit)
{
	size_t reserve = access_fd_reserve(config, fd_limit);
	size_t others = fds_of_others(reserve), fit = reserve > others ? reserve - others : 0;

	if (config->max_connections <= fit)
		return (unsigned)config->max_connections;
	log_warning("[web] max_connections: %zu instead of %u, since the limit of open files is low", fit,
		    (unsigned)config->max_connections);
	return fit ? (unsigned)fit : 1;
}

/* --- files */

/* Where it was configured, before what is wrong with it. */
static int blame(const struct config_text *text, const char *key, const char *path, int r, struct reason *why)
{
	return reason_prefix(why, r, "%s:%u: %s: %s", text->place.file, text->place.line, key,
			     path ? path : text->text);
}

/* secret: is it one that not everybody may read? */
static int load(const struct config_text *text, const char *key, bool secret, char **path, char **ret,
		struct reason *why)
{
	bool exposed = false;
	int r = secret_path(text->text, path, why);

	if (r >= 0)
		r = secret_read(*path, ret, &exposed, why);
	if (r < 0)
		return blame(text, key, *path, r, why);
	if (secret && exposed)
		log_warning("%s: everybody on this machine may read it (chmod o-r)", *path);
	return 0;
}

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
	r = load(&config->tls_certificate, "tls_certificate", false, &certificate_path, &tls->certificate, why);
	if (r < 0)
		return r;
	r = tls_check_certificate(tls->certificate, &expires, why);
	if (r < 0)
		return blame(&config->tls_certificate, "tls_certificate", certificate_path, r, why);
	r = load(&config->tls_key, "tls_key", true, &key_path, &tls->key, why);
	if (r < 0)
		return r;
	r = tls_check_key(tls->key, why);
	if (r >= 0)
		r = tls_check_pair(tls->certificate, tls->key, why);
	if (r < 0)
		return blame(&config->tls_key, "tls_key", key_path, r, why);
	warn_of_expiry(certificate_path, expires);
	return 0;
}

static int load_users(struct web_options *options, const struct config *config, struct reason *why)
{
	_cleanup_(secret_freep) char *text = NULL;
	_cleanup_(freep) char *path = NULL;
	int r = load(&config->users, "users", true, &path, &text, why);

	if (r < 0)
		return r;
	r = users_parse(&options->users, path, text, why);
	return r < 0 ? reason_prefix(why, r, "%s:%u: users", config->users.place.file, config->users.place.line) : 0;
}

int access_load(struct web_options **ret, const struct config *config, uint64_t fd_limit, struct reason *why)
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
	options->max_connections = max_connections(config, fd_limit);
	options->max_connections_per_address = (unsigned)config->max_connections_per_address;
	options->max_header_bytes = config->max_header_bytes;
	options->max_unsent_bytes = config->max_unsent_bytes;
	options->request_timeout = config->request_timeout;
	options->answer_timeout = config->answer_timeout;
	options->idle_timeout = config->idle_timeout;
	*ret = steal_ptr(options);
	return 0;
}
