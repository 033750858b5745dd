/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How HTTP is served: [web] of the config, but for the addresses to listen on. The certificate, the key and the users
 * are read from their files and checked when the options are made, so that a broken file is found while the config is
 * loaded, and the options in force stay. In place of the keys for TLS and passwords there can be a file of
 * exporter-toolkit's (web/http/toolkit-config.h).
 *
 * Options do not change once they are in use. Each user of them holds a reference.
 */

#include "base/config/config.h"
#include "web/http/tls.h"
#include "web/http/toolkit-config.h"
#include "web/http/users.h"

#include <stdint.h>

struct web_options {
	unsigned refs;
	struct tls *tls;		/* NULL: plain HTTP */
	struct users *users;		/* NULL: no password is required */
	char *cors_origin;		/* NULL: no page of another origin may read responses */
	char *headers[_WEB_HEADER_MAX]; /* in place of the server's own; NULL: that one */
	unsigned max_connections, max_connections_per_address;
	size_t max_header_bytes;				/* the request line included */
	size_t max_unsent_bytes;				/* of the responses on all connections together */
	uint64_t request_timeout, answer_timeout, idle_timeout; /* ns */
	/* ns, and no key of the config: for an answer of the profiler, with those before it */
	uint64_t work_timeout;
};

/* Are connections encrypted? */
bool web_options_have_tls(const struct web_options *options);
/* With one reference and the config's default limits. NULL: out of memory. */
struct web_options *web_options_new(void);
struct web_options *web_options_ref(struct web_options *options);
struct web_options *web_options_unref(struct web_options *options);
DEFINE_CLEANUP(struct web_options *, web_options_unref)

/* Makes options from the config. max_connections is lowered where fd_limit, the limit of open files, does not allow as
 * many; that, a key that everybody may read, and an expired certificate are logged. Negative errno with
 * "FILE:LINE: KEY: /path: …" in why; -EINVAL for a file with wrong content. */
int web_config_load(struct web_options **ret, const struct config *config, uint64_t fd_limit, struct reason *why);
