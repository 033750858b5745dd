/* SPDX-License-Identifier: MIT */

#include "web/api/route.h"

#include "base/util/clock.h"
#include "base/util/glob.h"
#include "base/util/gzip.h"
#include "web/api/accept.h"
#include "web/api/openapi.h"
#include "web/api/profile-route.h"
#include "web/api/query.h"
#include "web/expose/expose.h"
#include "web/expose/past-text.h"
#include "web/page/page.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#define TYPE_PROMETHEUS "text/plain; version=0.0.4; charset=utf-8"
#define TYPE_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define PROTOBUF "application/vnd.google.protobuf"
#define PROTOBUF_FAMILY "io.prometheus.client.MetricFamily"
#define TYPE_PROTOBUF PROTOBUF "; proto=" PROTOBUF_FAMILY "; encoding=delimited"
#define TYPE_TEXT RESPONSE_TEXT_TYPE
#define TYPE_HTML "text/html; charset=utf-8"
#define TYPE_JSON RESPONSE_JSON_TYPE
#define VARY MHD_HTTP_HEADER_ACCEPT ", " MHD_HTTP_HEADER_ACCEPT_ENCODING
#define TYPE_BYTES "application/octet-stream"

/* --- endpoints: each fills in a response; 0, or -ENOMEM */

/* A request while it is responded to. */
struct routed_request {
	const struct web_source *source;
	struct response_cache *cache;
	const struct request_head *head;
	char *path; /* decoded; NULL until then */
	struct parameters parameters;
	struct expose_query query;   /* borrows from the parameters */
	struct snapshot *snapshot;   /* NULL where the route needs none */
	struct rendering *rendering; /* a reference: the response has to be rendered; or NULL */
	/* Where the profiler is asked: the question, which borrows from path and parameters, and its answer. */
	struct profile_question question;
	struct blob *document; /* borrowed */
};

static void routed_request_release(struct routed_request *request)
{
	free(request->path);
	parameters_release(&request->parameters);
	snapshot_unref(request->snapshot);
	rendering_unref(request->rendering);
}

static enum response_coding request_coding(const struct routed_request *request)
{
	return accept_gzip(request->head->accept_encoding) ? RESPONSE_GZIP : RESPONSE_PLAIN;
}

static const char *coding_name(enum response_coding coding)
{
	return coding == RESPONSE_GZIP ? "gzip" : NULL;
}

/* What never changes, from the cache. */
static int response_set_constant(struct response *ret, const struct routed_request *request, const char *text,
				 size_t size)
{
	enum response_coding coding = request_coding(request);
	int r = response_cache_get_constant(request->cache, text, size, coding, &ret->shared);

	if (r == 0)
		ret->encoding = coding_name(coding);
	return r;
}

static int page_respond(struct response *ret, struct routed_request *request)
{
	return response_set_constant(ret, request, page_html, page_html_size);
}

/* The cache's key: the same for the same path, type and query only. Each text is preceded by its length,
 * since it may contain any character. */
static char *request_key(const struct routed_request *request, const char *type)
{
	const struct expose_query *query = &request->query;
	const char *const texts[] = { query->cgroup, query->event, query->sort };
	struct buf key = {};

	buf_printf(&key, "%s %s %zu %d %d", request->path, type, query->limit, query->leaves, query->without_self);
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		buf_printf(&key, " %d", query->without[scope]);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		buf_printf(&key, " %zu:%s", texts[i] ? strlen(texts[i]) : 0, texts[i] ?: "");
	return buf_steal(&key);
}

/* Takes over snapshot and parameters, and the key in every case. */
static int request_render(struct routed_request *request, const char *type, char *key)
{
	struct rendering *rendering = calloc(1, sizeof(*rendering));
	char *path = strdup(request->path);

	if (!rendering || !path) {
		free(rendering);
		free(path);
		free(key);
		return -ENOMEM;
	}
	*rendering = (struct rendering){
		.refs = 1,
		.path = path,
		.key = key,
		.type = type,
		.snapshot = steal_ptr(request->snapshot),
		.coding = request_coding(request),
		.query = request->query,
		.parameters = steal_struct(request->parameters),
	};
	request->rendering = rendering;
	return 0;
}

/* A text of the snapshot: from the cache, or it has to be rendered. is_scrape: it is told to the source. */
static int response_set_written(struct response *ret, struct routed_request *request, rendering_writer write,
				bool is_scrape)
{
	enum response_coding coding = request_coding(request);
	char *key = request_key(request, ret->type);
	struct rendering *rendering;
	int r;

	if (!key)
		return -ENOMEM;
	ret->shared = response_cache_find(request->cache, request->snapshot, key, coding);
	if (ret->shared) {
		free(key);
		ret->encoding = coding_name(coding);
		if (is_scrape)
			request->source->scraped(request->source->userdata, false);
		return 0;
	}
	r = request_render(request, ret->type, key);
	if (r < 0)
		return r;
	rendering = request->rendering;
	rendering->is_scrape = is_scrape;
	rendering->write = write;
	rendering->plain = response_cache_find(request->cache, rendering->snapshot, key, RESPONSE_PLAIN);
	return 0;
}

/* Drops a limit that cuts nothing off, so that the response has the key of a query without a limit. */
static void drop_idle_limit(struct expose_query *query, const struct snapshot *snapshot)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		if (!query->without[scope] && query->limit < snapshot->table[scope].nr_rows)
			return;
	query->limit = 0;
}

static int metrics_respond(struct response *ret, struct routed_request *request)
{
	static const struct media offers[] = {
		{ .type = "text/plain", .parameters = { { "version", "0.0.4" } } },
		{ .type = "application/openmetrics-text", .parameters = { { "version", "1.0.0" } } },
		{ .type = PROTOBUF,
		  .parameters = { { "proto", PROTOBUF_FAMILY }, { "encoding", "delimited" } },
		  .needs_parameters = true },
	};
	static const struct {
		const char *type;
		rendering_writer write;
	} formats[] = {
		{ TYPE_PROMETHEUS, expose_prometheus },
		{ TYPE_OPENMETRICS, expose_openmetrics },
		{ TYPE_PROTOBUF, expose_protobuf },
	};
	size_t format = accept_media(request->head->accept, offers, ARRAY_SIZE(offers));

	ret->type = formats[format].type;
	return response_set_written(ret, request, formats[format].write, true);
}

static int snapshot_respond(struct response *ret, struct routed_request *request)
{
	struct expose_query *query = &request->query;
	struct reason why;

	if (query->sort && !expose_has_event(request->snapshot, query, query->sort)) {
		reason_set(&why, 0, "sort: there is no event '%s'; /api/v1/events lists all", query->sort);
		response_set_error(ret, request->path, MHD_HTTP_BAD_REQUEST, why.text);
		return 0;
	}
	drop_idle_limit(query, request->snapshot);
	return response_set_written(ret, request, expose_json_snapshot, true);
}

/* Not from the cache: hardly two ask for the same. */
static int history_respond(struct response *ret, struct routed_request *request)
{
	static const struct media offers[] = {
		{ .type = "application/json" },
		{ .type = "application/openmetrics-text", .parameters = { { "version", "1.0.0" } } },
	};
	bool openmetrics = accept_media(request->head->accept, offers, ARRAY_SIZE(offers)) == 1;
	struct rendering *rendering;
	int r;

	if (openmetrics)
		ret->type = TYPE_OPENMETRICS;
	r = request_render(request, ret->type, NULL);
	if (r < 0)
		return r;
	rendering = request->rendering;
	rendering->write_past = openmetrics ? past_text_openmetrics : past_text_json;
	return past_new(&rendering->past, request->source->history, rendering->snapshot, &rendering->query,
			openmetrics ? PAST_TOTALS : PAST_RATES);
}

static int events_write(struct buf *out, const struct snapshot *snapshot, const struct expose_query *query)
{
	(void)query;
	return expose_json_events(out, snapshot);
}

static int events_respond(struct response *ret, struct routed_request *request)
{
	return response_set_written(ret, request, events_write, false);
}

static int cgroups_write(struct buf *out, const struct snapshot *snapshot, const struct expose_query *query)
{
	(void)query;
	return expose_json_cgroups(out, snapshot);
}

static int cgroups_respond(struct response *ret, struct routed_request *request)
{
	return response_set_written(ret, request, cgroups_write, false);
}

/* It is small, and what it tells of the machine can change with a reload. */
static int status_respond(struct response *ret, struct routed_request *request)
{
	const struct web_source *source = request->source;

	return expose_json_status(&ret->body, request->snapshot, source->info, source->no_profiles(source->userdata));
}

static int profile_respond(struct response *ret, struct routed_request *request)
{
	profile_route_respond(ret, &request->question, request->document);
	return 0;
}

static int openapi_respond(struct response *ret, struct routed_request *request)
{
	return response_set_constant(ret, request, openapi_json, openapi_json_size);
}

static int healthy_respond(struct response *ret, struct routed_request *request)
{
	(void)request;
	buf_str(&ret->body, "healthy\n");
	return 0;
}

static int ready_respond(struct response *ret, struct routed_request *request)
{
	struct reason why = {};

	if (request->source->ready(request->source->userdata, &why)) {
		buf_str(&ret->body, "ready\n");
		return 0;
	}
	reason_prefix(&why, 0, "not ready");
	response_set_error(ret, request->path, MHD_HTTP_SERVICE_UNAVAILABLE, why.text);
	return 0;
}

/* --- routes */

struct route {
	const char *path; /* up to a "{", for which any one name stands */
	const char *type;
	bool large; /* refused where too much waits to be sent */
	bool needs_snapshot;
	bool gzip;				 /* compressed for clients that accept that */
	enum profile_route asks;		 /* the profiler, before it responds; PROFILE_ROUTE_NONE: nobody */
	const struct parameter_rule *parameters; /* NULL: a query is ignored, or the route's own matter */
	int (*respond)(struct response *ret, struct routed_request *request);
};

static const struct route routes[] = {
	{ "/", TYPE_HTML, false, false, true, PROFILE_ROUTE_NONE, NULL, page_respond },
	{ "/metrics", TYPE_PROMETHEUS, true, true, true, PROFILE_ROUTE_NONE, metrics_parameters, metrics_respond },
	{ "/api/v1/snapshot", TYPE_JSON, true, true, true, PROFILE_ROUTE_NONE, snapshot_parameters, snapshot_respond },
	{ "/api/v1/events", TYPE_JSON, true, true, true, PROFILE_ROUTE_NONE, no_parameters, events_respond },
	{ "/api/v1/cgroups", TYPE_JSON, true, true, true, PROFILE_ROUTE_NONE, no_parameters, cgroups_respond },
	{ "/api/v1/history", TYPE_JSON, true, true, true, PROFILE_ROUTE_NONE, history_parameters, history_respond },
	{ "/api/v1/status", TYPE_JSON, true, true, true, PROFILE_ROUTE_NONE, no_parameters, status_respond },
	{ "/api/v1/profile", TYPE_JSON, true, false, true, PROFILE_ROUTE_TREE, NULL, profile_respond },
	{ "/api/v1/profile/top", TYPE_JSON, true, false, true, PROFILE_ROUTE_TOP, NULL, profile_respond },
	{ "/api/v1/profile/heat", TYPE_JSON, true, false, true, PROFILE_ROUTE_HEAT, NULL, profile_respond },
	{ "/api/v1/captures", TYPE_JSON, true, false, true, PROFILE_ROUTE_CAPTURES, no_parameters, profile_respond },
	{ "/api/v1/captures/{id}", TYPE_JSON, true, false, true, PROFILE_ROUTE_CAPTURE, NULL, profile_respond },
	{ "/api/v1/openapi.json", TYPE_JSON, false, false, true, PROFILE_ROUTE_NONE, no_parameters, openapi_respond },
	{ "/debug/pprof/{name}", TYPE_BYTES, true, false, false, PROFILE_ROUTE_PPROF, NULL, profile_respond },
	{ "/-/healthy", TYPE_TEXT, false, false, false, PROFILE_ROUTE_NONE, NULL, healthy_respond },
	{ "/-/ready", TYPE_TEXT, false, false, false, PROFILE_ROUTE_NONE, NULL, ready_respond },
};

static const struct route *route_find(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
		size_t n = strcspn(routes[i].path, "{");

		if (strncmp(routes[i].path, path, n) == 0 &&
		    (routes[i].path[n] ? path[n] && !strchr(path + n, '/') : !path[n]))
			return &routes[i];
	}
	return NULL;
}

/* --- from a request to its response: steps that return 0, or the status of an error with the sentence in why */

/* errno as a status: a request that is not understood, or no memory. */
static unsigned error_status(int r, struct reason *why)
{
	if (r == -ENOMEM)
		reason_set(why, r, "out of memory");
	return r == -ENOMEM ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_BAD_REQUEST;
}

/* The same, of what has to be rendered. */
static unsigned rendering_status(int error, struct reason *why)
{
	static const struct {
		int error;
		unsigned status;
		const char *sentence;
	} known[] = {
		{ -E2BIG, MHD_HTTP_BAD_REQUEST, GLOB_TOO_LONG },
		{ -EFBIG, MHD_HTTP_CONTENT_TOO_LARGE,
		  "the answer would be longer than 16 MiB; ask for a part of it, such as fewer cgroups or events" },
		{ -EINVAL, MHD_HTTP_BAD_REQUEST, CLOCK_STEPS_REVERSED },
		{ -EOVERFLOW, MHD_HTTP_BAD_REQUEST,
		  "more than 200,000 points: ask for fewer cgroups, events or seconds (cgroup=, event=, from=, to=)" },
		{ -ESTALE, MHD_HTTP_SERVICE_UNAVAILABLE,
		  "there are readings more often than the past can be copied; ask for fewer cgroups or events" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].error == error) {
			reason_set(why, 0, "%s", known[i].sentence);
			return known[i].status;
		}
	return error_status(-ENOMEM, why);
}

bool route_reads_only(const char *method)
{
	return strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
}

static unsigned request_route(struct routed_request *request, const struct route **ret, struct reason *why)
{
	int r;

	if (!route_reads_only(request->head->method)) {
		reason_set(why, 0, "only GET and HEAD are supported");
		return MHD_HTTP_METHOD_NOT_ALLOWED;
	}
	r = target_path(request->head->target, &request->path, why);
	if (r < 0)
		return error_status(r, why);
	*ret = route_find(request->path);
	if (!*ret) {
		reason_set(why, 0, "nothing is served at this path; see the page at /");
		return MHD_HTTP_NOT_FOUND;
	}
	return 0;
}

static unsigned request_take_query(struct routed_request *request, const struct route *route, struct reason *why)
{
	int r = 0;

	if (route->parameters)
		r = query_take(&request->query, &request->parameters, request->head->target, route->parameters, why);
	return r < 0 ? error_status(r, why) : 0;
}

/* The question to the profiler, if the route asks one. */
static unsigned request_take_question(struct routed_request *request, const struct route *route, struct reason *why)
{
	struct profile_question *question = &request->question;
	int r = 0;

	if (route->asks == PROFILE_ROUTE_CAPTURES)
		*question = (struct profile_question){ .form = PROFILE_FORM_CAPTURES };
	else if (route->asks)
		r = profile_route_question(question, &request->parameters, request->head->target, request->path,
					   route->asks, request->source->clock, why);
	question->gzip = route->gzip && request_coding(request) == RESPONSE_GZIP;
	return r < 0 ? error_status(r, why) : 0;
}

static unsigned request_check_room(const struct routed_request *request, const struct route *route, struct reason *why)
{
	if (!route->large || !request->head->crowded)
		return 0;
	reason_set(why, 0, "too many responses are waiting for slow clients; try again later");
	return MHD_HTTP_SERVICE_UNAVAILABLE;
}

static unsigned request_take_snapshot(struct routed_request *request, const struct route *route, struct reason *why)
{
	const struct web_source *source = request->source;
	int r;

	if (!route->needs_snapshot)
		return 0;
	/* A new snapshot and the responses of the last one need not be in memory at the same time. */
	(void)response_cache_drop_stale(request->cache);
	r = source->snapshot(source->userdata, &request->snapshot);
	if (r < 0) {
		reason_set(why, r, "cannot read the counters: %s", strerror(-r));
		return MHD_HTTP_SERVICE_UNAVAILABLE;
	}
	request->query.now = clock_monotonic_ns();
	return 0;
}

/* Compresses a body that is not from the cache. */
static int response_compress(struct response *ret)
{
	_cleanup_(buf_release) struct buf compressed = {};
	int r = gzip_add(&compressed, ret->body.data, ret->body.len);

	if (r < 0)
		return r;
	buf_release(&ret->body);
	ret->body = steal_struct(compressed);
	ret->encoding = "gzip";
	return 0;
}

static unsigned request_respond(struct response *ret, struct routed_request *request, const struct route *route,
				struct reason *why)
{
	int r;

	ret->status = MHD_HTTP_OK;
	ret->type = route->type;
	ret->vary = route->gzip ? VARY : NULL;
	r = route->respond(ret, request);
	if (r == 0 && route->gzip && !ret->shared && !request->rendering && ret->status == MHD_HTTP_OK &&
	    request_coding(request) == RESPONSE_GZIP)
		r = response_compress(ret);
	if (ret->body.failed)
		r = -ENOMEM;
	return r < 0 ? rendering_status(r, why) : 0;
}

/* The steps that need no data. */
static unsigned request_parse(struct routed_request *request, const struct route **ret, struct reason *why)
{
	unsigned status = request_route(request, ret, why);

	if (status == 0)
		status = request_take_query(request, *ret, why);
	return status ?: request_take_question(request, *ret, why);
}

void route_question_release(struct route_question *question)
{
	free(question->path);
	parameters_release(&question->parameters);
}

enum route_next route_respond(struct response *ret, const struct web_source *source, struct response_cache *cache,
			      const struct request_head *head, struct route_question *ret_question,
			      struct rendering **ret_rendering)
{
	_cleanup_(routed_request_release) struct routed_request request = {
		.source = source,
		.cache = cache,
		.head = head,
	};
	const struct route *route = NULL;
	struct reason why = {};
	unsigned status;

	*ret = (struct response){};
	status = request_parse(&request, &route, &why);
	if (status == 0)
		status = request_check_room(&request, route, &why);
	if (status == 0 && route->asks) {
		*ret_question = (struct route_question){
			.question = request.question,
			.path = steal_ptr(request.path),
			.parameters = steal_struct(request.parameters),
		};
		return ROUTE_ASKS;
	}
	if (status == 0)
		status = request_take_snapshot(&request, route, &why);
	if (status == 0)
		status = request_respond(ret, &request, route, &why);
	if (status)
		response_set_error(ret, request.path ?: head->target, status, why.text);
	if (status || !request.rendering)
		return ROUTE_RESPONDS;
	*ret_rendering = steal_ptr(request.rendering);
	return ROUTE_RENDERS;
}

void route_rendered(struct response *ret, const struct web_source *source, struct rendering *rendering)
{
	struct reason why = {};

	if (!rendering->body) {
		unsigned status = rendering_status(rendering->error, &why);

		response_set_error(ret, rendering->path, status, why.text);
		return;
	}
	*ret = (struct response){
		.status = MHD_HTTP_OK,
		.type = rendering->type,
		.encoding = coding_name(rendering->coding),
		.vary = VARY,
		.shared = blob_ref(rendering->body),
	};
	if (rendering->is_scrape)
		source->scraped(source->userdata, !rendering->plain && !rendering->is_told);
	rendering->is_told = true;
}

/* The status of an answer that is an error. */
static unsigned answer_status(int error, enum profile_route route)
{
	if (error == -ENOENT && (route == PROFILE_ROUTE_PPROF || route == PROFILE_ROUTE_CAPTURE))
		return MHD_HTTP_NOT_FOUND;
	return error == -EINVAL || error == -E2BIG || error == -ENOENT ? MHD_HTTP_BAD_REQUEST :
									 MHD_HTTP_SERVICE_UNAVAILABLE;
}

void route_answer(struct response *ret, const struct web_source *source, const struct request_head *head,
		  const struct route_answer *answer)
{
	_cleanup_(routed_request_release) struct routed_request request = {
		.source = source,
		.head = head,
		.document = answer->document,
	};
	const struct route *route = NULL;
	struct reason why = {};
	unsigned status;

	*ret = (struct response){};
	status = request_parse(&request, &route, &why);
	if (status == 0 && answer->error) {
		status = answer_status(answer->error, route->asks);
		reason_set(&why, 0, "%s", answer->why);
	} else if (status == 0) {
		status = request_respond(ret, &request, route, &why);
	}
	if (status)
		response_set_error(ret, request.path ?: head->target, status, why.text);
	if (answer->error == -EAGAIN)
		ret->retry_after = RESPONSE_RETRY_SOON;
}
