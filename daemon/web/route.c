/* SPDX-License-Identifier: MIT */

#include "web/route.h"

#include "expose/escape.h"
#include "expose/expose.h"
#include "expose/rendering.h"
#include "util/glob.h"
#include "util/gzip.h"
#include "util/text.h"
#include "web/accept.h"
#include "web/page.h"
#include "web/target.h"

#include <errno.h>
#include <microhttpd.h>
#include <string.h>

#define TYPE_PROMETHEUS "text/plain; version=0.0.4; charset=utf-8"
#define TYPE_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define TYPE_TEXT "text/plain; charset=utf-8"
#define TYPE_HTML "text/html; charset=utf-8"
#define TYPE_JSON "application/json"

void answer_release(struct answer *answer)
{
	buf_release(&answer->body);
	answer->shared = blob_unref(answer->shared);
}

/* An error, as it is to be put below that path. */
static void answer_error(struct answer *ret, const char *path, unsigned status, const char *sentence)
{
	bool json = strncmp(path, "/api/", strlen("/api/")) == 0;

	answer_release(ret);
	ret->status = status;
	ret->encoding = ret->vary = NULL;
	ret->type = json ? TYPE_JSON : TYPE_TEXT;
	buf_str(&ret->body, json ? "{\"error\":\"" : "");
	/* Foreign text may be in it, and cut in the middle of a character. */
	(json ? escape_json : escape_help)(&ret->body, sentence);
	buf_str(&ret->body, json ? "\"}\n" : "\n");
}

void route_refuse(struct answer *ret, const char *target, unsigned status, const char *sentence)
{
	*ret = (struct answer){};
	answer_error(ret, target, status, sentence);
}

/* --- parameters of a query */

_Static_assert(PARAMETER_MAX <= GLOB_MAX, "every glob of a query is matched");

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
		return reason_set(why, -EINVAL, "limit '%s' is no number from 1 up", value);
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
					  rules->name ? "; there are scope, cgroup, event, sort and limit" :
							"; none is taken here");
		r = rule->take(ret, parameter->value, why);
		if (r < 0)
			return r;
	}
	return 0;
}

/* --- what answers; 0, or -ENOMEM */

struct question {
	const struct web_source *source;
	const struct request_head *head;
	const char *path;
	struct expose_query query;
	struct snapshot *snapshot; /* where the route wants one */
};

static int answer_page(struct answer *ret, struct question *question)
{
	(void)question;
	return page_write(&ret->body);
}

static enum snapshot_coding coding_of(const struct question *question)
{
	return accept_gzip(question->head->accept_encoding) ? SNAPSHOT_GZIP : SNAPSHOT_PLAIN;
}

/* The whole snapshot, for all who ask for the same. */
static int answer_whole(struct answer *ret, const struct question *question, enum snapshot_format format)
{
	enum snapshot_coding coding = coding_of(question);
	bool written;
	int r = rendering_get(&ret->shared, question->snapshot, format, coding, &written);

	if (r < 0)
		return r;
	ret->encoding = coding == SNAPSHOT_GZIP ? "gzip" : NULL;
	question->source->scraped(question->source->userdata, written);
	return 0;
}

static int answer_metrics(struct answer *ret, struct question *question)
{
	static const struct media offers[] = {
		[SNAPSHOT_PROMETHEUS] = { "text/plain", "0.0.4" },
		[SNAPSHOT_OPENMETRICS] = { "application/openmetrics-text", "1.0.0" },
	};
	size_t chosen = accept_media(question->head->accept, offers, ARRAY_SIZE(offers));

	if (chosen == SNAPSHOT_OPENMETRICS)
		ret->type = TYPE_OPENMETRICS;
	return answer_whole(ret, question, (enum snapshot_format)chosen);
}

/* As text, in which equal questions are equal, and others differ whatever is in their globs. */
static char *text_of(const struct question *question)
{
	const struct expose_query *query = &question->query;
	const char *const parts[] = { query->cgroup, query->event, query->sort };
	struct buf text = {};

	buf_printf(&text, "%s %zu", question->path, query->limit);
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		buf_printf(&text, " %d", query->without[scope]);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		buf_printf(&text, " %zu:%s", parts[i] ? strlen(parts[i]) : 0, parts[i] ?: "");
	return buf_steal(&text);
}

/* What write() answers, for all who ask for the same. */
static int answer_part(struct answer *ret, const struct question *question, rendering_writer write, bool *written)
{
	enum snapshot_coding coding = coding_of(question);
	_cleanup_(freep) char *text = text_of(question);
	int r = -ENOMEM;

	if (text)
		r = rendering_ask(&ret->shared, question->snapshot, text, coding, write, question, written);
	if (r == 0)
		ret->encoding = coding == SNAPSHOT_GZIP ? "gzip" : NULL;
	return r;
}

static int write_snapshot(struct buf *out, const struct snapshot *snapshot, const void *userdata)
{
	const struct question *question = userdata;

	return expose_json_snapshot(out, snapshot, &question->query);
}

static bool is_whole(const struct expose_query *query)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		if (query->without[scope])
			return false;
	return !query->cgroup && !query->event && !query->sort && query->limit == 0;
}

/* A limit that cuts nothing off is none. */
static void drop_limit(struct expose_query *query, const struct snapshot *snapshot)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		if (!query->without[scope] && query->limit < snapshot->table[scope].nr_rows)
			return;
	query->limit = 0;
}

static int answer_snapshot(struct answer *ret, struct question *question)
{
	struct expose_query *query = &question->query;
	struct reason why;
	bool written;
	int r;

	if (query->sort && !expose_has_event(question->snapshot, query, query->sort)) {
		reason_set(&why, 0, "sort: there is no event '%s'; /api/v1/events has them all", query->sort);
		answer_error(ret, question->path, MHD_HTTP_BAD_REQUEST, why.text);
		return 0;
	}
	drop_limit(query, question->snapshot);
	if (is_whole(query))
		return answer_whole(ret, question, SNAPSHOT_JSON);
	r = answer_part(ret, question, write_snapshot, &written);
	if (r == -E2BIG) {
		answer_error(ret, question->path, MHD_HTTP_BAD_REQUEST,
			     "the glob is too long for so many and such long names: make it shorter");
		return 0;
	}
	if (r == 0)
		question->source->scraped(question->source->userdata, written);
	return r;
}

static int write_events(struct buf *out, const struct snapshot *snapshot, const void *userdata)
{
	(void)userdata;
	return expose_json_events(out, snapshot);
}

static int answer_events(struct answer *ret, struct question *question)
{
	bool written;

	return answer_part(ret, question, write_events, &written);
}

static int write_cgroups(struct buf *out, const struct snapshot *snapshot, const void *userdata)
{
	(void)userdata;
	return expose_json_cgroups(out, snapshot);
}

static int answer_cgroups(struct answer *ret, struct question *question)
{
	bool written;

	return answer_part(ret, question, write_cgroups, &written);
}

static int write_status(struct buf *out, const struct snapshot *snapshot, const void *userdata)
{
	const struct question *question = userdata;

	return expose_json_status(out, snapshot, question->source->about);
}

static int answer_status(struct answer *ret, struct question *question)
{
	bool written;

	return answer_part(ret, question, write_status, &written);
}

static int answer_healthy(struct answer *ret, struct question *question)
{
	(void)question;
	buf_str(&ret->body, "healthy\n");
	return 0;
}

static int answer_ready(struct answer *ret, struct question *question)
{
	struct reason why = {};

	if (question->source->ready(question->source->userdata, &why)) {
		buf_str(&ret->body, "ready\n");
		return 0;
	}
	reason_prefix(&why, 0, "not ready");
	answer_error(ret, question->path, MHD_HTTP_SERVICE_UNAVAILABLE, why.text);
	return 0;
}

struct route {
	const char *path;
	const char *type;
	bool needs_snapshot;
	bool gzip; /* where that is asked for */
	const struct parameter_rule *parameters; /* NULL: a query is ignored */
	int (*answer)(struct answer *ret, struct question *question);
};

static const struct route routes[] = {
	{ "/", TYPE_HTML, false, true, NULL, answer_page },
	{ "/metrics", TYPE_PROMETHEUS, true, true, NULL, answer_metrics },
	{ "/api/v1/snapshot", TYPE_JSON, true, true, snapshot_parameters, answer_snapshot },
	{ "/api/v1/events", TYPE_JSON, true, true, no_parameters, answer_events },
	{ "/api/v1/cgroups", TYPE_JSON, true, true, no_parameters, answer_cgroups },
	{ "/api/v1/status", TYPE_JSON, true, true, no_parameters, answer_status },
	{ "/-/healthy", TYPE_TEXT, false, false, NULL, answer_healthy },
	{ "/-/ready", TYPE_TEXT, false, false, NULL, answer_ready },
};

static const struct route *find_route(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++)
		if (strcmp(routes[i].path, path) == 0)
			return &routes[i];
	return NULL;
}

/* --- from a request to its answer */

static void out_of_memory(struct answer *ret, const char *path)
{
	answer_error(ret, path, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
}

/* What is this answer's alone. */
static int compress(struct answer *ret)
{
	struct buf compressed = {};
	int r = gzip_add(&compressed, ret->body.data, ret->body.len);

	if (r < 0)
		return r;
	buf_release(&ret->body);
	ret->body = compressed;
	ret->encoding = "gzip";
	return 0;
}

static int answer_by(const struct route *route, struct answer *ret, struct question *question)
{
	int r;

	ret->status = MHD_HTTP_OK;
	ret->type = route->type;
	ret->vary = route->gzip ? MHD_HTTP_HEADER_ACCEPT ", " MHD_HTTP_HEADER_ACCEPT_ENCODING : NULL;
	r = route->answer(ret, question);
	if (r < 0 || ret->body.failed)
		return -ENOMEM;
	if (route->gzip && !ret->shared && ret->status == MHD_HTTP_OK && coding_of(question) == SNAPSHOT_GZIP)
		return compress(ret);
	return 0;
}

static void answer_question(struct answer *ret, const struct route *route, struct question *question)
{
	_cleanup_(snapshot_unrefp) struct snapshot *snapshot = NULL;
	struct reason why;
	int r;

	if (route->needs_snapshot && question->head->crowded) {
		answer_error(ret, question->path, MHD_HTTP_SERVICE_UNAVAILABLE,
			     "too many answers wait for slow clients; try again later");
		return;
	}
	if (route->needs_snapshot) {
		r = question->source->snapshot(question->source->userdata, &snapshot);
		if (r < 0) {
			reason_set(&why, r, "the counters can't be read: %s", strerror(-r));
			answer_error(ret, question->path, MHD_HTTP_SERVICE_UNAVAILABLE, why.text);
			return;
		}
		question->snapshot = snapshot;
		question->query.now = count_now();
	}
	if (answer_by(route, ret, question) < 0)
		out_of_memory(ret, question->path);
}

static void answer_route(struct answer *ret, const struct route *route, struct question *question)
{
	_cleanup_(parameters_release) struct parameters parameters = {};
	struct reason why = {};
	int r = 0;

	if (route->parameters) {
		r = target_parameters(question->head->target, &parameters, &why);
		if (r == 0)
			r = take_parameters(&question->query, &parameters, route->parameters, &why);
	}
	if (r == -ENOMEM)
		out_of_memory(ret, question->path);
	else if (r < 0)
		answer_error(ret, question->path, MHD_HTTP_BAD_REQUEST, why.text);
	else
		answer_question(ret, route, question);
}

void route_answer(struct answer *ret, const struct web_source *source, const struct request_head *head)
{
	struct question question = { .source = source, .head = head };
	const char *method = head->method, *target = head->target;
	_cleanup_(freep) char *path = NULL;
	const struct route *route;
	struct reason why;
	int r;

	*ret = (struct answer){};
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD)) {
		answer_error(ret, target, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are understood");
		return;
	}
	r = target_path(target, &path, &why);
	if (r < 0) {
		if (r == -ENOMEM)
			out_of_memory(ret, target);
		else
			answer_error(ret, target, MHD_HTTP_BAD_REQUEST, why.text);
		return;
	}
	question.path = path;
	route = find_route(path);
	if (route)
		answer_route(ret, route, &question);
	else
		answer_error(ret, path, MHD_HTTP_NOT_FOUND, "there is nothing here; see / for what there is");
}
