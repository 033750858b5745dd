/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * From a request to its response, apart from connections and the syntax of HTTP.
 *
 * Routes are a const table of paths, with the query parameters that each takes and the function that fills in its
 * response. Below /api/, errors are JSON, and an unknown or malformed parameter is an error, since a filter that is
 * ignored would go unnoticed. Elsewhere errors are plain text and a query is ignored.
 */

#include "expose/response-cache.h"
#include "util/blob.h"
#include "util/buf.h"
#include "web/source.h"

/* The parts of a request that decide about its response. Texts are borrowed, as they were received; NULL: absent. */
struct request_head {
	const char *method, *target;
	const char *accept, *accept_encoding;
	bool crowded; /* too many bytes wait to be sent: responses that can be large are refused (503) */
};

struct response {
	unsigned status;
	const char *type;     /* Content-Type */
	const char *encoding; /* Content-Encoding, or NULL */
	const char *vary;     /* Vary, or NULL */
	struct buf body;      /* of this response alone; empty where shared is set */
	struct blob *shared;  /* a reference to a body from the cache, or NULL */
};

/* Fills in the response to a request. Errors are responses too. Only when out of memory there is no body. */
void route_respond(struct response *ret, const struct web_source *source, struct response_cache *cache,
		   const struct request_head *head);

/* Makes of a response an error below that path, in place of what it was. The sentence may contain foreign text. */
void response_set_error(struct response *ret, const char *path, unsigned status, const char *sentence);
void response_release(struct response *response);
