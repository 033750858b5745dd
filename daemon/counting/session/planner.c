/* SPDX-License-Identifier: MIT */

#include "counting/session/planner.h"

#include "base/util/buf.h"
#include "counting/engine/bpf/bpf.h"
#include "counting/engine/perf/perf.h"
#include "counting/engine/perf/pmu-test.h"
#include "counting/event/firing.h"
#include "counting/plan/build.h"

#include <errno.h>
#include <string.h>

const struct engine_ops *const perf_alone[] = { &engine_perf, NULL };

const struct engine_ops *const *planner_all_engines(void)
{
	static const struct engine_ops *all[3];

	if (!engine_bpf)
		return perf_alone;
	all[0] = engine_bpf;
	all[1] = &engine_perf;
	return all;
}

/* --- names */

static int fail_same_series(const struct column *a, const struct column *b, const char *series, struct reason *why)
{
	return reason_set(why, -EEXIST,
			  "'%s' in group '%s' and '%s' in group '%s' are both counted per %s as '%s': leave one out, "
			  "or give it a label (label=event)",
			  a->event->text, a->group->name, b->event->text, b->group->name,
			  a->scope == SCOPE_CPU ? "CPU" : "cgroup", series);
}

/* Series of one name are of one event, or of one event on several PMUs. */
static bool share_series(const struct event *a, const struct event *b)
{
	return a->by_pmu && b->by_pmu && strcmp(a->metric, b->metric) == 0 && strcmp(a->pmu, b->pmu) != 0;
}

/* Would the two columns be exposed under one name? Totals have a unit in their name; states, JSON keys and filters
 * have not, so that events which differ by their unit alone would meet there. */
static bool share_name(const struct column *a, const char *a_series, const struct column *b, const char *b_series)
{
	bool hidden = a->group->hidden || b->group->hidden;
	bool same = strcmp(a_series, b_series) == 0 || strcmp(a->event->metric, b->event->metric) == 0;

	return same && !hidden && !share_series(a->event, b->event);
}

/* Is the name of the series in use for something else? */
static const char *find_other_use(const struct column *column, const char *series)
{
	if (strcmp(series, "group_enabled_seconds") == 0 || strcmp(series, "group_running_seconds") == 0)
		return "the groups' times";
	if (column->scope == SCOPE_CGROUP && strcmp(series, "descendants") == 0)
		return "the number of cgroups below another";
	return NULL;
}

/* No two columns of a scope may have the same series, nor one those of something else. */
static int check_name(const struct scope_plan *plan, size_t at, char *const *series, struct reason *why)
{
	const struct column *column = &plan->columns[at];
	const char *other_use = find_other_use(column, series[at]);

	if (other_use)
		return reason_set(why, -EEXIST, "'%s' in group '%s': '%s' is the name of %s; use another label",
				  column->event->text, column->group->name, series[at], other_use);
	for (size_t i = 0; i < at; i++)
		if (share_name(&plan->columns[i], series[i], column, series[at]))
			return fail_same_series(&plan->columns[i], column,
						strcmp(series[i], series[at]) ? column->event->metric : series[at],
						why);
	return 0;
}

static int check_names(const struct scope_plan *plan, struct reason *why)
{
	_cleanup_(freep) char **series = calloc(plan->nr_columns + 1, sizeof(*series));
	size_t nr = 0;
	int r = series ? 0 : -ENOMEM;

	for (; r == 0 && nr < plan->nr_columns; nr++) {
		struct buf name = {};

		event_series_name(&name, plan->columns[nr].event);
		series[nr] = buf_steal(&name);
		r = series[nr] ? check_name(plan, nr, series, why) : -ENOMEM;
	}
	while (nr > 0)
		free(series[--nr]);
	return r;
}

/* --- engines */

/* Which of the two it is, only those who know the machine can tell. */
static int column_has_no_cpu(struct column *column)
{
	_cleanup_(freep) char *cpus = cpulist_format(&column->event->cpus);
	struct reason why;

	reason_set(&why, 0, "its PMU counts on CPU %s only, which is offline or left alone by [cpu] exclude",
		   cpus ? cpus : "?");
	return column_set_state(column, EVENT_UNSUPPORTED, why.text);
}

/* Settles the state of an event that no engine could count here. *ret: may one be asked? */
static int column_may_be_tried(struct column *column, const struct engine_probe *probe, bool *ret)
{
	const struct event *event = column->event;
	_cleanup_(cpulist_release) struct cpulist cpus = {};

	*ret = false;
	if (event->absent)
		return column_set_state(column, event->absent == -EACCES ? EVENT_DENIED : EVENT_UNSUPPORTED,
					event->why_absent ? event->why_absent : strerror(-event->absent));
	if (probe->scope == SCOPE_CGROUP && event->uncore)
		return column_set_state(column, EVENT_UNSUPPORTED,
					"it belongs to a device and not to tasks: it can be counted per CPU only");
	if (probe->scope == SCOPE_CGROUP && probe->cgroup_fd < 0)
		return column_set_state(column, EVENT_UNSUPPORTED, probe->no_cgroups);
	if (cpulist_of_event(&cpus, event, probe->cpus) < 0)
		return -ENOMEM;
	if (cpus.nr == 0)
		return column_has_no_cpu(column);
	*ret = true;
	return 0;
}

static struct engine_probe probe_by(const struct engine_probe *probe, const struct engine_ops *engine)
{
	struct engine_probe asked = *probe;

	asked.engine = engine;
	return asked;
}

/* Notes why an engine that goes before the one that counts the column does not. -ENOMEM. */
static int column_pass_over(struct column *column, const struct engine_ops *engine, const char *why)
{
	struct reason reason;

	free(column->passed_over);
	column->passed_over = strdup(why);
	reason_set(&reason, 0, "left to engine %s: %s", engine->name, why);
	return column->passed_over ? column_add_why(column, reason.text) : -ENOMEM;
}

/* Asks the engines in their order which can count the column. Where none can, the column has the last one's reason. */
static int column_choose_engine(struct scope_plan *plan, size_t at, const struct engine_ops *const *engines,
				const struct engine_probe *probe, const struct engine_ops **ret)
{
	struct column *column = &plan->columns[at];
	_cleanup_(freep) char *refused = NULL;
	bool may_recover = false;

	for (size_t i = 0; engines[i]; i++) {
		const struct engine_probe asked = probe_by(probe, engines[i]);
		int r;

		if (engines[i]->suits && !engines[i]->suits(column))
			continue;
		free(refused);
		refused = column->why;
		column->why = NULL;
		column->attr = column->event->attr;
		column->state = EVENT_OK;
		column->may_recover = false;
		r = engines[i]->try_column(plan, at, &asked);
		*ret = engines[i];
		if (r == 0 && column->state == EVENT_OK && refused)
			r = column_pass_over(column, engines[i], refused);
		if (r < 0 || column->state == EVENT_OK)
			return r;
		may_recover |= column->may_recover;
	}
	column->may_recover = may_recover;
	return 0;
}

/* A uprobe before that column that was provoked; NULL: none was. */
static const struct column *find_provoked_uprobe(const struct scope_plan *plan, size_t before)
{
	for (size_t i = 0; i < before; i++) {
		const struct column *column = &plan->columns[i];

		if (column->event->probe_ino && (column->state == EVENT_OK || column->state == EVENT_NEVER_FIRES))
			return column;
	}
	return NULL;
}

/* An event that opens is not believed before it has counted something, where that can be provoked. One uprobe stands
 * for all: a file of each would have to be closed, which is slow. */
static int column_test_firing(struct scope_plan *plan, size_t at, const struct engine_probe *probe)
{
	struct column *column = &plan->columns[at];
	const struct column *known = column->event->probe_ino ? find_provoked_uprobe(plan, at) : NULL;
	struct reason why;
	bool fires;
	int fd;

	if (known)
		return known->state == EVENT_OK ? 0 : column_set_state(column, EVENT_NEVER_FIRES, known->why);
	fires = event_fires(column->event, &fd, &why);
	if (fd >= 0 && tried_add(probe->tried, fd) < 0)
		safe_close(fd);
	return fires ? 0 : column_set_state(column, EVENT_NEVER_FIRES, why.text);
}

/* Tries each of these columns by itself, and puts those that can be counted into sets. */
static int try_columns(struct scope_plan *plan, size_t from, size_t to, const struct engine_ops *const *engines,
		       const struct engine_probe *probe)
{
	int r = 0;

	for (size_t i = from; i < to && r == 0; i++) {
		const struct engine_ops *engine = NULL;
		bool may;

		r = column_may_be_tried(&plan->columns[i], probe, &may);
		if (r == 0 && may)
			r = column_choose_engine(plan, i, engines, probe, &engine);
		if (r == 0 && may && plan->columns[i].state == EVENT_OK)
			r = column_test_firing(plan, i, probe);
		if (r == 0 && may && plan->columns[i].state == EVENT_OK)
			r = plan_assign_set(plan, i, engine, probe->cpus);
	}
	return r;
}

/* --- sets that are credited */

/* Is the hidden column, which is one of the CPUs', needed: is it credited to cgroups as one of theirs, in a set that
 * can't stand on what the CPUs count anyway? */
static bool is_needed(const struct column *hidden, const struct plan *plan)
{
	const struct scope_plan *cgroups = &plan->scope[SCOPE_CGROUP];

	for (size_t i = 0; i < cgroups->nr_columns; i++) {
		const struct column *column = &cgroups->columns[i];

		if (strcmp(column->group->name, hidden->group->name) == 0 && event_equal(column->event, hidden->event))
			return column->set != NO_SET && cgroups->sets[column->set].credited &&
			       plan_find_alike(plan, &cgroups->sets[column->set]) == NO_SET;
	}
	return false;
}

/* Opens on CPUs what is only counted per cgroup, where it is credited. */
static int try_hidden(struct plan *plan, const struct engine_ops *const *engines, const struct engine_probe *probe)
{
	struct scope_plan *cpus = &plan->scope[SCOPE_CPU];
	int r = 0;

	for (size_t i = plan_nr_shown(cpus); i < cpus->nr_columns && r == 0; i++)
		if (is_needed(&cpus->columns[i], plan))
			r = try_columns(cpus, i, i + 1, engines, probe);
	return r;
}

/* A set whose events can't be had on CPUs as one group goes to the last engine, which opens it by itself. */
static int decide_credited(struct plan *plan, const struct engine_ops *const *engines)
{
	struct scope_plan *cgroups = &plan->scope[SCOPE_CGROUP];
	const struct engine_ops *last = NULL;
	int r = 0;

	while (*engines)
		last = *engines++;
	for (size_t i = 0; i < cgroups->nr_sets; i++) {
		struct set *set = &cgroups->sets[i];

		if (!set->credited || set_find_twin(plan, SCOPE_CGROUP, i) != NO_SET)
			continue;
		set->engine = last;
		set->credited = last->credits;
		for (size_t k = 0; k < set->nr && r == 0; k++)
			r = column_pass_over(&cgroups->columns[set->columns[k]], last,
					     "its group can't be counted on CPUs as it is");
	}
	return r;
}

/* --- pinned sets */

/* The PMU of the set's hardware events; NULL: it has none. */
static const char *set_pmu(const struct scope_plan *plan, const struct set *set)
{
	for (size_t i = 0; i < set->nr; i++)
		if (!plan->columns[set->columns[i]].event->software)
			return plan->columns[set->columns[i]].event->pmu;
	return NULL;
}

static unsigned nr_hardware(const struct scope_plan *plan, const struct set *set)
{
	unsigned nr = 0;

	for (size_t i = 0; i < set->nr; i++)
		nr += !plan->columns[set->columns[i]].event->software;
	return nr;
}

static struct pmu_counters *find_lying(struct plan *plan, const char *pmu)
{
	const struct pmu_counters *lying = pmu_counters_find_lying(&plan->pmus, pmu);

	return lying ? &plan->pmus.pmus[lying - plan->pmus.pmus] : NULL;
}

static int drop_pinned(struct scope_plan *plan, size_t at, const struct pmu_counters *lying, bool levels)
{
	const struct set *set = &plan->sets[at];
	struct reason why;
	int r = 0;

	reason_set(&why, 0,
		   "group '%s' is pinned and does not fit the PMU: of the %u counters of PMU '%s' only %u count at "
		   "once, as "
		   "a test has shown, and %s: count it without D",
		   set->group->name, lying->advertised, lying->pmu, lying->usable,
		   levels ? "each level of the cgroups would hold some" : "other pinned groups hold some");
	for (size_t i = 0; i < set->nr && r == 0; i++)
		r = column_set_state(&plan->columns[set->columns[i]], EVENT_NEVER_SCHEDULED, why.text);
	plan_drop_set(plan, at);
	return r;
}

/* Sets that are pinned always run, all at once: on a PMU that lies, those that would hold a counter that does not count
 * are left out. So are those of cgroups, each level of which would hold counters of its own. */
static int reserve_pinned(struct plan *plan, enum scope scope)
{
	struct scope_plan *scope_plan = &plan->scope[scope];
	int r = 0;

	for (size_t i = 0; i < scope_plan->nr_sets && r == 0;) {
		const struct set *set = &scope_plan->sets[i];
		const char *pmu = set_pmu(scope_plan, set);
		struct pmu_counters *lying = pmu && set->pinned ? find_lying(plan, pmu) : NULL;
		unsigned nr = nr_hardware(scope_plan, set);
		bool levels = scope == SCOPE_CGROUP && !set->engine->credits;

		/* One that is too large by itself is refused when it is tried. */
		if (lying && nr <= lying->usable && (levels || lying->pinned + nr > lying->usable)) {
			r = drop_pinned(scope_plan, i, lying, levels);
			continue;
		}
		if (lying && nr <= lying->usable && !set->engine->credits)
			lying->pinned += nr;
		i++;
	}
	return r;
}

/* Opens the sets that are to be pinned, but for those that are open and counted already. */
static int open_pinned(const struct scope_plan *plan, const struct engine_probe *probe, struct tried *tried)
{
	int r = 0;

	for (size_t i = 0; i < plan->nr_sets && r == 0; i++) {
		const struct set *set = &plan->sets[i];
		const struct engine_probe asked = probe_by(probe, set->engine);
		size_t counting = probe->counting ? set_find_equal(plan, set, probe->counting) : NO_SET;
		bool open = probe->counting && set_is_open(probe->counting, counting) &&
			    probe->counting->sets[counting].engine == set->engine;

		if (set->pinned && !open)
			r = set->engine->open_set(plan, i, &asked, tried);
	}
	return r;
}

/* Appends to the reason of a column whose group is counted in parts. */
static int column_tell_part(struct column *column, const struct pmu_counters_list *pmus)
{
	const struct pmu_counters *lying = pmu_counters_find_lying(pmus, column->event->pmu);
	struct reason count = {}, why;

	if (lying)
		reason_set(&count, 0, " (of its %u counters only %u count)", lying->advertised, lying->usable);
	reason_set(&why, 0, "group '%s' does not fit the PMU at once%s and is counted in parts", column->group->name,
		   count.text);
	return column_add_why(column, why.text);
}

/* Tries the sets, and splits or drops those that do not fit the PMU at once. */
static int try_sets(struct scope_plan *plan, const struct engine_probe *probe)
{
	int r = 0;

	for (size_t i = 0; i < plan->nr_sets && r == 0;) {
		const struct engine_probe asked = probe_by(probe, plan->sets[i].engine);
		size_t fits;

		r = asked.engine->try_set(plan, i, &asked, &fits);
		if (r < 0)
			return r;
		if (fits > 0 && fits < plan->sets[i].nr)
			r = plan_split_set(plan, i, fits);
		if (fits > 0)
			i++;
		else
			plan_drop_set(plan, i);
	}
	for (size_t i = 0; i < plan->nr_columns && r == 0; i++)
		if (plan->columns[i].set != NO_SET && plan->sets[plan->columns[i].set].part)
			r = column_tell_part(&plan->columns[i], probe->pmus);
	return r;
}

/* --- a PMU that lies */

/* Can the sets have more events on the PMU at once than count? Each level of the tree of cgroups has events of its own,
 * beside those of the CPU. */
static bool may_exceed(const struct plan *plan, const struct pmu_counters *counters)
{
	size_t nr[_SCOPE_MAX] = {};

	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < plan->scope[scope].nr_columns; i++) {
			const struct column *column = &plan->scope[scope].columns[i];
			bool opened = column->set != NO_SET && !plan->scope[scope].sets[column->set].credited;

			nr[scope] += opened && !column->event->software &&
				     strcmp(column->event->pmu, counters->pmu) == 0;
		}
	return nr[SCOPE_CGROUP] > 0 || nr[SCOPE_CPU] > counters->usable;
}

/* The kernel would run two sets at once that fit what the PMU advertises, and not what counts. An exclusive set has the
 * PMU to itself in its turn. A pinned one has no turns, and has to be left alone: others would never run. */
static void keep_apart(struct plan *plan)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < plan->scope[scope].nr_sets; i++) {
			struct set *set = &plan->scope[scope].sets[i];
			const char *pmu = set_pmu(&plan->scope[scope], set);
			const struct pmu_counters *lying = pmu ? pmu_counters_find_lying(&plan->pmus, pmu) : NULL;

			if (lying && !set->pinned && may_exceed(plan, lying))
				set->exclusive = true;
		}
}

/* --- the whole */

static int test_pmus(struct plan *plan, const struct planner *planner)
{
	const struct pmu_counters_list *known = planner->counting ? &planner->counting->pmus : NULL;

	return planner->env ? pmu_test_all(&plan->pmus, planner->env, planner->cpus, known) : 0;
}

/* plan: that is being made; NULL: none is. */
static struct engine_probe planner_probe(const struct planner *planner, enum scope scope, struct plan *plan)
{
	return (struct engine_probe){
		.scope = scope,
		.cpus = planner->cpus,
		.cgroup_fd = scope == SCOPE_CGROUP ? planner->cgroup_fd : -1,
		.no_cgroups = planner->no_cgroups,
		.privilege = planner->privilege,
		.counting = planner->counting ? &planner->counting->scope[scope] : NULL,
		.pmus = plan ? &plan->pmus : NULL,
		.tried = plan ? &plan->tried : NULL,
	};
}

static int make_scopes(struct plan *plan, const struct planner *planner, struct reason *why)
{
	_cleanup_(tried_release) struct tried tried = {};
	struct engine_probe probes[_SCOPE_MAX];
	int r = 0;

	/* A mistake in the config is found before anything is opened. */
	for (int scope = 0; scope < _SCOPE_MAX && r == 0; scope++) {
		probes[scope] = planner_probe(planner, (enum scope)scope, plan);
		r = plan_add_columns(&plan->scope[scope], &plan->groups[scope], (enum scope)scope);
		if (r == 0)
			r = check_names(&plan->scope[scope], why);
	}
	if (r == 0)
		r = test_pmus(plan, planner);
	for (int scope = 0; scope < _SCOPE_MAX && r == 0; scope++)
		r = try_columns(&plan->scope[scope], 0, plan_nr_shown(&plan->scope[scope]), planner->engines,
				&probes[scope]);
	if (r == 0) {
		engine_note_credited(plan);
		r = plan_align_credited(plan);
	}
	if (r == 0)
		r = try_hidden(plan, planner->engines, &probes[SCOPE_CPU]);
	for (int scope = 0; scope < _SCOPE_MAX && r == 0; scope++)
		r = reserve_pinned(plan, (enum scope)scope);
	for (int scope = 0; scope < _SCOPE_MAX && r == 0; scope++)
		r = open_pinned(&plan->scope[scope], &probes[scope], &tried);
	for (int scope = 0; scope < _SCOPE_MAX && r == 0; scope++)
		r = try_sets(&plan->scope[scope], &probes[scope]);
	if (r == 0)
		r = plan_add_counters(plan);
	if (r == 0)
		r = decide_credited(plan, planner->engines);
	if (r == 0)
		keep_apart(plan);
	return r == -ENOMEM ? reason_set(why, r, "out of memory") : r;
}

static void move_groups(struct group_list to[static _SCOPE_MAX], struct group_list from[static _SCOPE_MAX])
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		to[scope] = from[scope];
		from[scope] = (struct group_list){};
	}
}

int planner_make(const struct planner *planner, struct group_list groups[static _SCOPE_MAX], struct plan **ret,
		 struct reason *why)
{
	_cleanup_(plan_unrefp) struct plan *plan = plan_new();
	int r;

	if (!plan)
		return reason_set(why, -ENOMEM, "out of memory");
	move_groups(plan->groups, groups);
	r = make_scopes(plan, planner, why);
	if (r < 0) {
		move_groups(groups, plan->groups);
		return r;
	}
	*ret = steal_ptr(plan);
	return 0;
}

static bool column_recovers(const struct column *column, const struct planner *planner)
{
	const struct engine_probe probe = planner_probe(planner, column->scope, NULL);

	for (size_t i = 0; planner->engines[i]; i++) {
		const struct engine_probe asked = probe_by(&probe, planner->engines[i]);

		if (asked.engine->recovers(column, &asked))
			return true;
	}
	return false;
}

bool planner_recovers(const struct planner *planner, const struct plan *plan)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < plan->scope[scope].nr_columns; i++)
			if (plan->scope[scope].columns[i].may_recover &&
			    column_recovers(&plan->scope[scope].columns[i], planner))
				return true;
	return false;
}
