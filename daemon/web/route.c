/* SPDX-License-Identifier: MIT */

#include "web/route.h"

#include "expose/escape.h"
#include "expose/expose.h"
#include "util/clock.h"
#include "util/glob.h"
#include "util/gzip.h"
#include "util/text.h"
#include "web/accept.h"
#include "web/page.h"
#include "web/request-target.h"

#include <errno.h>
#include <microhttpd.h>
#include <string.h>

#define TYPE_PROMETHEUS "text/plain; version=0.0.4; charset=utf-8"
#define TYPE_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define TYPE_TEXT "text/plain; charset=utf-8"
#define TYPE_HTML "text/html; charset=utf-8"
#define TYPE_JSON "application/json"

void response_release(struct response *response)
{
	buf_release(&response->body);
	response->shared = blob_unref(response->shared);
}

void response_set_error(struct response *ret, const char *path, unsigned status, const char *sentence)
{
	bool json = strncmp(path, "/api/", strlen("/api/")) == 0;

	response_release(ret);
	ret->status = status;
	ret->encoding = ret->vary = NULL;
	ret->type = json ? TYPE_JSON : TYPE_TEXT;
	buf_str(&ret->body, json ? "{\"error\":\"" : "");
	/* The sentence may contain foreign text, cut in the middle of a character. */
	(json ? escape_json : escape_help)(&ret->body, sentence);
	buf_str(&ret->body, json ? "\"}\n" : "\n");
}

/* --- parameters of a query */

_Static_assert(PARAMETER_MAX <= GLOB_MAX, "every glob of a query can be matched");

static int take_scope(struct expose_query *query, const char *value, struct reason *why)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		query->without[scope] = strcmp(value, scope_name((enum scope)scope)) != 0;
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		if (!query->without[scope])
			return 0;
	return reason_set(why, -EINVAL, "scope '%s' is neither cpu nor cgroup", value);
}

static int take_cgroup(struct expose_query *query, const char *value, struct reason *why)
{
	query->cgroup = value;
	return *value ? 0 : reason_set(why, -EINVAL, "cgroup is empty: give a path or a glob, such as /user.slice/**");
}

static int take_event(struct expose_query *query, const char *value, struct reason *why)
{
	query->event = value;
	return *value ? 0 : reason_set(why, -EINVAL, "event is empty: give a name or a glob, such as *_misses");
}

static int take_sort(struct expose_query *query, const char *value, struct reason *why)
{
	query->sort = value;
	return *value ? 0 : reason_set(why, -EINVAL, "sort is empty: give an event's name");
}

static int take_limit(struct expose_query *query, const char *value, struct reason *why)
{
	uint64_t limit;

	if (value[strspn(value, "0123456789")] || parse_u64(value, &limit) < 0 || limit == 0)
		return reason_set(why, -EINVAL, "limit '%s' is not a number of at least 1", value);
	query->limit = (size_t)limit;
	return 0;
}

struct parameter_rule {
	const char *name;
	int (*take)(struct expose_query *query, const char *value, struct reason *why);
};

static const struct parameter_rule snapshot_parameters[] = {
	{ "scope", take_scope }, { "cgroup", take_cgroup }, { "event", take_event },
	{ "sort", take_sort },	 { "limit", take_limit },   {},
};

static const struct parameter_rule no_parameters[] = { {} };

static int take_parameters(struct expose_query *ret, const struct parameters *parameters,
			   const struct parameter_rule *rules, struct reason *why)
{
	for (size_t i = 0; i < parameters->nr; i++) {
		const struct parameter *parameter = &parameters->items[i];
		const struct parameter_rule *rule = rules;
		int r;

		while (rule->name && strcmp(rule->name, parameter->name))
			rule++;
		if (!rule->name)
			return reason_set(why, -EINVAL, "unknown query parameter '%s'%s", parameter->name,
					  rules->name ? "; known are scope, cgroup, event, sort and limit" :
							"; this path takes none");
		r = rule->take(ret, parameter->value, why);
		if (r < 0)
			return r;
	}
	return 0;
}

/* --- endpoints: each fills in a response; 0, or -ENOMEM */

/* A request while it is responded to. */
struct routed_request {
	const struct web_source *source;
	struct response_cache *cache;
	const struct request_head *head;
	char *path; /* decoded; NULL until then */
	struct parameters parameters;
	struct expose_query query; /* borrows from the parameters */
	struct snapshot *snapshot; /* NULL where the route needs none */
};

static void routed_request_release(struct routed_request *request)
{
	free(request->path);
	parameters_release(&request->parameters);
	snapshot_unref(request->snapshot);
}

static enum response_coding request_coding(const struct routed_request *request)
{
	return accept_gzip(request->head->accept_encoding) ? RESPONSE_GZIP : RESPONSE_PLAIN;
}

static int page_respond(struct response *ret, struct routed_request *request)
{
	(void)request;
	return page_write(&ret->body);
}

/* The whole snapshot, from the cache. */
static int response_set_whole(struct response *ret, const struct routed_request *request, enum response_format format)
{
	enum response_coding coding = request_coding(request);
	bool written;
	int r = response_cache_get(request->cache, request->snapshot, format, coding, &ret->shared, &written);

	if (r < 0)
		return r;
	ret->encoding = coding == RESPONSE_GZIP ? "gzip" : NULL;
	request->source->scraped(request->source->userdata, written);
	return 0;
}

static int metrics_respond(struct response *ret, struct routed_request *request)
{
	static const struct media offers[] = {
		[RESPONSE_PROMETHEUS] = { "text/plain", "0.0.4" },
		[RESPONSE_OPENMETRICS] = { "application/openmetrics-text", "1.0.0" },
	};
	size_t chosen = accept_media(request->head->accept, offers, ARRAY_SIZE(offers));

	if (chosen == RESPONSE_OPENMETRICS)
		ret->type = TYPE_OPENMETRICS;
	return response_set_whole(ret, request, (enum response_format)chosen);
}

/* The cache's key of a part: the same for the same path and query only. Each text is preceded by its length, since it
 * may contain any character. */
static char *request_key(const struct routed_request *request)
{
	const struct expose_query *query = &request->query;
	const char *const texts[] = { query->cgroup, query->event, query->sort };
	struct buf key = {};

	buf_printf(&key, "%s %zu", request->path, query->limit);
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		buf_printf(&key, " %d", query->without[scope]);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		buf_printf(&key, " %zu:%s", texts[i] ? strlen(texts[i]) : 0, texts[i] ?: "");
	return buf_steal(&key);
}

/* A part of the snapshot, from the cache. */
static int response_set_part(struct response *ret, const struct routed_request *request, response_writer write,
			     bool *ret_written)
{
	enum response_coding coding = request_coding(request);
	_cleanup_(freep) char *key = request_key(request);
	int r = -ENOMEM;

	if (key)
		r = response_cache_get_part(request->cache, request->snapshot, key, coding, write, request,
					    &ret->shared, ret_written);
	if (r == 0)
		ret->encoding = coding == RESPONSE_GZIP ? "gzip" : NULL;
	return r;
}

static int snapshot_write(struct buf *out, const struct snapshot *snapshot, const void *userdata)
{
	const struct routed_request *request = userdata;

	return expose_json_snapshot(out, snapshot, &request->query);
}

static bool query_is_whole(const struct expose_query *query)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		if (query->without[scope])
			return false;
	return !query->cgroup && !query->event && !query->sort && query->limit == 0;
}

/* Drops a limit that cuts nothing off, so that the response is the whole snapshot, or has the key of a query without a
 * limit. */
static void drop_idle_limit(struct expose_query *query, const struct snapshot *snapshot)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		if (!query->without[scope] && query->limit < snapshot->table[scope].nr_rows)
			return;
	query->limit = 0;
}

static int snapshot_respond(struct response *ret, struct routed_request *request)
{
	struct expose_query *query = &request->query;
	struct reason why;
	bool written;
	int r;

	if (query->sort && !expose_has_event(request->snapshot, query, query->sort)) {
		reason_set(&why, 0, "sort: there is no event '%s'; /api/v1/events lists all", query->sort);
		response_set_error(ret, request->path, MHD_HTTP_BAD_REQUEST, why.text);
		return 0;
	}
	drop_idle_limit(query, request->snapshot);
	if (query_is_whole(query))
		return response_set_whole(ret, request, RESPONSE_JSON);
	r = response_set_part(ret, request, snapshot_write, &written);
	if (r == -E2BIG) {
		response_set_error(ret, request->path, MHD_HTTP_BAD_REQUEST,
				   "the glob takes too long to match so many and such long names; use a shorter one");
		return 0;
	}
	if (r == 0)
		request->source->scraped(request->source->userdata, written);
	return r;
}

static int events_write(struct buf *out, const struct snapshot *snapshot, const void *userdata)
{
	(void)userdata;
	return expose_json_events(out, snapshot);
}

static int events_respond(struct response *ret, struct routed_request *request)
{
	bool written;

	return response_set_part(ret, request, events_write, &written);
}

static int cgroups_write(struct buf *out, const struct snapshot *snapshot, const void *userdata)
{
	(void)userdata;
	return expose_json_cgroups(out, snapshot);
}

static int cgroups_respond(struct response *ret, struct routed_request *request)
{
	bool written;

	return response_set_part(ret, request, cgroups_write, &written);
}

static int status_write(struct buf *out, const struct snapshot *snapshot, const void *userdata)
{
	const struct routed_request *request = userdata;

	return expose_json_status(out, snapshot, request->source->info);
}

static int status_respond(struct response *ret, struct routed_request *request)
{
	bool written;

	return response_set_part(ret, request, status_write, &written);
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
	const char *path;
	const char *type;
	bool needs_snapshot;
	bool gzip;				 /* compressed for clients that accept that */
	const struct parameter_rule *parameters; /* NULL: a query is ignored */
	int (*respond)(struct response *ret, struct routed_request *request);
};

static const struct route routes[] = {
	{ "/", TYPE_HTML, false, true, NULL, page_respond },
	{ "/metrics", TYPE_PROMETHEUS, true, true, NULL, metrics_respond },
	{ "/api/v1/snapshot", TYPE_JSON, true, true, snapshot_parameters, snapshot_respond },
	{ "/api/v1/events", TYPE_JSON, true, true, no_parameters, events_respond },
	{ "/api/v1/cgroups", TYPE_JSON, true, true, no_parameters, cgroups_respond },
	{ "/api/v1/status", TYPE_JSON, true, true, no_parameters, status_respond },
	{ "/-/healthy", TYPE_TEXT, false, false, NULL, healthy_respond },
	{ "/-/ready", TYPE_TEXT, false, false, NULL, ready_respond },
};

static const struct route *route_find(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++)
		if (strcmp(routes[i].path, path) == 0)
			return &routes[i];
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

static unsigned request_route(struct routed_request *request, const struct route **ret, struct reason *why)
{
	const char *method = request->head->method;
	int r;

	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD)) {
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
		r = target_parameters(request->head->target, &request->parameters, why);
	if (r == 0)
		r = take_parameters(&request->query, &request->parameters, route->parameters, why);
	return r < 0 ? error_status(r, why) : 0;
}

static unsigned request_take_snapshot(struct routed_request *request, const struct route *route, struct reason *why)
{
	const struct web_source *source = request->source;
	int r;

	if (!route->needs_snapshot)
		return 0;
	if (request->head->crowded) {
		reason_set(why, 0, "too many responses are waiting for slow clients; try again later");
		return MHD_HTTP_SERVICE_UNAVAILABLE;
	}
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
	ret->vary = route->gzip ? MHD_HTTP_HEADER_ACCEPT ", " MHD_HTTP_HEADER_ACCEPT_ENCODING : NULL;
	r = route->respond(ret, request);
	if (r == 0 && route->gzip && !ret->shared && ret->status == MHD_HTTP_OK &&
	    request_coding(request) == RESPONSE_GZIP)
		r = response_compress(ret);
	return r < 0 || ret->body.failed ? error_status(-ENOMEM, why) : 0;
}

void route_respond(struct response *ret, const struct web_source *source, struct response_cache *cache,
		   const struct request_head *head)
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
	status = request_route(&request, &route, &why);
	if (status == 0)
		status = request_take_query(&request, route, &why);
	if (status == 0)
		status = request_take_snapshot(&request, route, &why);
	if (status == 0)
		status = request_respond(ret, &request, route, &why);
	if (status)
		response_set_error(ret, request.path ?: head->target, status, why.text);
}
