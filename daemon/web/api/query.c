/* SPDX-License-Identifier: MIT */

#include "web/api/query.h"

#include "base/util/buf.h"
#include "base/util/glob.h"
#include "base/util/text.h"

#include <errno.h>
#include <string.h>

_Static_assert(PARAMETER_MAX <= GLOB_MAX, "every glob of a query can be matched");

/* The scope of that name, or _SCOPE_MAX. */
static enum scope scope_of(const char *value)
{
	int scope = 0;

	while (scope < _SCOPE_MAX && strcmp(value, scope_name((enum scope)scope)) != 0)
		scope++;
	return (enum scope)scope;
}

static int take_scope(struct expose_query *query, const char *value, struct reason *why)
{
	enum scope wanted = scope_of(value);

	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		query->without[scope] = scope != (int)wanted;
	return wanted < _SCOPE_MAX ? 0 : reason_set(why, -EINVAL, "scope '%s' is neither cpu nor cgroup", value);
}

/* Of /metrics: may be given again, and the daemon's own metrics are one more. Without it, everything is shown. */
static void begin_parts(struct expose_query *query)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		query->without[scope] = true;
	query->without_self = true;
}

static int take_part(struct expose_query *query, const char *value, struct reason *why)
{
	enum scope scope = scope_of(value);
	bool *unwanted = NULL;

	if (scope < _SCOPE_MAX)
		unwanted = &query->without[scope];
	else if (strcmp(value, "self") == 0)
		unwanted = &query->without_self;
	else
		return reason_set(why, -EINVAL, "scope '%s' is neither cpu, cgroup nor self", value);
	*unwanted = false;
	return 0;
}

static int take_cgroup(struct expose_query *query, const char *value, struct reason *why)
{
	query->cgroup = value;
	return *value ? 0 : reason_set(why, -EINVAL, "cgroup is empty: give a path or a glob, such as /user.slice/**");
}

static int take_leaves(struct expose_query *query, const char *value, struct reason *why)
{
	query->leaves = strcmp(value, "yes") == 0;
	if (!query->leaves && strcmp(value, "no") != 0)
		return reason_set(why, -EINVAL, "leaves '%s' is neither yes nor no", value);
	return 0;
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

const struct parameter_rule snapshot_parameters[] = {
	{ "scope", take_scope, NULL },
	{ "cgroup", take_cgroup, NULL },
	{ "leaves", take_leaves, NULL },
	{ "event", take_event, NULL },
	{ "sort", take_sort, NULL },
	{ "limit", take_limit, NULL },
	{},
};

int query_take_moment(struct moment *ret, const char *name, const char *value, struct reason *why)
{
	return moment_parse(ret, value) == 0 ?
		       0 :
		       reason_set(why, -EINVAL,
				  "%s '%.40s' is neither seconds since 1970, nor a time before now such as -5min", name,
				  value);
}

static int take_from(struct expose_query *query, const char *value, struct reason *why)
{
	return query_take_moment(&query->from, "from", value, why);
}

static int take_to(struct expose_query *query, const char *value, struct reason *why)
{
	return query_take_moment(&query->to, "to", value, why);
}

const struct parameter_rule metrics_parameters[] = {
	{ "scope", take_part, begin_parts },
	{ "cgroup", take_cgroup, NULL },
	{ "leaves", take_leaves, NULL },
	{ "event", take_event, NULL },
	{},
};

const struct parameter_rule history_parameters[] = {
	{ "scope", take_scope, NULL }, { "cgroup", take_cgroup, NULL }, { "event", take_event, NULL },
	{ "from", take_from, NULL },   { "to", take_to, NULL },		{},
};

const struct parameter_rule no_parameters[] = { {} };

static int fail_unknown(const char *name, const struct parameter_rule *rules, struct reason *why)
{
	_cleanup_(buf_release) struct buf known = {};

	for (const struct parameter_rule *rule = rules; rule->name; rule++) {
		buf_str(&known, rule == rules ? "; known are " : rule[1].name ? ", " : " and ");
		buf_str(&known, rule->name);
	}
	buf_char(&known, '\0');
	return reason_set(why, -EINVAL, "unknown query parameter '%s'%s", name,
			  !rules->name ? "; this path takes none" :
			  known.failed ? "" :
					 known.data);
}

/* The name of the parameter that may be given again, or NULL. */
static const char *repeatable_of(const struct parameter_rule *rules)
{
	while (rules->name && !rules->begin)
		rules++;
	return rules->name;
}

static int take_one(struct expose_query *ret, const struct parameter *parameter, const struct parameter_rule *rules,
		    bool *begun, struct reason *why)
{
	const struct parameter_rule *rule = rules;

	while (rule->name && strcmp(rule->name, parameter->name))
		rule++;
	if (!rule->name)
		return fail_unknown(parameter->name, rules, why);
	if (rule->begin && !*begun) {
		rule->begin(ret);
		*begun = true;
	}
	return rule->take(ret, parameter->value, why);
}

int query_take(struct expose_query *ret, struct parameters *ret_parameters, const char *target,
	       const struct parameter_rule *rules, struct reason *why)
{
	int r = target_parameters(target, repeatable_of(rules), ret_parameters, why);
	bool begun = false;

	for (size_t i = 0; r == 0 && i < ret_parameters->nr; i++)
		r = take_one(ret, &ret_parameters->items[i], rules, &begun, why);
	return r;
}
