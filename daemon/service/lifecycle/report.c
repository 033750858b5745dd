/* SPDX-License-Identifier: MIT */

#include "service/lifecycle/report.h"

#include "base/util/buf.h"
#include "base/util/clock.h"
#include "base/util/log-once.h"

#include <errno.h>
#include <string.h>
#include <systemd/sd-daemon.h>

/* What was last reported of an event. */
struct reported {
	enum event_state state;
	uint64_t lost_at; /* CLOCK_MONOTONIC ns, when it was last said that it is not counted; 0: never */
};

/* Cgroups of one status that are left out. */
struct left_out {
	bool logged;	    /* and not over since */
	uint64_t logged_at; /* CLOCK_MONOTONIC ns; 0: never */
};

struct report {
	struct plan *plan;		       /* a reference; NULL: no states are remembered, or not for a plan */
	struct reported *reported[_SCOPE_MAX]; /* of the plan's columns */
	char *status;			       /* the last STATUS= sent, without "Counting "; or NULL */
	bool idle;			       /* nothing was counted, as of the status */
	struct log_once news[_REPORT_TOPIC_MAX];
	struct log_once watches, unlisted, saved;
	struct log_once rules[CONFIG_MAX_CAPTURES]; /* of captures, by their numbers */
	struct left_out left_out[_CGROUP_STATUS_MAX];
};

int report_new(struct report **ret)
{
	struct report *report = calloc(1, sizeof(*report));

	if (!report)
		return -ENOMEM;
	*ret = report;
	return 0;
}

static void forget_rules(struct report *report)
{
	for (size_t i = 0; i < ARRAY_SIZE(report->rules); i++)
		log_once_release(&report->rules[i]);
}

struct report *report_free(struct report *report)
{
	if (!report)
		return NULL;
	report_forget_states(report);
	report_forget_status(report);
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		free(report->reported[scope]);
	for (int topic = 0; topic < _REPORT_TOPIC_MAX; topic++)
		log_once_release(&report->news[topic]);
	forget_rules(report);
	log_once_release(&report->watches);
	log_once_release(&report->unlisted);
	log_once_release(&report->saved);
	free(report);
	return NULL;
}

/* --- states of events */

static bool is_counting_state(enum event_state state)
{
	return state == EVENT_OK || state == EVENT_MULTIPLEXED;
}

/* Has the change to this state to be logged? What comes and goes, as with cgroups that do, is logged once a minute. */
static bool is_due(const struct reported *reported, enum event_state state, uint64_t now)
{
	bool known = !is_counting_state(state) && reported->lost_at && now - reported->lost_at < LOG_ONCE_NS;

	return is_counting_state(state) != is_counting_state(reported->state) && !known;
}

/* Logs the i-th column, and those after it that have changed to the same state for the same reason, as one line. */
static void log_state(struct reported *reported, uint64_t now, const struct session *session, enum scope scope,
		      size_t i)
{
	const struct scope_plan *plan = &session_plan(session)->scope[scope];
	struct log_field fields[LOG_FIELDS_MAX];
	_cleanup_(buf_release) struct buf names = {};
	_cleanup_(freep) char *text = NULL;
	const char *why, *other_why;
	enum event_state state = session_column_state(session, scope, i, &why);
	size_t nr_fields = 0;

	fields[nr_fields++] = (struct log_field){ "SCOPE", scope_name(scope) };
	fields[nr_fields++] = (struct log_field){ "STATE", event_state_name(state) };
	for (size_t k = i; k < plan_nr_shown(plan); k++) {
		const struct event *event = plan->columns[k].event;

		if (session_column_state(session, scope, k, &other_why) != state || !is_due(&reported[k], state, now) ||
		    strcmp(why ?: "", other_why ?: "") != 0)
			continue;
		buf_str(&names, names.len ? ", " : "");
		event_title(&names, event);
		if (nr_fields < LOG_FIELDS_MAX)
			fields[nr_fields++] = (struct log_field){ "EVENT", event->text };
		reported[k].state = state;
		if (!is_counting_state(state))
			reported[k].lost_at = now;
	}
	text = buf_steal(&names);
	log_fields(fields, nr_fields, is_counting_state(state) ? LOG_NOTICE : LOG_WARNING, "per %s, %s: %s%s%s",
		   scope == SCOPE_CPU ? "CPU" : "cgroup", event_state_name(state), text ? text : "?", why ? ": " : "",
		   why ? why : "");
}

/* Logs columns that have begun or ceased to be counted, a line for each reason. */
static void log_states(struct report *report, const struct world *world, enum scope scope)
{
	const struct session *session = world_session(world);
	struct reported *reported = report->reported[scope];
	uint64_t now = clock_monotonic_ns();

	for (size_t i = 0; i < plan_nr_shown(&session_plan(session)->scope[scope]); i++) {
		const char *why;
		enum event_state state = session_column_state(session, scope, i, &why);

		if (is_due(&reported[i], state, now))
			log_state(reported, now, session, scope, i);
		else if (is_counting_state(state) == is_counting_state(reported[i].state))
			reported[i].state = state;
	}
}

/* The reported states of a scope's columns, carried over to another plan; NULL where there is no memory. */
static struct reported *carry_states(const struct report *report, const struct plan *plan, enum scope scope)
{
	const struct scope_plan *to = &plan->scope[scope];
	const struct scope_plan *from = report->plan ? &report->plan->scope[scope] : NULL;
	struct reported *reported = calloc(to->nr_columns + 1, sizeof(*reported));

	for (size_t i = 0; reported && from && i < to->nr_columns; i++) {
		size_t k = column_find_equal(&to->columns[i], from);

		if (k != NO_COLUMN)
			reported[i] = report->reported[scope][k];
	}
	return reported;
}

/* The plan also changes without a reload, when an event has recovered. -ENOMEM. */
static int follow_plan(struct report *report, struct plan *plan)
{
	struct reported *reported[_SCOPE_MAX] = {};
	bool failed = false;

	if (report->plan == plan)
		return 0;
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		reported[scope] = carry_states(report, plan, (enum scope)scope);
		failed |= !reported[scope];
	}
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		free(failed ? reported[scope] : report->reported[scope]);
		if (!failed)
			report->reported[scope] = reported[scope];
	}
	if (failed)
		return -ENOMEM;
	plan_unref(report->plan);
	report->plan = plan_ref(plan);
	return 0;
}

/* Logs rules that are not evaluated, and when they are. */
static void log_rules(struct report *report, const struct profiles *profiles)
{
	struct capture_rule_info rule;
	struct reason text;

	for (size_t i = 0; profiles_rule(profiles, i, &rule); i++) {
		reason_set(&text, 0, "[capture \"%s\"] is %sevaluated%s%s", rule.name, rule.problem[0] ? "not " : "",
			   rule.problem[0] ? ": " : " now", rule.problem);
		if (rule.problem[0])
			log_once_line(&report->rules[i], LOG_WARNING, text.text);
		else
			log_once_resolved(&report->rules[i], text.text);
	}
}

void report_states(struct report *report, const struct world *world, const struct profiles *profiles)
{
	struct reason status;
	bool counting;

	if (follow_plan(report, session_plan(world_session(world))) == 0)
		for (int scope = 0; scope < _SCOPE_MAX; scope++)
			log_states(report, world, (enum scope)scope);
	log_rules(report, profiles);

	counting = world_describe(world, &status);
	if (report->status && strcmp(report->status, status.text) == 0)
		return;
	(void)sd_notifyf(0, "STATUS=Counting %s", status.text);
	if (!counting)
		log_warning("counting %s", status.text);
	else if (report->idle)
		log_notice("counting %s", status.text);
	report->idle = !counting;
	free(report->status);
	report->status = strdup(status.text);
}

void report_opened(const struct report *report)
{
	/* With nothing to count, that has been logged as a warning. */
	if (!report->idle)
		log_info("counting %s", report->status ? report->status : "");
}

void report_forget_states(struct report *report)
{
	report->plan = plan_unref(report->plan);
	forget_rules(report);
}

void report_forget_status(struct report *report)
{
	free(report->status);
	report->status = NULL;
}

/* --- problems */

void report_machine(const struct world *world)
{
	struct reason problem;

	for (size_t i = 0; config_unused_group(world_config(world), i, &problem); i++)
		log_warning("%s", problem.text);
	for (size_t i = 0; machine_problem(world_machine(world), i, &problem); i++)
		log_warning("%s", problem.text);
	if (world_no_crediting(world)[0])
		log_warning("%s", world_no_crediting(world));
}

static const struct cgroup *find_left_out(const struct cgroup_tree *tree, enum cgroup_status status)
{
	const struct cgroup *cgroup;

	TAILQ_FOREACH(cgroup, cgroup_tree_all(tree), in_all)
		if (cgroup->status == (int)status)
			return cgroup;
	return NULL;
}

/* Logs that cgroups are left out, and that none is any more. Users who make cgroups must not be able to fill the log:
 * where the first one comes and goes, that is logged once a minute. */
static void report_left_out(struct report *report, const struct world *world, enum cgroup_status status)
{
	struct left_out *left_out = &report->left_out[status];
	const struct cgroup *example = NULL;
	size_t nr = world_nr_cgroups(world, status);
	uint64_t now = clock_monotonic_ns();

	/* Those that failed wait for a moment when they are tried again. */
	if (left_out->logged && nr == 0 && world_nr_cgroups(world, CGROUP_WAITING) == 0) {
		log_notice("no cgroup is %s any more", cgroup_status_name(status));
		left_out->logged = false;
	}
	if (nr > 0 && !left_out->logged && (!left_out->logged_at || now - left_out->logged_at >= LOG_ONCE_NS))
		example = find_left_out(world_tree(world), status);
	if (!example)
		return;
	log_warning("%zu cgroup%s not counted, %s: for example %s: %s", nr, nr == 1 ? " is" : "s are",
		    cgroup_status_name(status), example->identity->label, example->why ?: "out of memory");
	left_out->logged = true;
	left_out->logged_at = now;
}

/* With no event to count in cgroups, the events' states say why. */
static void report_all_left_out(struct report *report, const struct world *world)
{
	static const enum cgroup_status statuses[] = { CGROUP_OVER_MAX, CGROUP_OVER_FDS, CGROUP_FAILED };

	if (session_plan(world_session(world))->scope[SCOPE_CGROUP].nr_sets == 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
		report_left_out(report, world, statuses[i]);
}

void report_tree(struct report *report, const struct world *world)
{
	const struct cgroup_tree *tree = world_tree(world);
	const char *problem, *unlisted;

	if (!tree)
		return;
	report_all_left_out(report, world);
	problem = cgroup_tree_problem(tree);
	unlisted = cgroup_tree_unlisted(tree);
	/* One line whichever cgroup is the example: users who make cgroups must not be able to fill the log. */
	if (unlisted && log_once_is_news(&report->unlisted, "unlisted", clock_monotonic_ns()))
		log_warning("%zu cgroups can't be followed and are not counted, for example %s",
			    cgroup_tree_stats(tree).unlisted, unlisted);
	/* While the tree is being read, it is not known whether all of it is watched. */
	if (problem)
		log_once_line(&report->watches, LOG_WARNING, problem);
	else if (!cgroup_tree_has_more(tree))
		log_once_resolved(&report->watches, "all of the cgroup tree is watched again");
}

void report_saved(struct report *report, int r)
{
	struct reason problem;

	if (r >= 0) {
		log_once_resolved(&report->saved, "again, everything can be kept for the next start");
		return;
	}
	reason_set(&problem, r, "not everything can be kept for the next start: %s", strerror(-r));
	log_once_line(&report->saved, LOG_WARNING, problem.text);
}

void report_news(struct report *report, enum report_topic topic, int priority, const struct reason *news)
{
	if (news->text[0])
		log_once_line(&report->news[topic], priority, news->text);
}
