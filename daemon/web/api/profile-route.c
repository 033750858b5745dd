/* SPDX-License-Identifier: MIT */

#include "web/api/profile-route.h"

#include "base/util/clock.h"
#include "base/util/text.h"
#include "profiler/answer/profile.h"
#include "web/api/query.h"
#include "web/api/request-target.h"

#include <errno.h>
#include <math.h>
#include <microhttpd.h>
#include <string.h>

#define LAST_NS (300 * (uint64_t)NS_PER_S)
#define PPROF_LAST_NS (30 * (uint64_t)NS_PER_S)
#define PPROF_SECONDS_MAX 2678400

/* Of a heat map. */
#define COLUMNS_DEFAULT 60
#define COLUMNS_MAX 1000
#define ROWS_MAX 100

enum profile_format {
	FORMAT_JSON,
	FORMAT_FOLDED,
	FORMAT_PPROF,
	FORMAT_SPEEDSCOPE,
};

struct profile_request {
	uint64_t now; /* CLOCK_MONOTONIC ns */
	struct clock_steps clock;
	struct moment from, to;
	const char *event;
	bool counted;
	struct profile_query query;
	enum profile_format format;
	struct expose_profile what;
};

/* --- parameters */

static int take_from(struct profile_request *request, const char *value, struct reason *why)
{
	return query_take_moment(&request->from, "from", value, why);
}

static int take_to(struct profile_request *request, const char *value, struct reason *why)
{
	return query_take_moment(&request->to, "to", value, why);
}

/* A number from 1 to max. */
static int take_count(const char *name, const char *value, size_t max, size_t *ret, struct reason *why)
{
	uint64_t count;

	if (value[strspn(value, "0123456789")] || parse_u64(value, &count) < 0 || count == 0 || count > max)
		return reason_set(why, -EINVAL, "%s '%.40s' is not a number from 1 to %zu", name, value, max);
	*ret = (size_t)count;
	return 0;
}

static int take_seconds(struct profile_request *request, const char *value, struct reason *why)
{
	size_t seconds;
	int r = take_count("seconds", value, PPROF_SECONDS_MAX, &seconds, why);
	uint64_t ns;

	if (r < 0)
		return r;
	ns = (uint64_t)seconds * NS_PER_S;
	request->query.from = ns < request->now ? request->now - ns : 0;
	return 0;
}

static int take_cgroup(struct profile_request *request, const char *value, struct reason *why)
{
	request->query.cgroup = value;
	return *value ? 0 : reason_set(why, -EINVAL, "cgroup is empty: give a path or a glob, such as /user.slice/**");
}

static int take_below(struct profile_request *request, const char *value, struct reason *why)
{
	request->query.below = strcmp(value, "yes") == 0;
	return request->query.below || strcmp(value, "no") == 0 ?
		       0 :
		       reason_set(why, -EINVAL, "below '%.40s' is neither yes nor no", value);
}

static int take_command(struct profile_request *request, const char *value, struct reason *why)
{
	request->query.command = value;
	return *value ? 0 : reason_set(why, -EINVAL, "command is empty: give a name or a glob, such as python*");
}

static int take_event(struct profile_request *request, const char *value, struct reason *why)
{
	request->event = value;
	return *value ? 0 : reason_set(why, -EINVAL, "event is empty: give cpu-clock, or the name of a profile");
}

static int take_weights(struct profile_request *request, const char *value, struct reason *why)
{
	request->counted = strcmp(value, "counted") == 0;
	return request->counted || strcmp(value, "sampled") == 0 ?
		       0 :
		       reason_set(why, -EINVAL, "weights '%.40s' is neither sampled nor counted", value);
}

/* Words separated by commas; none: functions only. */
static int take_by(struct profile_request *request, const char *value, struct reason *why)
{
	request->query.by = 0;
	while (*value) {
		size_t n = strcspn(value, ",");

		if (n == strlen("cgroup") && strncmp(value, "cgroup", n) == 0)
			request->query.by |= PROFILE_BY_CGROUP;
		else if (n == strlen("command") && strncmp(value, "command", n) == 0)
			request->query.by |= PROFILE_BY_COMMAND;
		else if (n != strlen("function") || strncmp(value, "function", n))
			return reason_set(why, -EINVAL, "by '%.40s': known are cgroup, command and function", value);
		value += n + (value[n] == ',');
	}
	return 0;
}

static int take_top_by(struct profile_request *request, const char *value, struct reason *why)
{
	static const char *const names[] = {
		[PROFILE_TOP_FUNCTION] = "function",
		[PROFILE_TOP_COMMAND] = "command",
		[PROFILE_TOP_CGROUP] = "cgroup",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(value, names[i]))
			continue;
		request->what.top_by = (enum profile_top_by)i;
		request->query.by = i == PROFILE_TOP_CGROUP  ? PROFILE_BY_CGROUP :
				    i == PROFILE_TOP_COMMAND ? PROFILE_BY_COMMAND :
							       0;
		return 0;
	}
	return reason_set(why, -EINVAL, "by '%.40s' is none of function, command and cgroup", value);
}

static int take_format(struct profile_request *request, const char *value, struct reason *why)
{
	static const char *const names[] = {
		[FORMAT_JSON] = "json",
		[FORMAT_FOLDED] = "folded",
		[FORMAT_PPROF] = "pprof",
		[FORMAT_SPEEDSCOPE] = "speedscope",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(value, names[i]))
			continue;
		request->format = (enum profile_format)i;
		return 0;
	}
	return reason_set(why, -EINVAL, "format '%.40s' is none of json, folded, pprof and speedscope", value);
}

static int take_min(struct profile_request *request, const char *value, struct reason *why)
{
	char *end;

	request->what.min = strtod(value, &end);
	if (!*value || *end || strspn(value, "0123456789.") != strlen(value) || request->what.min > 1)
		return reason_set(why, -EINVAL, "min '%.40s' is not a share from 0 to 1", value);
	return 0;
}

static int take_limit(struct profile_request *request, const char *value, struct reason *why)
{
	uint64_t limit;

	if (value[strspn(value, "0123456789")] || parse_u64(value, &limit) < 0 || limit == 0)
		return reason_set(why, -EINVAL, "limit '%.40s' is not a number of at least 1", value);
	request->what.limit = (size_t)limit;
	return 0;
}

static int take_columns(struct profile_request *request, const char *value, struct reason *why)
{
	return take_count("columns", value, COLUMNS_MAX, &request->what.columns, why);
}

static int take_rows(struct profile_request *request, const char *value, struct reason *why)
{
	return take_count("rows", value, ROWS_MAX, &request->what.rows, why);
}

struct profile_parameter {
	const char *name;
	int (*take)(struct profile_request *request, const char *value, struct reason *why);
};

static const struct profile_parameter tree_parameters[] = {
	{ "from", take_from },
	{ "to", take_to },
	{ "cgroup", take_cgroup },
	{ "command", take_command },
	{ "below", take_below },
	{ "event", take_event },
	{ "by", take_by },
	{ "format", take_format },
	{ "min", take_min },
	{ "weights", take_weights },
	{},
};

static const struct profile_parameter top_parameters[] = {
	{ "from", take_from },	   { "to", take_to },
	{ "cgroup", take_cgroup }, { "command", take_command },
	{ "event", take_event },   { "by", take_top_by },
	{ "limit", take_limit },   { "weights", take_weights },
	{ "below", take_below },   {},
};

static const struct profile_parameter heat_parameters[] = {
	{ "from", take_from },	     { "to", take_to },	      { "cgroup", take_cgroup },
	{ "command", take_command }, { "event", take_event }, { "columns", take_columns },
	{ "rows", take_rows },	     { "below", take_below }, {},
};

static const struct profile_parameter pprof_parameters[] = {
	{ "seconds", take_seconds }, { "cgroup", take_cgroup },	  { "below", take_below },
	{ "command", take_command }, { "weights", take_weights }, {},
};

static const struct profile_parameter capture_parameters[] = {
	{ "from", take_from },	     { "to", take_to },	      { "cgroup", take_cgroup },
	{ "command", take_command }, { "by", take_by },	      { "format", take_format },
	{ "min", take_min },	     { "below", take_below }, {},
};

static const struct profile_parameter *const parameters_of_route[] = {
	[PROFILE_ROUTE_TREE] = tree_parameters,	      [PROFILE_ROUTE_TOP] = top_parameters,
	[PROFILE_ROUTE_HEAT] = heat_parameters,	      [PROFILE_ROUTE_PPROF] = pprof_parameters,
	[PROFILE_ROUTE_CAPTURE] = capture_parameters,
};

/* Nothing is later than now. */
static uint64_t monotonic_of(const struct profile_request *request, uint64_t moment)
{
	uint64_t time = clock_steps_monotonic(&request->clock, moment);

	return time < request->now ? time : request->now;
}

static int take_stretch(struct profile_request *request, struct reason *why)
{
	struct profile_query *query = &request->query;
	uint64_t from, to;
	int r = clock_steps_stretch(&request->clock, &request->from, &request->to, &from, &to);

	if (r == 0 && request->from.kind)
		query->from = monotonic_of(request, from);
	if (r == 0 && request->to.kind)
		query->to = monotonic_of(request, to);
	return r < 0 || query->from > query->to ? reason_set(why, -EINVAL, QUERY_STRETCH_REVERSED) : 0;
}

static int take_parameters(struct profile_request *request, const struct parameters *parameters,
			   const struct profile_parameter *known, struct reason *why)
{
	for (size_t i = 0; i < parameters->nr; i++) {
		const struct parameter *parameter = &parameters->items[i];
		const struct profile_parameter *rule = known;
		int r;

		while (rule->name && strcmp(rule->name, parameter->name))
			rule++;
		if (!rule->name)
			return reason_set(why, -EINVAL, "unknown query parameter '%.40s'", parameter->name);
		r = rule->take(request, parameter->value, why);
		if (r < 0)
			return r;
	}
	return take_stretch(request, why);
}

static void request_begin(struct profile_request *ret, const struct clock_steps *clock, enum profile_route route)
{
	const struct clock_times times = clock_times_now();
	uint64_t now = times.monotonic, last = route == PROFILE_ROUTE_PPROF ? PPROF_LAST_NS : LAST_NS;

	*ret = (struct profile_request){
		.now = now,
		.clock = *clock,
		.event = "cpu-clock",
		.query = { .from = now > last ? now - last : 0, .to = now },
		.format = route == PROFILE_ROUTE_PPROF ? FORMAT_PPROF : FORMAT_JSON,
	};
	if (route == PROFILE_ROUTE_CAPTURE)
		ret->query.from = 0; /* all of it */
	if (route != PROFILE_ROUTE_TOP)
		ret->query.by = PROFILE_BY_CGROUP | PROFILE_BY_COMMAND;
	clock_steps_note(&ret->clock, &times);
	ret->what.clock = &ret->clock;
	ret->what.columns = COLUMNS_DEFAULT;
	ret->what.rows = 1;
}

/* --- the response */

static const char *const types[] = {
	[FORMAT_JSON] = RESPONSE_JSON_TYPE,
	[FORMAT_FOLDED] = RESPONSE_TEXT_TYPE,
	[FORMAT_PPROF] = "application/octet-stream",
	[FORMAT_SPEEDSCOPE] = RESPONSE_JSON_TYPE,
};

static int write_profile(struct response *ret, struct profile_request *request, enum profile_route route)
{
	static int (*const writers[])(struct buf * out, const struct expose_profile *what) = {
		[FORMAT_JSON] = expose_profile_json,
		[FORMAT_FOLDED] = expose_profile_folded,
		[FORMAT_PPROF] = expose_profile_pprof,
		[FORMAT_SPEEDSCOPE] = expose_profile_speedscope,
	};
	ret->type = types[request->format];
	switch (route) {
	case PROFILE_ROUTE_TOP:
		return expose_profile_top(&ret->body, &request->what);
	case PROFILE_ROUTE_HEAT:
		return expose_profile_heat(&ret->body, &request->what);
	default:
		return writers[request->format](&ret->body, &request->what);
	}
}

static unsigned error_status(int r, enum profile_route route, struct reason *why)
{
	if (r == -ENOMEM)
		reason_set(why, r, "out of memory");
	else if (r == -E2BIG)
		reason_set(why, r, RESPONSE_GLOB_TOO_LONG);
	if (r == -ENOENT && (route == PROFILE_ROUTE_PPROF || route == PROFILE_ROUTE_CAPTURE))
		return MHD_HTTP_NOT_FOUND;
	return r == -EINVAL || r == -E2BIG || r == -ENOENT ? MHD_HTTP_BAD_REQUEST : MHD_HTTP_SERVICE_UNAVAILABLE;
}

/* path: of the request. */
static int ask_source(const struct web_source *source, struct profile_request *request, const char *path,
		      enum profile_route route, struct profile **ret, struct reason *why)
{
	if (route == PROFILE_ROUTE_CAPTURE)
		return source->capture(source->userdata, path + strlen(PROFILE_CAPTURE_PATH), &request->query, ret,
				       &request->what.measure, why);
	return source->profile(source->userdata, request->event, &request->query, request->counted, ret,
			       &request->what.measure, why);
}

/* A capture remembers the clock for longer. */
static int take_clock(struct profile_request *request, const struct web_source *source, const char *id)
{
	_cleanup_(freep) struct capture_rule_info *rules = NULL;
	const struct captures *captures;
	const struct capture *capture;
	uint64_t now = request->clock.now;
	size_t nr;
	int r = source->captures(source->userdata, &captures, &rules, &nr);

	if (r < 0)
		return r;
	capture = captures_find(captures, id);
	if (capture)
		request->clock = capture->cause.clock;
	request->clock.now = now;
	return 0;
}

/* One that is on disk alone. -ENOENT: it is not, or it can't be read. */
static int respond_saved(struct response *ret, const struct web_source *source, const struct profile_request *request,
			 const struct parameters *parameters, const char *id, struct reason *why)
{
	_cleanup_(buf_release) struct buf bytes = {};
	int r = source->saved_capture(source->userdata, id, &bytes);

	if (r < 0)
		return r == -ENOMEM ? r : -ENOENT;
	if (request->format != FORMAT_PPROF || parameters->nr > 1)
		return reason_set(why, -EINVAL, "the capture is on disk alone: ask for format=pprof, and nothing else");
	ret->type = types[FORMAT_PPROF];
	ret->body = steal_struct(bytes);
	return 0;
}

int profile_route_respond(struct response *ret, const struct web_source *source, const struct request_head *head,
			  const char *path, enum profile_route route)
{
	_cleanup_(parameters_release) struct parameters parameters = {};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct profile_request request;
	struct reason why = {};
	int r;

	request_begin(&request, source->clock, route);
	/* "profile" is what pprof and others ask for. */
	if (route == PROFILE_ROUTE_PPROF && strcmp(path, PROFILE_PPROF_PATH "profile"))
		request.event = path + strlen(PROFILE_PPROF_PATH);
	r = target_parameters(head->target, NULL, &parameters, &why);
	if (r == 0 && route == PROFILE_ROUTE_CAPTURE)
		r = take_clock(&request, source, path + strlen(PROFILE_CAPTURE_PATH));
	if (r == 0)
		r = take_parameters(&request, &parameters, parameters_of_route[route], &why);
	if (r == 0 && request.format == FORMAT_PPROF)
		request.query.by = PROFILE_BY_CGROUP | PROFILE_BY_COMMAND;
	if (route == PROFILE_ROUTE_HEAT)
		request.query.nr_slots = request.what.columns * request.what.rows;
	if (r == 0)
		r = ask_source(source, &request, path, route, &profile, &why);
	if (r == -ENOENT && route == PROFILE_ROUTE_CAPTURE) {
		r = respond_saved(ret, source, &request, &parameters, path + strlen(PROFILE_CAPTURE_PATH), &why);
		if (r == 0)
			return 0;
	}
	if (r < 0) {
		response_set_error(ret, path, error_status(r, route, &why), why.text);
		return 0;
	}
	request.what.profile = profile;
	request.what.reach =
		request.now - (profile->oldest && profile->oldest < request.now ? profile->oldest : request.now);
	return write_profile(ret, &request, route);
}
