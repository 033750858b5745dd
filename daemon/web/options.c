/* SPDX-License-Identifier: MIT */

#include "web/options.h"

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
