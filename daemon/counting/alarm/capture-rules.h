/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The rules of the config's [capture "NAME"] sections, evaluated at the end of each interval from the rates of totals
 * (counting/totals/tick.h). Each cgroup that a rule's glob matches is looked at by itself. A rule whose counter is not
 * counted is not evaluated, and says why; a rate that is not known, and that of a target that began within the
 * interval, proves nothing.
 */

#include "base/config/capture-rule.h"
#include "base/config/config.h"
#include "base/util/glob.h"
#include "counting/alarm/rule-info.h"
#include "counting/alarm/trigger.h"
#include "counting/event/env.h"
#include "counting/session/session.h"

/* One rule. Over a reload, it goes on if its name and its text stay. */
struct watched_rule {
	const struct config_capture *config; /* borrowed until the next capture_rules_use() */
	char *name, *when;
	struct capture_rule rule;
	struct trigger *trigger;
	struct glob glob; /* in use where the rule has a cgroup; its beginning without special characters: */
	size_t literal;
	struct reason problem;
	struct reason not_sampled; /* why its event is not; "": it is. Set by whoever samples */
	uint64_t taken_at;	   /* CLOCK_MONOTONIC ns, the last order; 0: none */
	uint64_t captures, passed_over;
};

struct capture_rules {
	struct watched_rule **items;
	size_t nr;
	uint64_t ticked_at; /* CLOCK_MONOTONIC ns; 0: never */
};

void capture_rules_release(struct capture_rules *rules);
/* -EINVAL with FILE:LINE in why: a rule's counter is an event of no [group], whether or not it is counted; -ENOMEM. */
int capture_rules_check(const struct config *config, const struct event_env *env, struct reason *why);

/* -ENOMEM: there are none any more. */
int capture_rules_use(struct capture_rules *rules, const struct config *config);

/* A target that is due. */
struct due_target {
	const struct cgroup_identity *identity; /* NULL: all CPUs together */
	double value;				/* per second, in the event's unit */
	const struct event *event;
	uint64_t now;
};

enum due_answer {
	DUE_TAKEN,   /* ordered; capture_rules_note() is told later whether the capture was made */
	DUE_NOT_NOW, /* asked again at the next interval */
	DUE_IGNORED, /* not asked again in this episode */
};

typedef enum due_answer (*due_take_t)(void *userdata, const struct watched_rule *rule, const struct due_target *target);

/* Evaluates all rules, after session_tick(). now: CLOCK_MONOTONIC ns. problem: why none can be evaluated, or NULL. */
void capture_rules_tick(struct capture_rules *rules, const struct session *session, uint64_t now, const char *problem,
			due_take_t take, void *userdata);

/* The capture that the rule ordered was made, or was not: then its episode counts as passed over. */
void capture_rules_note(struct capture_rules *rules, const char *rule, bool is_made);

/* Number i of the rules; NULL after the last. */
struct watched_rule *capture_rules_at(const struct capture_rules *rules, size_t i);
/* Number i of the rules; false after the last. */
bool capture_rules_info(const struct capture_rules *rules, size_t i, struct capture_rule_info *ret);

/* A sentence on why the target is due. */
void capture_rule_explain(struct reason *ret, const struct watched_rule *rule, const struct due_target *target);

/* --- a rule's counter */

#define RULE_COLUMNS_MAX 8

/* Columns of a scope's plan whose sum it is: one, or one for each PMU. */
struct rule_columns {
	size_t items[RULE_COLUMNS_MAX];
	size_t nr;
};

/* False: no group counts it. */
bool capture_rule_columns(struct rule_columns *ret, const char *counter, const struct scope_plan *plan);

static inline enum scope capture_rule_scope(const struct capture_rule *rule)
{
	return rule->cgroup ? SCOPE_CGROUP : SCOPE_CPU;
}
