/* SPDX-License-Identifier: MIT */

#include "web/http/send.h"

#include "web/page/page.h"

#include <string.h>

/* The Retry-After of 429 and 503, in seconds, unless the response has its own. */
#define RETRY_AFTER_S "5"

const char *request_header(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

bool send_is_from_origin(const struct web_options *options, struct MHD_Connection *connection)
{
	const char *origin = request_header(connection, MHD_HTTP_HEADER_ORIGIN);

	return origin && options->cors_origin && strcmp(origin, options->cors_origin) == 0;
}

struct header {
	const char *name;
	const char *value; /* NULL: the header is left out */
};

static bool add_table(struct MHD_Response *mhd_response, const struct header *headers, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (headers[i].value &&
		    MHD_add_response_header(mhd_response, headers[i].name, headers[i].value) != MHD_YES)
			return false;
	return true;
}

static bool add_headers(struct MHD_Response *mhd_response, const struct response *response)
{
	const struct header headers[] = {
		{ MHD_HTTP_HEADER_CONTENT_TYPE, response->type },
		{ MHD_HTTP_HEADER_CONTENT_ENCODING, response->encoding },
		{ MHD_HTTP_HEADER_VARY, response->vary },
		{ MHD_HTTP_HEADER_CACHE_CONTROL, "no-store" },
		{ MHD_HTTP_HEADER_ALLOW, response->status == MHD_HTTP_METHOD_NOT_ALLOWED ? "GET, HEAD" : NULL },
	};

	return add_table(mhd_response, headers, ARRAY_SIZE(headers));
}

/* Restrictions for browsers, and the permissions of the configured origin (CORS). */
static bool add_security_headers(const struct web_options *options, struct MHD_Connection *connection,
				 struct MHD_Response *mhd_response)
{
	bool allowed = send_is_from_origin(options, connection);
	char *const *own = options->headers;
	const struct header headers[] = {
		{ "X-Content-Type-Options", own[WEB_HEADER_CONTENT_TYPE_OPTIONS] ?: "nosniff" },
		{ "X-Frame-Options", own[WEB_HEADER_FRAME_OPTIONS] ?: "DENY" },
		{ "X-XSS-Protection", own[WEB_HEADER_XSS_PROTECTION] },
		{ "Strict-Transport-Security", own[WEB_HEADER_STRICT_TRANSPORT] },
		{ "Referrer-Policy", "no-referrer" },
		{ "Cross-Origin-Resource-Policy", "same-origin" },
		{ "Content-Security-Policy", own[WEB_HEADER_SECURITY_POLICY] ?: page_security_policy },
		{ MHD_HTTP_HEADER_VARY, options->cors_origin ? MHD_HTTP_HEADER_ORIGIN : NULL },
		{ MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, allowed ? options->cors_origin : NULL },
		{ MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, allowed ? "GET, HEAD" : NULL },
		{ MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS, allowed ? MHD_HTTP_HEADER_AUTHORIZATION : NULL },
	};

	return add_table(mhd_response, headers, ARRAY_SIZE(headers));
}

static bool add_status_headers(struct MHD_Response *mhd_response, const struct response *response, bool last)
{
	unsigned status = response->status;
	bool later = status == MHD_HTTP_TOO_MANY_REQUESTS || status == MHD_HTTP_SERVICE_UNAVAILABLE;
	const struct header headers[] = {
		{ MHD_HTTP_HEADER_WWW_AUTHENTICATE,
		  status == MHD_HTTP_UNAUTHORIZED ? "Basic realm=\"perfmond\", charset=\"UTF-8\"" : NULL },
		{ MHD_HTTP_HEADER_RETRY_AFTER, later ? response->retry_after ?: RETRY_AFTER_S : NULL },
		{ MHD_HTTP_HEADER_CONNECTION, last ? "close" : NULL },
	};

	return add_table(mhd_response, headers, ARRAY_SIZE(headers));
}

static void count_response(struct web_stats *stats, unsigned status)
{
	static const struct {
		unsigned status;
		enum self_http index;
	} known[] = {
		{ MHD_HTTP_OK, SELF_HTTP_200 },
		{ MHD_HTTP_BAD_REQUEST, SELF_HTTP_400 },
		{ MHD_HTTP_UNAUTHORIZED, SELF_HTTP_401 },
		{ MHD_HTTP_NOT_FOUND, SELF_HTTP_404 },
		{ MHD_HTTP_METHOD_NOT_ALLOWED, SELF_HTTP_405 },
		{ MHD_HTTP_CONTENT_TOO_LARGE, SELF_HTTP_413 },
		{ MHD_HTTP_MISDIRECTED_REQUEST, SELF_HTTP_421 },
		{ MHD_HTTP_TOO_MANY_REQUESTS, SELF_HTTP_429 },
		{ MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE, SELF_HTTP_431 },
		{ MHD_HTTP_SERVICE_UNAVAILABLE, SELF_HTTP_503 },
	};
	enum self_http index = SELF_HTTP_OTHER;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].status == status)
			index = known[i].index;
	stats->requests[index]++;
}

static void on_sent(void *cls)
{
	blob_unref(cls);
}

/* Takes the body over, without a copy: a body of its own, or the reference to a shared one. NULL: out of memory, and
 * the response keeps it. */
static struct MHD_Response *make_response(struct response *response)
{
	struct MHD_Response *mhd_response;

	if (response->shared)
		mhd_response = MHD_create_response_from_buffer_with_free_callback_cls(
			response->shared->len, response->shared->data, on_sent, response->shared);
	else
		mhd_response =
			MHD_create_response_from_buffer(response->body.len, response->body.data, MHD_RESPMEM_MUST_FREE);
	if (!mhd_response)
		return NULL;
	response->shared = NULL; /* on_sent() releases the reference */
	response->body = (struct buf){};
	return mhd_response;
}

enum MHD_Result send_response(struct MHD_Connection *connection, struct response *response,
			      const struct web_options *options, bool last, struct web_stats *stats)
{
	struct MHD_Response *mhd_response;
	enum MHD_Result r = MHD_NO;

	if (response->body.failed)
		return MHD_NO;
	mhd_response = make_response(response);
	if (!mhd_response)
		return MHD_NO;
	count_response(stats, response->status);
	if (add_headers(mhd_response, response) && add_security_headers(options, connection, mhd_response) &&
	    add_status_headers(mhd_response, response, last))
		r = MHD_queue_response(connection, response->status, mhd_response);
	MHD_destroy_response(mhd_response);
	return r;
}
