/* SPDX-License-Identifier: MIT */

/* Figures about the daemon itself, and one line on what is counted. */

#include "counting/world/world.h"

#include "base/host/fd-budget.h"
#include "base/host/process-usage.h"
#include "base/util/clock.h"
#include "counting/world/world-internal.h"

#include <stdio.h>

size_t world_needed_fds(const struct world *world)
{
	return admission_needed_fds(&world->admission) + fd_budget_reserve(UINT64_MAX, world->config->max_connections);
}

struct self_stats world_self_stats(const struct world *world, const struct self_stats *own)
{
	struct session_stats stats = session_stats(world->session);
	struct cgroup_tree_stats tree = {};
	struct process_usage usage;
	struct self_stats self = own ? *own : (struct self_stats){};

	if (world->tree)
		tree = cgroup_tree_stats(world->tree);
	self.start_time = world->start_time;
	self.uptime = clock_monotonic_ns() - world->started_at;
	self.interval = world->config->interval;
	self.reads = stats.reads;
	self.read_ns = stats.read_ns;
	self.read_errors = stats.read_errors;
	self.backwards = stats.backwards;
	self.lies_time = stats.lies[LIE_TIME];
	self.lies_cycles = stats.lies[LIE_CYCLES];
	self.lies_child = stats.lies[LIE_CHILD];
	self.lies_still = stats.lies[LIE_STILL];
	self.fds = stats.fds;
	self.fd_limit = world->machine->privilege.fd_limit;
	self.needed_fds = world_needed_fds(world);
	self.cpus = stats.cpus;
	self.cpus_offline = stats.cpus_offline;
	self.cgroups_counted = world->admission.nr_status[CGROUP_COUNTED];
	self.cgroups_lingering = stats.lingering;
	self.cgroups_pushed_out = stats.pushed_out;
	self.cgroups_excluded = world->admission.nr_status[CGROUP_EXCLUDED];
	self.cgroups_over_max = world->admission.nr_status[CGROUP_OVER_MAX];
	self.cgroups_over_fds = world->admission.nr_status[CGROUP_OVER_FDS];
	self.cgroups_failed = world->admission.nr_status[CGROUP_FAILED];
	self.cgroups_waiting = world->admission.nr_status[CGROUP_WAITING];
	self.cgroups_unlisted = tree.unlisted;
	self.cgroups_missed = world->admission.missed + tree.missed;
	self.watches = tree.watches;
	self.watches_missing = tree.watches_missing;
	self.inotify_overflows = tree.overflows;
	self.rescans = tree.rescans;
	self.history_bytes = history_size(&world->history);
	self.history_targets = history_stats(&world->history).nr_rows;
	self.history_left_out = history_stats(&world->history).left_out;
	usage = process_usage_read(self.fds);
	self.cpu_ns = usage.cpu_ns;
	self.resident_bytes = usage.resident_bytes;
	self.virtual_bytes = usage.virtual_bytes;
	self.open_fds = usage.open_fds;
	return self;
}

/* The number of a scope's events that are counted, if only in some cgroups. *lack becomes the reason of one that is
 * not: of the first that is denied, or else of the first. */
static size_t count_counting_events(const struct world *world, enum scope scope, const char **lack, bool *denied)
{
	size_t counting = 0;

	for (size_t i = 0; i < plan_nr_shown(&session_plan(world->session)->scope[scope]); i++) {
		const char *why;
		enum event_state state = session_column_state(world->session, scope, i, &why);

		if (state == EVENT_OK || state == EVENT_MULTIPLEXED ||
		    session_column_is_partial(world->session, scope, i)) {
			counting++;
			continue;
		}
		if (!*lack || (state == EVENT_DENIED && !*denied))
			*lack = why;
		*denied |= state == EVENT_DENIED;
	}
	return counting;
}

/* Where all cgroups are left out: the reason of the first. NULL where any is counted or waiting. */
static const char *find_reason_left_out(const struct world *world)
{
	const struct cgroup *cgroup;

	if (!world->tree || world->admission.nr_status[CGROUP_COUNTED] || world->admission.nr_status[CGROUP_WAITING])
		return NULL;
	TAILQ_FOREACH(cgroup, cgroup_tree_all(world->tree), in_all)
		if (cgroup->why)
			return cgroup->why;
	return NULL;
}

/* The events of cgroups that are counted, by how. */
struct crediting {
	size_t nr, credited, passed_over;
	const char *why; /* of the first that was passed over */
};

static struct crediting count_credited(const struct scope_plan *plan)
{
	struct crediting ret = {};

	for (size_t i = 0; i < plan_nr_shown(plan); i++) {
		const struct column *column = &plan->columns[i];

		if (column->set == NO_SET)
			continue;
		ret.nr++;
		ret.credited += plan->sets[column->set].credited;
		if (column->passed_over && ret.passed_over++ == 0)
			ret.why = column->passed_over;
	}
	return ret;
}

void world_explain_no_crediting(struct world *world)
{
	const struct machine *machine = world->machine;
	struct crediting crediting = count_credited(&session_plan(world->session)->scope[SCOPE_CGROUP]);

	world->no_crediting = machine->no_crediting;
	if (machine->credits && crediting.passed_over > 0)
		reason_set(&world->no_crediting, 0,
			   "%zu of %zu events of cgroups are counted by perf events of their own, and not by "
			   "crediting: %s",
			   crediting.passed_over, crediting.nr, crediting.why);
}

const char *world_no_crediting(const struct world *world)
{
	return world->no_crediting.text;
}

void world_describe_crediting(const struct world *world, struct reason *ret)
{
	struct crediting crediting = count_credited(&session_plan(world->session)->scope[SCOPE_CGROUP]);
	size_t others = crediting.nr - crediting.credited - crediting.passed_over;

	ret->text[0] = '\0';
	if (!world->machine->credits || crediting.nr == 0)
		return;
	if (crediting.credited == crediting.nr)
		reason_set(ret, 0, "CPUs' events are credited to them at switches (engine bpf)");
	else if (crediting.credited > 0)
		reason_set(ret, 0,
			   "CPUs' events are credited to them at switches (engine bpf): %zu of %zu events; the others "
			   "are counted by perf events of each cgroup",
			   crediting.credited, crediting.nr);
	else
		reason_set(ret, 0, "they are counted by perf events of their own%s",
			   others == crediting.nr ? ", as tracepoints, probes and breakpoints are" : "");
}

size_t world_nr_incomplete(const struct world *world)
{
	const struct cgroup *cgroup;
	size_t nr = 0;

	if (world->tree)
		TAILQ_FOREACH(cgroup, cgroup_tree_all(world->tree), in_all)
			nr += cgroup->status == CGROUP_COUNTED && cgroup->why;
	return nr;
}

/* ", of which N lack some"; "" where none does. Cgroups are looked at only if an event is missing in some. */
static void describe_incomplete(const struct world *world, char *ret, size_t size)
{
	size_t nr = 0;

	for (size_t i = 0; i < plan_nr_shown(&session_plan(world->session)->scope[SCOPE_CGROUP]) && !nr; i++)
		if (session_column_is_partial(world->session, SCOPE_CGROUP, i))
			nr = world_nr_incomplete(world);
	ret[0] = '\0';
	if (nr)
		(void)snprintf(ret, size, ", of which %zu lack some", nr);
}

bool world_describe(const struct world *world, struct reason *ret)
{
	const struct plan *plan = session_plan(world->session);
	const char *lack = NULL;
	char incomplete[64];
	bool denied = false;
	size_t on_cpus = count_counting_events(world, SCOPE_CPU, &lack, &denied);
	size_t in_cgroups = count_counting_events(world, SCOPE_CGROUP, &lack, &denied);

	if (on_cpus == 0 && in_cgroups > 0)
		lack = find_reason_left_out(world);
	if (on_cpus == 0 && (in_cgroups == 0 || lack)) {
		reason_set(ret, 0, "nothing: %s", lack ? lack : "the config names no event");
		return false;
	}
	describe_incomplete(world, incomplete, sizeof(incomplete));
	reason_set(ret, 0, "%zu of %zu events on %zu CPUs, %zu of %zu events in %zu of %zu cgroups%s", on_cpus,
		   plan_nr_shown(&plan->scope[SCOPE_CPU]), session_stats(world->session).cpus, in_cgroups,
		   plan_nr_shown(&plan->scope[SCOPE_CGROUP]), world->admission.nr_status[CGROUP_COUNTED],
		   world->tree ? cgroup_tree_size(world->tree) : 0, incomplete);
	return true;
}
