/* SPDX-License-Identifier: MIT */

/* The parts of the web room that need no connection: request targets, routes and their responses. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "setup/fake-source.h"
#include "setup/made-snapshot.h"

#include "web/api/request-target.h"
#include "web/api/route.h"
#include "web/page/page.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

/* --- request-targets */

static void test_paths(void **state)
{
	static const struct {
		const char *target, *path;
	} cases[] = {
		{ "/", "/" },
		{ "/metrics", "/metrics" },
		{ "/metrics?a=b", "/metrics" },
		{ "/metrics?", "/metrics" },
		{ "/%6detrics", "/metrics" },
		{ "/%6Detrics", "/metrics" },
		{ "/a%2Fb", "/a/b" },
		{ "/a+b", "/a+b" },
		{ "/%C3%a9", "/\xc3\xa9" },
		{ "//metrics", "//metrics" },
		{ "", "" },
		{ "*", "*" },
		{ "http://host:80/metrics?x", "/metrics" },
		{ "HTTP://host", "/" },
		{ "http://host?x", "/" },
		{ "/%00", NULL },
		{ "/metrics%00", NULL },
		{ "/%", NULL },
		{ "/%4", NULL },
		{ "/%4?1", NULL },
		{ "/%zz", NULL },
		{ "/%g1", NULL },
		{ "/%ff", NULL },
		{ "/\xff", NULL },
		{ "/%ed%a0%80", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *path = NULL;
		struct reason why = {};
		int r = target_path(cases[i].target, &path, &why);

		if (cases[i].path) {
			assert_int_equal(r, 0);
			assert_string_equal(path, cases[i].path);
		} else {
			assert_int_equal(r, -EINVAL);
			assert_null(path);
			assert_true(why.text[0]);
		}
	}
}

/* As "name=value;name=value;"; NULL: an error. */
static char *parameters_text(const char *target, struct reason *why)
{
	struct parameters parameters = {};
	struct buf b = {};
	int r = target_parameters(target, NULL, &parameters, why);

	if (r < 0) {
		assert_int_equal(r, -EINVAL);
		assert_int_equal(parameters.nr, 0);
		return NULL;
	}
	for (size_t i = 0; i < parameters.nr; i++)
		buf_printf(&b, "%s=%s;", parameters.items[i].name, parameters.items[i].value);
	parameters_release(&parameters);
	return buf_steal(&b);
}

static void test_parameters(void **state)
{
	static const struct {
		const char *target, *parameters;
	} cases[] = {
		{ "/x", "" },
		{ "/x?", "" },
		{ "/x?&&", "" },
		{ "/x?a=b", "a=b;" },
		{ "/x?a=b&c=d&", "a=b;c=d;" },
		{ "/x?a", "a=;" },
		{ "/x?a=", "a=;" },
		{ "/x?=b", "=b;" },
		{ "/x?a=b=c", "a=b=c;" },
		{ "/x?a=b?c", "a=b?c;" },
		{ "/x?a+b=c+d", "a b=c d;" },
		{ "/x?a=%2B%26%3d", "a=+&=;" },
		{ "/x?%61=%2fsystem.slice%2F**", "a=/system.slice/**;" },
		{ "/x?a=%e2%82%ac", "a=\xe2\x82\xac;" },
	};
	static const struct {
		const char *target, *says;
	} bad[] = {
		{ "/x?a=1&a=2", "'a' is given twice" },
		{ "/x?a&%61", "'a' is given twice" },
		{ "/x?a=%", "percent-encoded" },
		{ "/x?a=%1", "percent-encoded" },
		{ "/x?a=%1&b", "percent-encoded" },
		{ "/x?%zz=1", "percent-encoded" },
		{ "/x?a=%00", "percent-encoded" },
		{ "/x?a=%ff", "percent-encoded" },
		{ "/x?a=%c3", "percent-encoded" },
		{ "/x?1&2&3&4&5&6&7&8&9&10&11&12&13&14&15&16&17", "more than 16" },
	};
	struct reason why;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *text = parameters_text(cases[i].target, &why);

		assert_non_null(text);
		assert_string_equal(text, cases[i].parameters);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_(freep) char *text = parameters_text(bad[i].target, &why);

		if (text || !strstr(why.text, bad[i].says))
			fail_msg("%s: %s", bad[i].target, text ? text : why.text);
	}
}

static void test_long_parameters(void **state)
{
	char target[PARAMETER_MAX + 8] = "/?a=";
	struct reason why;
	_cleanup_(freep) char *text = NULL;

	(void)state;
	memset(target + 4, 'x', PARAMETER_MAX - 2);
	target[PARAMETER_MAX + 2] = '\0';
	text = parameters_text(target, &why);
	assert_int_equal(strlen(text), PARAMETER_MAX + 1);
	target[PARAMETER_MAX + 2] = 'x';
	assert_null(parameters_text(target, &why));
	assert_non_null(strstr(why.text, "longer than 1024 bytes"));
}

/* --- routes */

static const struct made_event events[] = {
	{ SCOPE_CPU, "software", "context-switches", .type = PERF_TYPE_SOFTWARE, .config = 3 },
	{ SCOPE_CGROUP, "software", "<b>&\"x\"", .metric = "x", .state = EVENT_FAILED, .why = "because of 'y' < z",
	  .set = MADE_NO_SET },
	{ SCOPE_CGROUP, "software", "page-faults", .type = PERF_TYPE_SOFTWARE, .config = 2 },
	{},
};

/* Of the test that runs. */
static struct response_cache *cache;

static int setup(void **state)
{
	struct fake_source *fake = fake_source_new(made_snapshot(events));

	assert_int_equal(response_cache_new(&cache), 0);

	made_row(fake->snapshot, SCOPE_CPU, 0, NULL, 0);
	made_cell(fake->snapshot, SCOPE_CPU, 0, 0, 7, 1);
	for (size_t i = 0; i < 3; i++) {
		made_row(fake->snapshot, SCOPE_CGROUP, ROW_ALL_CPUS, (const char *[]){ "/a", "/a/b", "/c" }[i], i);
		made_cell(fake->snapshot, SCOPE_CGROUP, i, 1, i, (double)i);
	}
	made_cgroup(fake->snapshot, "/a", 1, CGROUP_COUNTED, NULL);
	*state = fake;
	return 0;
}

static int teardown(void **state)
{
	struct fake_source *fake = *state;

	cache = response_cache_free(cache);
	/* A response keeps no reference. */
	assert_int_equal(fake->snapshot->refs, 1);
	fake_source_free(fake);
	return 0;
}

/* The body of the response, whose status must be the one given. */
static char *ask(struct fake_source *fake, const char *method, const char *target, unsigned status, const char **type)
{
	struct response response =
		respond_to(fake, cache, &(struct request_head){ .method = method, .target = target });

	if (response.shared) {
		assert_null(response.body.data);
		buf_add(&response.body, response.shared->data, response.shared->len);
		response.shared = blob_unref(response.shared);
	}
	if (response.status != status)
		fail_msg("%s %s: %u %.*s", method, target, response.status, (int)response.body.len, response.body.data);
	assert_true(response.body.len > 0);
	assert_int_equal(response.body.data[response.body.len - 1], '\n');
	if (type)
		*type = response.type;
	return buf_steal(&response.body);
}

static void test_routes(void **state)
{
	static const struct {
		const char *target, *type, *holds;
		unsigned nr_snapshots, nr_scraped;
	} cases[] = {
		{ "/", "text/html; charset=utf-8", "</html>", 0, 0 },
		{ "/metrics", "text/plain; version=0.0.4; charset=utf-8", "context_switches_total{cpu=\"0\"} 7", 1, 1 },
		{ "/metrics?scope=self&scope=cpu", "text/plain; version=0.0.4; charset=utf-8", "perfmond_up 1", 1, 1 },
		{ "/api/v1/snapshot", "application/json", "\"context_switches\":{\"total\":7", 1, 1 },
		{ "/api/v1/events", "application/json", "\"text\":\"context-switches\"", 1, 0 },
		{ "/api/v1/events?", "application/json", "\"events\"", 1, 0 },
		{ "/api/v1/cgroups", "application/json", "\"status\":\"counted\"", 1, 0 },
		{ "/api/v1/status", "application/json", "\"version\":\"1.2.3\"", 1, 0 },
		{ "/api/v1/openapi.json", "application/json", "\"openapi\": \"3.1.0\"", 0, 0 },
		{ "/-/healthy", "text/plain; charset=utf-8", "healthy", 0, 0 },
		{ "/-/ready", "text/plain; charset=utf-8", "ready", 0, 0 },
		{ "/-/ready?x=y", "text/plain; charset=utf-8", "ready", 0, 0 },
		{ "http://proxy:1/-/heal%74hy?x", "text/plain; charset=utf-8", "healthy", 0, 0 },
	};
	struct fake_source *fake = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		static const char *const methods[] = { "GET", "HEAD" };

		for (size_t k = 0; k < 2; k++) {
			const char *type;
			_cleanup_(freep) char *body = NULL;

			fake->nr_snapshots = fake->nr_scraped = 0;
			body = ask(fake, methods[k], cases[i].target, 200, &type);
			assert_string_equal(type, cases[i].type);
			if (!strstr(body, cases[i].holds))
				fail_msg("%s: %s", cases[i].target, body);
			assert_int_equal(fake->nr_snapshots, cases[i].nr_snapshots);
			assert_int_equal(fake->nr_scraped, cases[i].nr_scraped);
		}
	}
}

/* A scrape of a part has these lines, and lacks others. */
static void test_parts_of_metrics(void **state)
{
	static const char cpu[] = "perf_cpu_context_switches_total{", cgroup[] = "perf_cgroup_page_faults_total{";
	static const char self[] = "perfmond_up 1", info[] = "perf_cgroup_info{", cpu_state[] = "{scope=\"cpu\"";
	static const struct {
		const char *query, *has[3], *lacks[3];
	} cases[] = {
		{ "", { cpu, cgroup, self }, {} },
		{ "?scope=cpu", { cpu, cpu_state }, { cgroup, self, info } },
		{ "?scope=cgroup", { cgroup, info }, { cpu, self, cpu_state } },
		{ "?scope=self", { self }, { cpu, cgroup, info } },
		{ "?scope=cpu&scope=self", { cpu, self }, { cgroup, info } },
		{ "?scope=cgroup&scope=cpu", { cpu, cgroup, info }, { self } },
		{ "?scope=self&scope=cgroup&scope=cpu", { cpu, cgroup, self }, {} },
		{ "?scope=cpu&scope=cpu", { cpu }, { cgroup, self } },
		{ "?scope=self&scope=cgroup&scope=cpu&scope=cpu", { cpu, cgroup, self }, {} },
		{ "?cgroup=/none", { cpu, self }, { cgroup, info } },
		{ "?cgroup=/*", { cpu, cgroup, self }, {} },
		{ "?event=none", { self, info }, { cpu, cgroup } },
		{ "?event=*_s*&scope=cpu", { cpu }, { cgroup, self } },
		{ "?leaves=yes&scope=cgroup", { cgroup }, { cpu, self } },
	};
	struct fake_source *fake = *state;

	/* Twice: whatever is cached. */
	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		size_t n = i % ARRAY_SIZE(cases);
		_cleanup_(freep) char *target = NULL, *body = NULL;

		assert_true(asprintf(&target, "/metrics%s", cases[n].query) > 0);
		body = ask(fake, "GET", target, 200, NULL);
		for (size_t k = 0; k < 3; k++) {
			if (cases[n].has[k] && !strstr(body, cases[n].has[k]))
				fail_msg("%s lacks %s: %s", target, cases[n].has[k], body);
			if (cases[n].lacks[k] && strstr(body, cases[n].lacks[k]))
				fail_msg("%s has %s", target, cases[n].lacks[k]);
		}
	}
}

/* An error below /api/ is {"error": "…"}; elsewhere it is a line of text. */
static void check_error(struct fake_source *fake, const char *method, const char *target, unsigned status, bool json,
			const char *says)
{
	const char *type;
	_cleanup_(freep) char *body = ask(fake, method, target, status, &type);
	json_t *parsed = json_loads(body, 0, NULL);

	if (!strstr(body, says))
		fail_msg("%s: %s", target, body);
	assert_true(strlen(body) < 600);
	if (json) {
		assert_string_equal(type, "application/json");
		assert_true(json_is_string(json_object_get(parsed, "error")));
		assert_int_equal(json_object_size(parsed), 1);
	} else {
		assert_string_equal(type, "text/plain; charset=utf-8");
		assert_null(parsed);
	}
	json_decref(parsed);
}

static void test_unknown_paths(void **state)
{
	static const char *const targets[] = {
		"/x", "/metrics/", "//metrics",	  "/Metrics",	 "/metrics/x",	"",    "*",	     "/-/",
		"/-", "/api",	   "/index.html", "/%2Fmetrics", "/metrics%20", "/..", "/./metrics",
	};
	static const char *const api_targets[] = { "/api/", "/api/v1", "/api/v1/snapshot/", "/%61pi/v2/snapshot" };
	struct fake_source *fake = *state;

	for (size_t i = 0; i < ARRAY_SIZE(targets); i++)
		check_error(fake, "GET", targets[i], 404, false, "nothing is served at this path");
	for (size_t i = 0; i < ARRAY_SIZE(api_targets); i++)
		check_error(fake, "GET", api_targets[i], 404, true, "nothing is served at this path");
	check_error(fake, "GET", "/metrics%00", 400, false, "percent-encoded");
	check_error(fake, "GET", "/metrics?scope=none", 400, false, "scope 'none' is neither cpu, cgroup nor self");
	check_error(fake, "GET", "/metrics?scope=", 400, false, "scope '' is neither");
	check_error(fake, "GET", "/metrics?cgroup=", 400, false, "cgroup is empty");
	check_error(fake, "GET", "/metrics?event=a&event=b", 400, false, "'event' is given twice");
	check_error(fake, "GET", "/metrics?limit=1", 400, false,
		    "unknown query parameter 'limit'; known are scope, cgroup, leaves and event");
	check_error(fake, "GET", "/metrics?scope=%zz", 400, false, "percent-encoded");
	check_error(fake, "GET", "/%zz", 400, false, "percent-encoded");
	assert_int_equal(fake->nr_snapshots, 0);
}

/* Where too much waits to be sent, small responses are given all the same, and errors. */
static void test_crowded(void **state)
{
	static const struct {
		const char *target;
		unsigned status;
	} cases[] = {
		{ "/", 200 },
		{ "/api/v1/openapi.json", 200 },
		{ "/-/healthy", 200 },
		{ "/-/ready", 200 },
		{ "/metrics", 503 },
		{ "/metrics?limit=1", 400 },
		{ "/api/v1/snapshot", 503 },
		{ "/api/v1/events", 503 },
		{ "/api/v1/cgroups", 503 },
		{ "/api/v1/history", 503 },
		{ "/api/v1/status", 503 },
		{ "/api/v1/profile", 503 },
		{ "/api/v1/profile/top", 503 },
		{ "/api/v1/profile/heat", 503 },
		{ "/api/v1/captures", 503 },
		{ "/api/v1/captures/x", 503 },
		{ "/debug/pprof/profile", 503 },
	};
	struct fake_source *fake = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct request_head head = { .method = "GET", .target = cases[i].target, .crowded = true };
		struct response response = respond_to(fake, cache, &head);

		if (response.status != cases[i].status)
			fail_msg("%s: %u", cases[i].target, response.status);
		response_release(&response);
	}
	assert_int_equal(fake->nr_snapshots, 0);
}

static void test_methods(void **state)
{
	static const char *const methods[] = { "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get", "GETX", "" };
	struct fake_source *fake = *state;

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		check_error(fake, methods[i], "/metrics", 405, false, "only GET and HEAD");
		check_error(fake, methods[i], "/api/v1/snapshot", 405, true, "only GET and HEAD");
		check_error(fake, methods[i], "/nothing", 405, false, "only GET and HEAD");
	}
}

static void test_bad_queries(void **state)
{
	static const struct {
		const char *query, *says;
	} cases[] = {
		{ "limit=abc", "limit 'abc' is not a number of at least 1" },
		{ "limit=", "limit ''" },
		{ "limit", "limit ''" },
		{ "limit=-1", "limit '-1'" },
		{ "limit=0", "limit '0'" },
		{ "limit=1.5", "limit '1.5'" },
		{ "limit=0x10", "limit '0x10'" },
		{ "limit=+1", "limit ' 1'" },
		{ "limit=99999999999999999999", "limit '9999" },
		{ "scope=x", "scope 'x' is neither cpu nor cgroup" },
		{ "scope=", "scope ''" },
		{ "scope=CPU", "scope 'CPU'" },
		{ "cgroup=", "cgroup is empty" },
		{ "event=", "event is empty" },
		{ "sort=", "sort is empty" },
		{ "sort=nonesuch", "there is no event 'nonesuch'" },
		{ "scope=cgroup&sort=context_switches", "there is no event 'context_switches'" },
		{ "x=1", "unknown query parameter 'x'; known are scope" },
		{ "Limit=1", "unknown query parameter 'Limit'" },
		{ "=1", "unknown query parameter ''" },
		{ "limit=1&limit=1", "'limit' is given twice" },
		{ "cgroup=%ff", "percent-encoded UTF-8" },
		{ "cgroup=%zz", "percent-encoded UTF-8" },
		{ "limit=%22%5c%0a%01%3Cscript%3E", "limit '\\\"\\\\\\n\\u0001<script>" },
	};
	struct fake_source *fake = *state;
	char target[256];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		(void)snprintf(target, sizeof(target), "/api/v1/snapshot?%s", cases[i].query);
		check_error(fake, "GET", target, 400, true, cases[i].says);
	}
	check_error(fake, "GET", "/api/v1/events?limit=1", 400, true,
		    "unknown query parameter 'limit'; this path takes none");
	check_error(fake, "GET", "/api/v1/cgroups?a", 400, true, "unknown query parameter 'a'");
	check_error(fake, "GET", "/api/v1/status?a=%", 400, true, "percent-encoded");
	assert_int_equal(fake->nr_scraped, 0);
}

static void test_long_query(void **state)
{
	char target[4000] = "/api/v1/snapshot?cgroup=/";
	size_t n = strlen(target);
	struct fake_source *fake = *state;

	memset(target + n, 'x', sizeof(target) - n - 1);
	check_error(fake, "GET", target, 400, true, "longer than 1024 bytes");
	/* A sentence that does not fit is cut, and is JSON still. */
	memset(target + n, '"', 900);
	target[n + 900] = '\0';
	memcpy(target + n - 8, "nosuch=\"", 8);
	check_error(fake, "GET", target, 400, true, "unknown query parameter");
}

/* Many cgroups of long names, and a glob that may have been reached at each of its places with each character. */
static void test_a_query_that_takes_too_long(void **state)
{
	struct fake_source *fake = *state;
	char path[4096], target[1100] = "/api/v1/snapshot?cgroup=**";
	size_t n = strlen(target);

	memset(path, 'a', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	for (size_t i = 0; i < sizeof(path) - 1; i += 250)
		path[i] = '/';
	for (uint64_t i = 0; i < 500; i++)
		made_row(fake->snapshot, SCOPE_CGROUP, ROW_ALL_CPUS, path, 10 + i);
	memcpy(target + n, path, 1000);
	target[n + 1000] = '\0';
	check_error(fake, "GET", target, 400, true, "the glob takes too long");
	assert_int_equal(fake->nr_scraped, 0);
	target[n + 40] = '\0';
	free(ask(fake, "GET", target, 200, &(const char *){ NULL }));
}

/* Is the first question's answer the second one's, too? */
static bool is_one_answer(struct fake_source *fake, const char *one, const char *other, const char *encoding)
{
	struct request_head head = { .method = "GET", .target = one, .accept_encoding = encoding };
	_cleanup_(response_release) struct response first = {}, second = {};

	first = respond_to(fake, cache, &head);
	head.target = other;
	second = respond_to(fake, cache, &head);
	assert_int_equal(first.status, 200);
	assert_non_null(first.shared);
	assert_non_null(second.shared);
	assert_int_equal(!encoding, !first.encoding);
	assert_int_equal(!first.encoding, !second.encoding);
	return first.shared == second.shared;
}

/* The same is written once, and compressed once, however it is put; what differs in anything is not the same. */
static void test_equal_questions(void **state)
{
	static const struct {
		const char *one, *other;
		bool equal;
	} cases[] = {
		{ "/api/v1/events", "/api/v1/events?", true },
		{ "/api/v1/cgroups", "/api/v1/c%67roups", true },
		{ "/api/v1/cgroups", "/api/v1/events", false },
		{ "/api/v1/snapshot", "/api/v1/snapshot?limit=3", true },
		{ "/api/v1/snapshot?limit=3", "/api/v1/snapshot?limit=9999999", true },
		{ "/api/v1/snapshot?limit=2", "/api/v1/snapshot?limit=3", false },
		{ "/api/v1/snapshot?limit=2&scope=cgroup", "/api/v1/snapshot?scope=cgroup&limit=2", true },
		{ "/api/v1/snapshot?limit=1&scope=cpu", "/api/v1/snapshot?scope=cpu", true },
		{ "/api/v1/snapshot?scope=cpu", "/api/v1/snapshot?scope=cgroup", false },
		{ "/api/v1/snapshot?scope=cpu", "/api/v1/snapshot", false },
		{ "/api/v1/snapshot?cgroup=%2fa", "/api/v1/snapshot?cgroup=/a", true },
		{ "/api/v1/snapshot?cgroup=/a", "/api/v1/snapshot?event=/a", false },
		{ "/api/v1/snapshot?cgroup=a%202:bb", "/api/v1/snapshot?cgroup=a&event=bb", false },
		{ "/api/v1/snapshot?sort=page_faults", "/api/v1/snapshot?sort=page-faults", false },
	};
	struct fake_source *fake = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (int gzip = 0; gzip < 2; gzip++)
			if (is_one_answer(fake, cases[i].one, cases[i].other, gzip ? "gzip" : NULL) != cases[i].equal)
				fail_msg("%s and %s", cases[i].one, cases[i].other);
	fake->nr_written = fake->nr_scraped = 0;
	for (int i = 0; i < 10; i++)
		assert_true(is_one_answer(fake, "/api/v1/snapshot?cgroup=/c", "/api/v1/snapshot?cgroup=/c", NULL));
	assert_int_equal(fake->nr_scraped, 20);
	assert_int_equal(fake->nr_written, 1);
}

static void test_good_queries(void **state)
{
	static const struct {
		const char *query;
		size_t cpus, cgroups;
		const char *first;
	} cases[] = {
		{ "", 1, 3, "/a" },
		{ "scope=cpu", 1, 0, NULL },
		{ "scope=cgroup", 0, 3, "/a" },
		{ "cgroup=/a", 1, 1, "/a" },
		{ "cgroup=%2fa%2F**", 1, 1, "/a/b" },
		{ "cgroup=/*&scope=cgroup", 0, 2, "/a" },
		{ "sort=page_faults", 1, 3, "/c" },
		{ "sort=page-faults&limit=2", 1, 2, "/c" },
		{ "limit=1&", 1, 1, "/a" },
		{ "event=page*", 1, 3, "/a" },
	};
	struct fake_source *fake = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *body = NULL;
		json_t *json, *first;
		char target[128];

		(void)snprintf(target, sizeof(target), "/api/v1/snapshot?%s", cases[i].query);
		body = ask(fake, "GET", target, 200, NULL);
		json = json_loads(body, 0, NULL);
		assert_int_equal(json_array_size(json_object_get(json, "cpus")), cases[i].cpus);
		assert_int_equal(json_array_size(json_object_get(json, "cgroups")), cases[i].cgroups);
		/* There is a clock behind it. */
		assert_true(json_is_number(json_object_get(json, "age_seconds")));
		first = json_array_get(json_object_get(json, "cgroups"), 0);
		if (cases[i].first)
			assert_string_equal(json_string_value(json_object_get(first, "cgroup")), cases[i].first);
		json_decref(json);
	}
}

static void test_no_snapshot(void **state)
{
	struct fake_source *fake = *state;

	fake->snapshot_error = -ENOMEM;
	check_error(fake, "GET", "/metrics", 503, false, "cannot read the counters: Cannot allocate memory");
	check_error(fake, "GET", "/api/v1/snapshot", 503, true, "cannot read the counters");
	check_error(fake, "HEAD", "/metrics", 503, false, "cannot read the counters");
	assert_int_equal(fake->nr_scraped, 0);
	free(ask(fake, "GET", "/-/healthy", 200, NULL));
	free(ask(fake, "GET", "/", 200, NULL));
}

static void test_not_ready(void **state)
{
	struct fake_source *fake = *state;

	fake->ready = false;
	check_error(fake, "GET", "/-/ready", 503, false, "not ready: 5 cgroups are still to be opened");
	free(ask(fake, "GET", "/-/healthy", 200, NULL));
	free(ask(fake, "GET", "/metrics", 200, NULL));
}

static size_t count_of(const char *text, const char *part)
{
	size_t nr = 0;

	for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
		nr++;
	return nr;
}

/* Its style and script are each in one piece, which the policy can name; nothing else runs, nothing is fetched. */
static void test_page(void **state)
{
	static const char *const once[] = {
		"<style>\n", "</style>\n", "<script>\n", "</script>\n", "<noscript>", "</html>\n",
	};
	static const char *const never[] = {
		" style=",   " onclick=",	   " onload=",	     " src=", "@import", "url(",
		"innerHTML", "insertAdjacentHTML", "document.write", "eval(", "https:",	 "\r",
	};
	struct fake_source *fake = *state;
	_cleanup_(freep) char *body = ask(fake, "GET", "/", 200, NULL);

	assert_int_equal(strncmp(body, "<!DOCTYPE html>\n", 16), 0);
	for (size_t i = 0; i < ARRAY_SIZE(once); i++)
		if (count_of(body, once[i]) != 1)
			fail_msg("%zu times '%s'", count_of(body, once[i]), once[i]);
	for (size_t i = 0; i < ARRAY_SIZE(never); i++)
		if (strstr(body, never[i]))
			fail_msg("there is '%s'", never[i]);
	/* The name of SVG's elements, which is no address. */
	assert_int_equal(count_of(body, "http:"), count_of(body, "http://www.w3.org/2000/svg"));
}

/* That the hashes are right is what a system test sees, and a browser. */
static void test_page_policy(void **state)
{
	const char *const hashed[] = { "script-src 'sha256-", "style-src 'sha256-" };

	(void)state;
	assert_int_equal(strncmp(page_security_policy, "default-src 'none'; ", 20), 0);
	assert_null(strstr(page_security_policy, "unsafe"));
	assert_null(strchr(page_security_policy, '*'));
	for (size_t i = 0; i < ARRAY_SIZE(hashed); i++) {
		const char *at = strstr(page_security_policy, hashed[i]);

		assert_non_null(at);
		at += strlen(hashed[i]);
		/* 32 bytes in base64. */
		assert_int_equal(strcspn(at, "="), 43);
		assert_int_equal(strncmp(at + 43, "='; ", 4), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_parameters),
		cmocka_unit_test(test_long_parameters),
		cmocka_unit_test_setup_teardown(test_routes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_parts_of_metrics, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unknown_paths, setup, teardown),
		cmocka_unit_test_setup_teardown(test_crowded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_methods, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_queries, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_query, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_query_that_takes_too_long, setup, teardown),
		cmocka_unit_test_setup_teardown(test_equal_questions, setup, teardown),
		cmocka_unit_test_setup_teardown(test_good_queries, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_snapshot, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_ready, setup, teardown),
		cmocka_unit_test_setup_teardown(test_page, setup, teardown),
		cmocka_unit_test(test_page_policy),
	};

	return cmocka_run_group_tests_name("web-parts", tests, NULL, NULL);
}
