/* SPDX-License-Identifier: MIT */

#include "web/api/profile-route.h"

#include "base/util/clock.h"
#include "base/util/text.h"
#include "web/api/query.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define LAST_NS (300 * (uint64_t)NS_PER_S)
#define PPROF_LAST_NS (30 * (uint64_t)NS_PER_S)
#define PPROF_SECONDS_MAX 2678400

/* Of a heat map. */
#define COLUMNS_DEFAULT 60
#define COLUMNS_MAX 1000
#define ROWS_MAX 100

/* --- parameters */

static int take_from(struct profile_question *question, const char *value, struct reason *why)
{
	return query_take_moment(&question->from, "from", value, why);
}

static int take_to(struct profile_question *question, const char *value, struct reason *why)
{
	return query_take_moment(&question->to, "to", value, why);
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

static int take_seconds(struct profile_question *question, const char *value, struct reason *why)
{
	size_t seconds;
	int r = take_count("seconds", value, PPROF_SECONDS_MAX, &seconds, why);

	if (r == 0)
		question->last = (uint64_t)seconds * NS_PER_S;
	return r;
}

static int take_cgroup(struct profile_question *question, const char *value, struct reason *why)
{
	question->cgroup = value;
	return *value ? 0 : reason_set(why, -EINVAL, "cgroup is empty: give a path or a glob, such as /user.slice/**");
}

static int take_below(struct profile_question *question, const char *value, struct reason *why)
{
	question->below = strcmp(value, "yes") == 0;
	return question->below || strcmp(value, "no") == 0 ?
		       0 :
		       reason_set(why, -EINVAL, "below '%.40s' is neither yes nor no", value);
}

static int take_command(struct profile_question *question, const char *value, struct reason *why)
{
	question->command = value;
	return *value ? 0 : reason_set(why, -EINVAL, "command is empty: give a name or a glob, such as python*");
}

static int take_event(struct profile_question *question, const char *value, struct reason *why)
{
	question->event = value;
	return *value ? 0 : reason_set(why, -EINVAL, "event is empty: give cpu-clock, or the name of a profile");
}

static int take_weights(struct profile_question *question, const char *value, struct reason *why)
{
	question->counted = strcmp(value, "counted") == 0;
	return question->counted || strcmp(value, "sampled") == 0 ?
		       0 :
		       reason_set(why, -EINVAL, "weights '%.40s' is neither sampled nor counted", value);
}

/* Words separated by commas; none: functions only. */
static int take_by(struct profile_question *question, const char *value, struct reason *why)
{
	question->by = 0;
	while (*value) {
		size_t n = strcspn(value, ",");

		if (n == strlen("cgroup") && strncmp(value, "cgroup", n) == 0)
			question->by |= PROFILE_BY_CGROUP;
		else if (n == strlen("command") && strncmp(value, "command", n) == 0)
			question->by |= PROFILE_BY_COMMAND;
		else if (n == strlen("thread") && strncmp(value, "thread", n) == 0)
			question->by |= PROFILE_BY_THREAD;
		else if (n != strlen("function") || strncmp(value, "function", n))
			return reason_set(why, -EINVAL, "by '%.40s': known are cgroup, command, thread and function",
					  value);
		value += n + (value[n] == ',');
	}
	return 0;
}

static int take_top_by(struct profile_question *question, const char *value, struct reason *why)
{
	static const char *const names[] = {
		[PROFILE_TOP_FUNCTION] = "function",
		[PROFILE_TOP_THREAD] = "thread",
		[PROFILE_TOP_COMMAND] = "command",
		[PROFILE_TOP_CGROUP] = "cgroup",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(value, names[i]))
			continue;
		question->top_by = (enum profile_top_by)i;
		question->by = i == PROFILE_TOP_CGROUP	? PROFILE_BY_CGROUP :
			       i == PROFILE_TOP_COMMAND ? PROFILE_BY_COMMAND :
			       i == PROFILE_TOP_THREAD	? PROFILE_BY_THREAD :
							  0;
		return 0;
	}
	return reason_set(why, -EINVAL, "by '%.40s' is none of function, thread, command and cgroup", value);
}

static int take_format(struct profile_question *question, const char *value, struct reason *why)
{
	static const char *const names[] = {
		[PROFILE_FORM_TREE] = "json",
		[PROFILE_FORM_FOLDED] = "folded",
		[PROFILE_FORM_PPROF] = "pprof",
		[PROFILE_FORM_SPEEDSCOPE] = "speedscope",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!names[i] || strcmp(value, names[i]))
			continue;
		question->form = (enum profile_form)i;
		return 0;
	}
	return reason_set(why, -EINVAL, "format '%.40s' is none of json, folded, pprof and speedscope", value);
}

static int take_min(struct profile_question *question, const char *value, struct reason *why)
{
	char *end;

	question->min = strtod(value, &end);
	if (!*value || *end || strspn(value, "0123456789.") != strlen(value) || question->min > 1)
		return reason_set(why, -EINVAL, "min '%.40s' is not a share from 0 to 1", value);
	return 0;
}

static int take_limit(struct profile_question *question, const char *value, struct reason *why)
{
	uint64_t limit;

	if (value[strspn(value, "0123456789")] || parse_u64(value, &limit) < 0 || limit == 0)
		return reason_set(why, -EINVAL, "limit '%.40s' is not a number of at least 1", value);
	question->limit = (size_t)limit;
	return 0;
}

static int take_columns(struct profile_question *question, const char *value, struct reason *why)
{
	return take_count("columns", value, COLUMNS_MAX, &question->columns, why);
}

static int take_rows(struct profile_question *question, const char *value, struct reason *why)
{
	return take_count("rows", value, ROWS_MAX, &question->rows, why);
}

struct profile_parameter {
	const char *name;
	int (*take)(struct profile_question *question, const char *value, struct reason *why);
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

static int take_parameters(struct profile_question *question, const struct parameters *parameters,
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
		r = rule->take(question, parameter->value, why);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The question without its parameters. path: of the request. */
static void begin_question(struct profile_question *ret, const struct clock_steps *clock, enum profile_route route,
			   const char *path)
{
	static const enum profile_form forms[] = {
		[PROFILE_ROUTE_TREE] = PROFILE_FORM_TREE,    [PROFILE_ROUTE_TOP] = PROFILE_FORM_TOP,
		[PROFILE_ROUTE_HEAT] = PROFILE_FORM_HEAT,    [PROFILE_ROUTE_PPROF] = PROFILE_FORM_PPROF,
		[PROFILE_ROUTE_CAPTURE] = PROFILE_FORM_TREE,
	};
	const struct clock_times times = clock_times_now();

	*ret = (struct profile_question){
		.event = "cpu-clock",
		.last = route == PROFILE_ROUTE_PPROF ? PPROF_LAST_NS : LAST_NS,
		.now = times.monotonic,
		.clock = *clock,
		.form = forms[route],
		.by = route == PROFILE_ROUTE_TOP ? 0 : PROFILE_BY_CGROUP | PROFILE_BY_COMMAND,
		.columns = COLUMNS_DEFAULT,
		.rows = 1,
	};
	clock_steps_note(&ret->clock, &times);
	/* "profile" is what pprof and others ask for. */
	if (route == PROFILE_ROUTE_PPROF && strcmp(path, PROFILE_PPROF_PATH "profile"))
		ret->event = path + strlen(PROFILE_PPROF_PATH);
	if (route == PROFILE_ROUTE_CAPTURE) {
		ret->capture = path + strlen(PROFILE_CAPTURE_PATH);
		ret->last = UINT64_MAX;
	}
}

int profile_route_question(struct profile_question *ret, struct parameters *ret_parameters, const char *target,
			   const char *path, enum profile_route route, const struct clock_steps *clock,
			   struct reason *why)
{
	int r = target_parameters(target, NULL, ret_parameters, why);

	begin_question(ret, clock, route, path);
	return r < 0 ? r : take_parameters(ret, ret_parameters, parameters_of_route[route], why);
}

/* --- the response */

static const char *const types[] = {
	[PROFILE_FORM_TREE] = RESPONSE_JSON_TYPE,	   [PROFILE_FORM_TOP] = RESPONSE_JSON_TYPE,
	[PROFILE_FORM_HEAT] = RESPONSE_JSON_TYPE,	   [PROFILE_FORM_FOLDED] = RESPONSE_TEXT_TYPE,
	[PROFILE_FORM_PPROF] = "application/octet-stream", [PROFILE_FORM_SPEEDSCOPE] = RESPONSE_JSON_TYPE,
	[PROFILE_FORM_CAPTURES] = RESPONSE_JSON_TYPE,
};

void profile_route_respond(struct response *ret, const struct profile_question *question, struct blob *document)
{
	ret->type = types[question->form];
	ret->encoding = question->gzip ? "gzip" : NULL;
	ret->shared = blob_ref(document);
}
