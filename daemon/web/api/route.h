/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * From a request to its response, apart from connections and the syntax of HTTP.
 *
 * Routes are a const table of paths, with the query parameters that each takes and the function that fills in its
 * response. Below /api/, errors are JSON. There and at /metrics an unknown or malformed parameter is an error, since a
 * filter that is ignored would go unnoticed. Elsewhere errors are plain text and a query is ignored.
 */

#include "web/api/response.h"
#include "web/api/source.h"
#include "web/expose/response-cache.h"

/* Fills in the response to a request. Errors are responses too. Only when out of memory there is no body. */
void route_respond(struct response *ret, const struct web_source *source, struct response_cache *cache,
		   const struct request_head *head);

/* Other methods than GET and HEAD are refused. */
bool route_reads_only(const char *method);

/* Can the response take longer than a turn of the loop? Then it is for a child (work-child.h). */
bool route_takes_long(const struct request_head *head);
