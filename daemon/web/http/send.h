/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A response on its way to libmicrohttpd: its headers, some of which depend on the request's, and its body, which is
 * handed over without a copy.
 */

#include "counting/snapshot/self-stats.h"
#include "web/api/response.h"
#include "web/http/web-config.h"

#include <microhttpd.h>

/* The value of a header of the request, which is libmicrohttpd's; NULL: it has none of that name. */
const char *request_header(struct MHD_Connection *connection, const char *name);

/* Does the request come from a page of the configured origin? */
bool send_is_from_origin(const struct web_options *options, struct MHD_Connection *connection);

/* Takes the body over, and counts the response. last: the connection ends with it. MHD_NO, which closes the connection:
 * there is no body, or no memory. */
enum MHD_Result send_response(struct MHD_Connection *connection, struct response *response,
			      const struct web_options *options, bool last, struct web_stats *stats);
