/* SPDX-License-Identifier: MIT */

#include "web/http/web-config.h"

#include "base/host/fd-budget.h"
#include "base/util/log.h"
#include "base/util/secret.h"
#include "web/http/tls-files.h"
#include "web/http/toolkit-config.h"
#include "web/http/toolkit-tls.h"

#include <errno.h>
#include <string.h>

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
			.work_timeout = 120000000000U,
		};
	return options;
}

bool web_options_have_tls(const struct web_options *options)
{
	return options->tls;
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
	for (int i = 0; i < _WEB_HEADER_MAX; i++)
		free(options->headers[i]);
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

static struct web_file file_of(const struct config_text *text, const char *key)
{
	return (struct web_file){
		.file = text->place.file,
		.line = text->place.line,
		.key = key,
		.name = text->text,
	};
}

static int load_tls(struct web_options *options, const struct config *config, struct reason *why)
{
	static const struct toolkit_tls defaults = {};
	_cleanup_(freep) char *priorities = NULL;
	struct tls_settings settings = {
		.certificate = file_of(&config->tls_certificate, "tls_certificate"),
		.key = file_of(&config->tls_key, "tls_key"),
		.client_ca = file_of(&config->tls_client_ca, "tls_client_ca"),
		.client_crl = file_of(&config->tls_client_crl, "tls_client_crl"),
		.client_required = config->tls_client_required,
		.client_names = config->tls_client_names.items,
		.nr_client_names = config->tls_client_names.nr,
	};
	int r;

	if (!web_file_is_given(&settings.certificate))
		return 0;
	r = toolkit_tls_priorities(&defaults, &priorities, why);
	settings.priorities = priorities;
	return r < 0 ? r : tls_load(&options->tls, &settings, why);
}

static int load_users(struct web_options *options, const struct config *config, struct reason *why)
{
	const struct web_file file = file_of(&config->users, "users");
	_cleanup_(secret_freep) char *text = NULL;
	_cleanup_(freep) char *path = NULL;
	int r;

	if (!web_file_is_given(&file))
		return 0;
	r = web_file_read(&file, true, &path, &text, why);
	if (r < 0)
		return r;
	r = users_parse(&options->users, path, text, why);
	return r < 0 ? web_file_fail(&file, "", r, why) : 0;
}

/* The file stands for all that [web] has for TLS and passwords. */
static int load_toolkit_file(struct web_options *options, const struct config *config, struct reason *why)
{
	const struct web_file file = file_of(&config->web_config, "web_config");
	_cleanup_(toolkit_config_freep) struct toolkit_config *toolkit = NULL;
	_cleanup_(secret_freep) char *text = NULL;
	_cleanup_(freep) char *path = NULL;
	int r;

	if (!web_file_is_given(&file))
		return 0;
	r = web_file_read(&file, true, &path, &text, why);
	if (r < 0)
		return r;
	r = toolkit_config_parse(&toolkit, path, text, why);
	if (r == 0 && web_file_is_given(&toolkit->tls.certificate))
		r = tls_load(&options->tls, &toolkit->tls, why);
	if (r < 0)
		return web_file_fail(&file, "", r, why);
	if (toolkit->wants_http2)
		log_notice("%s: http2 is allowed, and not used: perfmond speaks HTTP/1.1", path);
	options->users = steal_ptr(toolkit->users);
	for (int i = 0; i < _WEB_HEADER_MAX; i++)
		options->headers[i] = steal_ptr(toolkit->headers[i]);
	return 0;
}

int web_config_load(struct web_options **ret, const struct config *config, uint64_t fd_limit, struct reason *why)
{
	_cleanup_(web_options_unrefp) struct web_options *options = web_options_new();
	int r;

	if (options && *config->cors_origin.text)
		options->cors_origin = strdup(config->cors_origin.text);
	if (!options || (*config->cors_origin.text && !options->cors_origin))
		return reason_set(why, -ENOMEM, "out of memory");
	r = load_tls(options, config, why);
	if (r == 0)
		r = load_users(options, config, why);
	if (r == 0)
		r = load_toolkit_file(options, config, why);
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
