/* SPDX-License-Identifier: MIT */

#include "counting/session/states.h"

#include "counting/totals/tick.h"

#include <errno.h>
#include <string.h>

/* Groups take turns on the PMU every few milliseconds (perf_event_mux_interval_ms, 4 of them). One that has not had its
 * turn in this time, and twice a turn of each other, never will. */
#define NEVER_NS 100000000U
#define TURN_NS 4000000U

const struct column_state *states_column(const struct states *states, enum scope scope, size_t column)
{
	return &states->columns[scope][column];
}

struct states *states_free(struct states *states)
{
	if (!states)
		return NULL;
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		for (size_t i = 0; states->columns[scope] && i < states->plan->scope[scope].nr_columns; i++)
			free(states->columns[scope][i].why);
		free(states->columns[scope]);
		free(states->sets[scope]);
	}
	plan_unref(states->plan);
	free(states);
	return NULL;
}

int states_new(struct states **ret, struct plan *plan)
{
	_cleanup_(states_freep) struct states *states = calloc(1, sizeof(*states));

	if (!states)
		return -ENOMEM;
	states->plan = plan_ref(plan);
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		states->sets[scope] = calloc(plan->scope[scope].nr_sets + 1, sizeof(struct set_state));
		states->columns[scope] = calloc(plan->scope[scope].nr_columns + 1, sizeof(struct column_state));
		if (!states->sets[scope] || !states->columns[scope])
			return -ENOMEM;
	}
	*ret = steal_ptr(states);
	return 0;
}

static bool is_counting(enum event_state state)
{
	return state == EVENT_OK || state == EVENT_MULTIPLEXED;
}

/* --- an interval */

static uint64_t time_to_never(const struct plan *plan)
{
	uint64_t time = NEVER_NS;

	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < plan->scope[scope].nr_sets; i++)
			time += plan->scope[scope].sets[i].exact ? 0 : 2 * TURN_NS;
	return time;
}

/* The rest of a sentence. */
static const char *multiplexed_more(const struct set_health *health)
{
	if (health->doubted)
		return "; where they contradict those of the cgroups below by more than 4 %, they are not shown";
	if (health->unsure)
		return "; of nested cgroups of which too little was observed to compare levels, they are not shown";
	return health->lagged ? "; some wait until the kernel's enabled time, which lags behind, has caught up" : "";
}

static void explain_multiplexed(const struct set_health *health, double share, struct reason *ret)
{
	const char *more = multiplexed_more(health);
	const char *cause = health->spared ? "to read it at all switches takes more than [daemon] switch_budget" :
					     "it shares the PMU";

	if (health->running)
		reason_set(ret, 0, "%s: it ran %.0f %% of the last interval, and totals are estimated%s", cause,
			   100 * share, more);
	else if (!health->enabled)
		reason_set(ret, 0, "%s: totals are estimated%s", cause, more);
	else if (health->timeless)
		reason_set(ret, 0,
			   "it counts, but the kernel's running time of it stands still, so that its counts can't be "
			   "scaled: totals wait until that time goes on");
	else if (health->spared)
		reason_set(ret, 0, "%s: in the last interval it was not read at all, and totals wait until it is%s",
			   cause, more);
	else
		reason_set(ret, 0, "it did not get the PMU in the last interval: totals wait until it does%s", more);
}

/* never: a set that was enabled for so long, and never ran, never will. */
static void update_set(struct set_state *state, struct set_health *health, const struct set *set, uint64_t never)
{
	double share = health->enabled ? (double)health->running / (double)health->enabled : 1;

	state->partial = false;
	if (health->failures) {
		state->state = EVENT_FAILED;
		state->why = health->why;
	} else if (health->lasting.text[0]) {
		state->state = EVENT_FAILED;
		state->why = health->lasting;
	} else if (!set->exact && health->waited && !health->ever_ran && health->waited < never) {
		state->state = EVENT_MULTIPLEXED;
		reason_set(&state->why, 0, "it has not had its turn on the PMU yet: totals wait until it does");
	} else if (!set->exact && health->waited && !health->ever_ran) {
		state->state = EVENT_NEVER_SCHEDULED;
		reason_set(&state->why, 0,
			   "opened and enabled, but the PMU never ran it: group '%s' is too large for it, or its "
			   "counters are taken (another perf user, kernel.nmi_watchdog)",
			   set->group->name);
	} else if (health->lacking && health->lack.text[0]) {
		state->state = EVENT_FAILED;
		state->partial = health->lacking < health->cgroups;
		reason_set(&state->why, 0, "%zu of %zu cgroups lack it: %s", health->lacking, health->cgroups,
			   health->lack.text);
	} else if (!set->exact && (share < FULL_SHARE || health->doubted || health->unsure)) {
		state->state = EVENT_MULTIPLEXED;
		explain_multiplexed(health, share, &state->why);
	} else {
		state->state = EVENT_OK;
		state->why.text[0] = '\0';
	}
}

/* How long the set ran in the interval while its CPUs were busy; 0 where that is not known. A cgroup's time is
 * busy time. */
static uint64_t busy_time(const struct set *set, const struct set_time *time, enum scope scope,
			  const struct cpulist *cpus, const uint64_t *busy)
{
	uint64_t sum = 0;

	if (scope == SCOPE_CGROUP || !time->enabled)
		return time->busy;
	for (size_t i = 0; busy && i < cpus->nr; i++)
		if (cpulist_has(&set->cpus, cpus->cpu[i]))
			sum += busy[i];
	return (uint64_t)((double)sum * (double)time->running / (double)time->enabled);
}

static void update_stalls(struct states *states, enum scope scope, const struct set *set, const struct set_time *time,
			  const uint64_t *counted, uint64_t busy)
{
	for (size_t i = 0; i < set->nr; i++) {
		size_t at = set->columns[i];
		const struct event *event = states->plan->scope[scope].columns[at].event;
		struct stall *stall = &states->columns[scope][at].stall;

		/* Software always counts, and a device can be idle on a busy machine. */
		if (event->software || event->uncore)
			continue;
		stall_update(stall, event->steady, counted[at], busy);
		states->in_doubt |= scope == SCOPE_CPU &&
				    stall_is_in_doubt(stall, event->steady, counted[at], time->running);
	}
}

/* The state of an event in the set. */
static enum event_state state_of(const struct set_state *set, const struct column_state *state,
				 const struct event *event, const char **why)
{
	if (state->stall.stalled && (is_counting(set->state) || set->partial)) {
		*why = event->steady ? "it runs on busy CPUs and hardly counts: the PMU does not count it" :
				       "it runs and has counted nothing in 10 s of busy CPU time: the PMU does not "
				       "count it, or it never happens here; it is shown from its first count on";
		return EVENT_STALLED;
	}
	*why = set->why.text[0] ? set->why.text : NULL;
	return set->state;
}

/* Joins the two sentences where the plan has one too: counted in parts, and multiplexed. */
static void join_whys(struct states *states, enum scope scope)
{
	const struct scope_plan *plan = &states->plan->scope[scope];

	for (size_t i = 0; i < plan->nr_columns; i++) {
		const struct column *column = &plan->columns[i];
		struct column_state *state = &states->columns[scope][i];
		const char *why = NULL;

		free(state->why);
		state->why = NULL;
		if (column->set != NO_SET && column->why)
			(void)state_of(&states->sets[scope][column->set], state, column->event, &why);
		if (why && asprintf(&state->why, "%s; %s", why, column->why) < 0)
			state->why = NULL;
	}
}

static void move_time(struct set_time *to, struct set_health *from)
{
	to->enabled += from->enabled;
	to->running += from->running;
	to->busy += from->busy;
	from->enabled = from->running = from->busy = from->failures = 0;
	from->timeless = from->lagged = from->doubted = from->unsure = from->spared = false;
}

void states_judge(struct states *states, struct set_health *const health[static _SCOPE_MAX])
{
	uint64_t never = time_to_never(states->plan);

	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		const struct scope_plan *plan = &states->plan->scope[scope];

		for (size_t i = 0; i < plan->nr_sets; i++) {
			struct set_state *state = &states->sets[scope][i];

			update_set(state, &health[scope][i], &plan->sets[i], never);
			move_time(&state->time, &health[scope][i]);
		}
		join_whys(states, (enum scope)scope);
	}
}

void states_update(struct states *states, struct totals *totals, const struct cpulist *cpus, const uint64_t *busy)
{
	states->in_doubt = false;
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		const struct scope_plan *plan = &states->plan->scope[scope];

		for (size_t i = 0; i < plan->nr_sets; i++) {
			const struct set *set = &plan->sets[i];
			struct set_time *time = &states->sets[scope][i].time;

			update_stalls(states, (enum scope)scope, set, time, totals->counted[scope],
				      busy_time(set, time, (enum scope)scope, cpus, busy));
			*time = (struct set_time){};
		}
		memset(totals->counted[scope], 0, plan->nr_columns * sizeof(uint64_t));
		join_whys(states, (enum scope)scope);
	}
}

bool states_is_partial(const struct states *states, enum scope scope, size_t at)
{
	size_t set = states->plan->scope[scope].columns[at].set;
	const char *why;

	return set != NO_SET && states->sets[scope][set].partial && states_get(states, scope, at, &why) == EVENT_FAILED;
}

enum event_state states_get(const struct states *states, enum scope scope, size_t at, const char **why)
{
	const struct column *column = &states->plan->scope[scope].columns[at];
	const struct column_state *own = &states->columns[scope][at];
	enum event_state state;

	if (column->set == NO_SET) {
		*why = column->why;
		return column->state;
	}
	state = state_of(&states->sets[scope][column->set], own, column->event, why);
	if (own->why || !*why)
		*why = own->why ? own->why : column->why;
	return state;
}

void states_carry(struct states *states, const struct states *from)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		const struct scope_plan *plan = &states->plan->scope[scope], *old = &from->plan->scope[scope];

		for (size_t i = 0; i < plan->nr_sets; i++) {
			size_t k = set_find_equal(plan, &plan->sets[i], old);

			if (k != NO_SET)
				states->sets[scope][i] = from->sets[scope][k];
		}
		for (size_t i = 0; i < plan->nr_columns; i++) {
			size_t k = column_find_equal(&plan->columns[i], old);

			if (k != NO_COLUMN)
				states->columns[scope][i].stall = from->columns[scope][k].stall;
		}
		join_whys(states, (enum scope)scope);
	}
	states->in_doubt = from->in_doubt;
}
