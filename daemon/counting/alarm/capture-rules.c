/* SPDX-License-Identifier: MIT */

#include "counting/alarm/capture-rules.h"

#include "base/util/clock.h"
#include "counting/event/parse.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* --- life */

static struct watched_rule *watched_free(struct watched_rule *watched)
{
	if (!watched)
		return NULL;
	if (watched->rule.cgroup)
		glob_release(&watched->glob);
	trigger_free(watched->trigger);
	capture_rule_release(&watched->rule);
	free(watched->name);
	free(watched->when);
	free(watched);
	return NULL;
}
DEFINE_CLEANUP(struct watched_rule *, watched_free)

void capture_rules_release(struct capture_rules *rules)
{
	for (size_t i = 0; i < rules->nr; i++)
		watched_free(rules->items[i]);
	free(rules->items);
	*rules = (struct capture_rules){};
}

static int watched_new(struct watched_rule **ret, const struct config_capture *config)
{
	_cleanup_(watched_freep) struct watched_rule *watched = calloc(1, sizeof(*watched));
	struct trigger_rule rule;
	int r;

	if (!watched)
		return -ENOMEM;
	r = capture_rule_parse(&watched->rule, config->when.text, NULL);
	if (r < 0)
		return r;
	if (watched->rule.cgroup) {
		glob_init(&watched->glob, watched->rule.cgroup);
		watched->literal = strcspn(watched->rule.cgroup, "*?[");
	}
	rule = (struct trigger_rule){
		.below = watched->rule.below,
		.threshold = watched->rule.threshold,
		.duration = watched->rule.duration,
	};
	watched->config = config;
	watched->name = strdup(config->name);
	watched->when = strdup(config->when.text);
	if (!watched->name || !watched->when || trigger_new(&watched->trigger, &rule) < 0)
		return -ENOMEM;
	*ret = steal_ptr(watched);
	return 0;
}

/* Its figures go on by its name; its episodes too, if it is the same rule. */
static void take_over(struct watched_rule *watched, struct watched_rule *from)
{
	watched->captures = from->captures;
	watched->passed_over = from->passed_over;
	watched->taken_at = from->taken_at;
	if (strcmp(watched->when, from->when) == 0) {
		trigger_free(watched->trigger);
		watched->trigger = steal_ptr(from->trigger);
	}
}

int capture_rules_use(struct capture_rules *rules, const struct config *config)
{
	_cleanup_(capture_rules_release) struct capture_rules before = steal_struct(*rules), next = {};

	next.items = calloc(config->nr_captures + 1, sizeof(struct watched_rule *));
	if (!next.items)
		return -ENOMEM;
	for (; next.nr < config->nr_captures; next.nr++)
		if (watched_new(&next.items[next.nr], &config->captures[next.nr]) < 0)
			return -ENOMEM;
	for (size_t i = 0; i < next.nr; i++)
		for (size_t k = 0; k < before.nr; k++)
			if (strcmp(next.items[i]->name, before.items[k]->name) == 0)
				take_over(next.items[i], before.items[k]);
	/* Without rules, no interval is looked at. */
	next.ticked_at = before.nr ? before.ticked_at : 0;
	*rules = steal_struct(next);
	return 0;
}

/* --- the counter */

static bool is_named(const struct event *event, const char *counter)
{
	return strcmp(event->text, counter) == 0 || strcmp(event->metric, counter) == 0;
}

bool capture_rule_columns(struct rule_columns *ret, const char *counter, const struct scope_plan *plan)
{
	const struct event *first = NULL;

	*ret = (struct rule_columns){};
	for (size_t i = 0; i < plan_nr_shown(plan) && ret->nr < RULE_COLUMNS_MAX; i++) {
		const struct event *event = plan->columns[i].event;

		if (first ? first->by_pmu && event->by_pmu && strcmp(first->metric, event->metric) == 0 :
			    is_named(event, counter)) {
			ret->items[ret->nr++] = i;
			first = first ?: event;
		}
	}
	return ret->nr > 0;
}

/* Appends the events of a group. Where the group is used, a wrong event is an error of its own. */
static int add_events(struct event_list *list, const struct config_group *group, const struct event_env *env)
{
	_cleanup_(freep) char *texts = strdup(group->events);
	char *cursor = texts, *text;

	if (!texts)
		return -ENOMEM;
	while ((text = event_next_text(&cursor)))
		if (event_parse(list, env, text, NULL) == -ENOMEM)
			return -ENOMEM;
	return 0;
}

static int check_rule(const struct config_capture *capture, const struct event_list *known, struct reason *why)
{
	_cleanup_(capture_rule_release) struct capture_rule rule = {};
	int r = capture_rule_parse(&rule, capture->when.text, why);

	if (r < 0)
		return r;
	for (size_t i = 0; i < known->nr; i++)
		if (is_named(&known->events[i], rule.event))
			return 0;
	return reason_set(why, -EINVAL,
			  "%s:%u: when: '%.100s' is no event of a [group]; a rule names one as it is written there, or "
			  "by its name in metrics",
			  capture->when.place.file, capture->when.place.line, rule.event);
}

int capture_rules_check(const struct config *config, const struct event_env *env, struct reason *why)
{
	_cleanup_(event_list_release) struct event_list known = {};
	int r = 0;

	for (size_t i = 0; r == 0 && config->nr_captures && i < config->nr_groups; i++)
		r = add_events(&known, &config->groups[i], env);
	for (size_t i = 0; r == 0 && i < config->nr_captures; i++)
		r = check_rule(&config->captures[i], &known, why);
	return r == -ENOMEM ? reason_set(why, r, "out of memory") : r;
}

static bool find_columns(struct watched_rule *watched, const struct session *session, struct rule_columns *ret)
{
	enum scope scope = capture_rule_scope(&watched->rule);
	const char *why = NULL;

	if (!capture_rule_columns(ret, watched->rule.event, &session_plan(session)->scope[scope])) {
		reason_set(&watched->problem, 0, "no group of [%s] groups counts '%.100s'", scope_name(scope),
			   watched->rule.event);
		return false;
	}
	for (size_t i = 0; i < ret->nr; i++) {
		enum event_state state = session_column_state(session, scope, ret->items[i], &why);

		if (state == EVENT_OK || state == EVENT_MULTIPLEXED)
			continue;
		reason_set(&watched->problem, 0, "%.100s is not counted (%s)%s%s", watched->rule.event,
			   event_state_name(state), why ? ": " : "", why ?: "");
		return false;
	}
	watched->problem.text[0] = '\0';
	return true;
}

/* --- rates */

/* Of one target: its row, or the sum of its rows on several CPUs. */
struct target_rate {
	const struct totals_row *row; /* the first; NULL: none yet */
	double sum;		      /* NAN: a part is not known */
};

static void add_row(struct target_rate *target, const struct totals_row *row, const struct rule_columns *columns,
		    bool anew)
{
	if (!target->row)
		*target = (struct target_rate){ .row = row };
	for (size_t i = 0; i < columns->nr; i++) {
		size_t column = columns->items[i];

		target->sum += anew || !row->cells[column].measured ? NAN : row->rates[column].rate;
	}
}

static bool matches(struct watched_rule *watched, const char *label)
{
	return !watched->rule.cgroup ||
	       (strncmp(label, watched->rule.cgroup, watched->literal) == 0 && glob_matches(&watched->glob, label));
}

/* A round of one rule. */
struct evaluation {
	struct watched_rule *watched;
	const struct event *event;
	uint64_t begin, now;
	due_take_t take;
	void *userdata;
};

static void offer(const struct evaluation *round, const struct cgroup_identity *identity, const char *label,
		  double value)
{
	struct watched_rule *watched = round->watched;
	const struct due_target target = {
		.identity = identity,
		.value = value,
		.event = round->event,
		.now = round->now,
	};
	enum due_answer answer = DUE_NOT_NOW;

	if (!watched->taken_at || round->now - watched->taken_at >= watched->config->every)
		answer = round->take(round->userdata, watched, &target);
	if (answer == DUE_NOT_NOW)
		watched->passed_over += trigger_pass_over(watched->trigger, label);
	else
		trigger_take(watched->trigger, label);
	if (answer == DUE_TAKEN)
		watched->taken_at = round->now;
}

static void see_target(const struct evaluation *round, struct target_rate *target)
{
	struct watched_rule *watched = round->watched;
	const struct cgroup_identity *identity = target->row ? target->row->identity : NULL;
	const char *label = identity ? identity->label : "";
	double value = target->sum * round->event->scale;

	if (!target->row)
		return;
	target->row = NULL;
	/* Those that have begun an episode have matched. */
	if (trigger_is_beyond(watched->trigger, value) ? !matches(watched, label) : trigger_is_idle(watched->trigger))
		return;
	if (trigger_see(watched->trigger, label, value, round->begin, round->now))
		offer(round, identity, label, value);
}

static bool is_counted_now(const struct session *session, const struct totals_row *row)
{
	if (row->suspended || row->excluded || row->gone_at)
		return false;
	return row->scope == SCOPE_CGROUP || row->cpu == ROW_ALL_CPUS || cpulist_has(session_cpus(session), row->cpu);
}

static void evaluate(const struct evaluation *round, const struct session *session, const struct rule_columns *columns)
{
	enum scope scope = capture_rule_scope(&round->watched->rule);
	struct target_rate target = {};
	const struct totals_row *row;

	TAILQ_FOREACH(row, &session_totals(session)->rows[scope], in_totals) {
		if (!is_counted_now(session, row))
			continue;
		if (target.row && target.row->identity != row->identity)
			see_target(round, &target);
		/* Counts of a part of the interval only are less than its rate. */
		add_row(&target, row, columns, row->began >= round->begin);
	}
	see_target(round, &target);
}

static const struct event *column_event(const struct session *session, const struct capture_rule *rule, size_t column)
{
	return session_plan(session)->scope[capture_rule_scope(rule)].columns[column].event;
}

void capture_rules_tick(struct capture_rules *rules, const struct session *session, uint64_t now, const char *problem,
			due_take_t take, void *userdata)
{
	uint64_t begin = rules->ticked_at;

	rules->ticked_at = now;
	for (size_t i = 0; i < rules->nr; i++) {
		struct watched_rule *watched = rules->items[i];
		struct rule_columns columns;
		struct evaluation round = {
			.watched = watched,
			.begin = begin,
			.now = now,
			.take = take,
			.userdata = userdata,
		};

		const char *why = problem ?: watched->not_sampled.text;

		if (why[0])
			reason_set(&watched->problem, 0, "%s", why);
		else if (find_columns(watched, session, &columns) && begin) {
			round.event = column_event(session, &watched->rule, columns.items[0]);
			evaluate(&round, session, &columns);
		}
		trigger_end_round(watched->trigger, now);
	}
}

void capture_rules_note(struct capture_rules *rules, const char *rule, bool is_made)
{
	for (size_t i = 0; i < rules->nr; i++) {
		struct watched_rule *watched = rules->items[i];

		if (strcmp(watched->name, rule) != 0)
			continue;
		watched->captures += is_made;
		watched->passed_over += !is_made;
	}
}

/* --- for users */

struct watched_rule *capture_rules_at(const struct capture_rules *rules, size_t i)
{
	return i < rules->nr ? rules->items[i] : NULL;
}

bool capture_rules_info(const struct capture_rules *rules, size_t i, struct capture_rule_info *ret)
{
	const struct watched_rule *rule = capture_rules_at(rules, i);

	if (!rule)
		return false;
	*ret = (struct capture_rule_info){
		.name = rule->name,
		.when = rule->when,
		.problem = rule->problem.text,
		.captures = rule->captures,
		.passed_over = rule->passed_over,
	};
	return true;
}

/* "1.98 CPUs", "15230 per second". */
static void describe_rate(struct reason *ret, const struct event *event, double value)
{
	const char *unit = event_unit_name(event->unit);

	if (strcmp(unit, "seconds") == 0)
		reason_set(ret, 0, "%.3g CPUs", value);
	else
		reason_set(ret, 0, "%.6g%s%s per second", value, unit[0] ? " " : "", unit);
}

void capture_rule_explain(struct reason *ret, const struct watched_rule *rule, const struct due_target *target)
{
	const char *label = target->identity ? target->identity->label : "all CPUs";
	struct reason value, threshold, duration = {};

	describe_rate(&value, target->event, target->value);
	describe_rate(&threshold, target->event, rule->rule.threshold);
	if (rule->rule.duration)
		reason_set(&duration, 0, " for %g s", (double)rule->rule.duration / NS_PER_S);
	reason_set(ret, 0, "%.60s of %.200s: %.40s, %s %.40s%.40s", rule->rule.event, label, value.text,
		   rule->rule.below ? "below" : "above", threshold.text, duration.text);
}
