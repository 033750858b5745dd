/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The web configuration of exporter-toolkit, which Prometheus's own exporters share (--web.config.file): a YAML file
 * with certificates, rules for clients, users and headers, so that one file serves a whole fleet.
 *
 * The file is read strictly: an unknown key, a key given twice, and whatever cannot be kept here are errors with their
 * line. Only http2 is taken although HTTP/2 is not spoken: it allows it, and does not demand it.
 *
 * One of two files stands behind this header: toolkit-config.c, with libyaml, or toolkit-config-none.c.
 */

#include "web/http/tls-files.h"
#include "web/http/users.h"

/* Headers of responses whose values the file may set. */
enum web_header {
	WEB_HEADER_SECURITY_POLICY,
	WEB_HEADER_FRAME_OPTIONS,
	WEB_HEADER_CONTENT_TYPE_OPTIONS,
	WEB_HEADER_XSS_PROTECTION,
	WEB_HEADER_STRICT_TRANSPORT,
	_WEB_HEADER_MAX,
};

struct toolkit_config {
	struct tls_settings tls; /* without a certificate: plain HTTP */
	struct users *users;	 /* NULL: no password is required */
	char *headers[_WEB_HEADER_MAX];
	bool wants_http2;
	char **texts; /* owned, and borrowed by tls */
	size_t nr_texts;
};

/* file: its path, for messages, and for relative paths in it, which are below its folder. -EINVAL with "file:line: …"
 * in why; -EOPNOTSUPP: built without libyaml; -ENOMEM. */
int toolkit_config_parse(struct toolkit_config **ret, const char *file, const char *text, struct reason *why);
struct toolkit_config *toolkit_config_free(struct toolkit_config *config);
DEFINE_CLEANUP(struct toolkit_config *, toolkit_config_free)
