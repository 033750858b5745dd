/* SPDX-License-Identifier: MIT */

#include "counting/world/plan-config.h"

#include "base/host/fd-budget.h"
#include "base/util/text.h"
#include "counting/engine/bpf/bpf.h"
#include "counting/session/planner.h"

#include <errno.h>
#include <string.h>

/* Events of a scope. Each is tried at the start, and each has series on every target. */
#define MAX_EVENTS 1000

static int parse_group(struct group *ret, const struct config_group *config, const struct event_env *env,
		       size_t max_events, struct reason *why)
{
	_cleanup_(freep) char *texts = strdup(config->events);
	_cleanup_(event_list_release) struct event_list events = {};
	char *cursor = texts, *text;

	if (!texts)
		return reason_set(why, -ENOMEM, "out of memory");
	while ((text = event_next_text(&cursor))) {
		int r = event_parse(&events, env, text, why);

		if (r == -ENOMEM)
			reason_set(why, r, "out of memory");
		if (r >= 0 && events.nr > max_events)
			r = reason_set(why, -EINVAL, "more than %d events per CPU, or per cgroup", MAX_EVENTS);
		if (r < 0)
			return reason_prefix(why, r, "%s:%u: group '%s'", config->events_place.file,
					     config->events_place.line, config->name);
	}

	ret->name = strdup(config->name);
	if (!ret->name)
		return reason_set(why, -ENOMEM, "out of memory");
	ret->alone = config->alone;
	ret->split = config->split;
	ret->events = events;
	events = (struct event_list){};
	return 0;
}

/* Appends the groups of these names. but: names of groups to be left out, where the groups are hidden ones; or NULL. On
 * failure the list has those before the one that failed. */
static int parse_groups(struct group_list *list, const struct config *config, const struct config_list *names,
			const struct config_list *but, const struct event_env *env, struct reason *why)
{
	struct group *groups = reallocarray(list->groups, list->nr + names->nr + 1, sizeof(*groups));
	size_t nr_events = 0;

	if (!groups)
		return reason_set(why, -ENOMEM, "out of memory");
	list->groups = groups;
	for (size_t i = 0; i < names->nr; i++) {
		const struct config_group *group = config_find_group(config, names->items[i]);
		int r;

		if (but && config_list_has(but, names->items[i], strlen(names->items[i])))
			continue;
		if (!group)
			return reason_set(why, -EINVAL, "%s:%u: there is no [group \"%s\"]", names->places[i].file,
					  names->places[i].line, names->items[i]);
		groups[list->nr] = (struct group){ .hidden = but };
		r = parse_group(&groups[list->nr], group, env, MAX_EVENTS - nr_events, why);
		if (r < 0)
			return r;
		nr_events += groups[list->nr++].events.nr;
	}
	return 0;
}

static struct planner planner_for(const struct machine *machine, int cgroup_fd, const char *no_cgroups,
				  const struct plan *in_force)
{
	return (struct planner){
		.engines = machine->credits ? planner_all_engines() : perf_alone,
		.cpus = &machine->cpus,
		.cgroup_fd = cgroup_fd,
		.no_cgroups = no_cgroups,
		.privilege = &machine->privilege,
		.env = &machine->env,
		.counting = in_force,
	};
}

static int plan_groups(struct plan **ret, const struct config *config, const struct machine *machine,
		       const struct session *in_force, struct reason *why)
{
	struct group_list groups[_SCOPE_MAX] = {};
	struct reason no_cgroups = {};
	_cleanup_(closep) int cgroup_fd = machine_open_cgroups(machine, &no_cgroups);
	const struct planner planner =
		planner_for(machine, cgroup_fd, no_cgroups.text, in_force ? session_plan(in_force) : NULL);
	int r;

	r = parse_groups(&groups[SCOPE_CPU], config, &config->cpu_groups, NULL, &machine->env, why);
	if (r == 0)
		r = parse_groups(&groups[SCOPE_CGROUP], config, &config->cgroup_groups, NULL, &machine->env, why);
	/* What is credited to cgroups has to be open on CPUs. */
	if (r == 0 && machine->credits)
		r = parse_groups(&groups[SCOPE_CPU], config, &config->cgroup_groups, &config->cpu_groups, &machine->env,
				 why);
	if (r == 0 && in_force)
		session_retain_events(in_force, groups);
	if (r == 0)
		r = planner_make(&planner, groups, ret, why);
	for (int scope = 0; r < 0 && scope < _SCOPE_MAX; scope++)
		group_list_release(&groups[scope]);
	return r == -EEXIST ? -EINVAL : r;
}

int plan_config_session(struct session **ret, const struct config *config, const struct machine *machine,
			const struct session *in_force, struct async_close *closer, struct reason *why)
{
	_cleanup_(plan_unrefp) struct plan *plan = NULL;
	const struct session_options options = {
		.cgroup_per_cpu = config->cgroup_per_cpu,
		.linger = config->linger,
		.cgroup_max = config->cgroup_max,
		.switch_budget = config->switch_budget < PPM ? config->switch_budget : 0,
		.sysroot = config->sysfs.text,
		.excluded = &machine->excluded,
		.topology = &machine->topology,
		.closer = closer,
		.fd_reserve = fd_budget_reserve(machine->privilege.fd_limit, config->max_connections),
	};
	int r;

	/* The kernel takes the same lock to open an event as to close a tracepoint's last one, which is slow. */
	async_close_pause(closer);
	r = plan_groups(&plan, config, machine, in_force, why);
	async_close_resume(closer);
	if (r == 0 && session_new(ret, plan, &machine->cpus, &machine->privilege, &options) < 0)
		r = reason_set(why, -ENOMEM, "out of memory");
	bpf_end_trial();
	return r;
}

bool plan_config_recovers(const struct plan *plan, const struct machine *machine)
{
	_cleanup_(closep) int cgroup_fd = -1;
	struct reason no_cgroups = {};
	struct planner planner;

	if (!plan_may_recover(plan))
		return false;
	cgroup_fd = machine_open_cgroups(machine, &no_cgroups);
	planner = planner_for(machine, cgroup_fd, no_cgroups.text, NULL);
	return planner_recovers(&planner, plan);
}
