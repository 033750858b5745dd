/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How the web is served: [web] of the config, with the files it names read. Never changed once it is made; whoever
 * needs it has a reference.
 */

#include "web/tls.h"
#include "web/users.h"

#include <stdint.h>

struct web_options {
	unsigned refs;
	struct tls *tls;     /* NULL: none */
	struct users *users; /* NULL: everybody may come in */
	char *cors_origin;   /* NULL: none */
	unsigned max_connections, max_connections_per_address;
	size_t max_header_bytes; /* the request line included */
	size_t max_unsent_bytes; /* of answers on all connections together */
	uint64_t request_timeout, answer_timeout, idle_timeout; /* ns */
};

/* With one reference, and limits that are the config's defaults. NULL: no memory. */
struct web_options *web_options_new(void);
struct web_options *web_options_ref(struct web_options *options);
struct web_options *web_options_unref(struct web_options *options);
DEFINE_CLEANUP(struct web_options *, web_options_unref)
