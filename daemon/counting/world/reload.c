/* SPDX-License-Identifier: MIT */

/* One count after another: a reload, and whatever else works like one. */

#include "counting/world/world.h"

#include "counting/alarm/capture-rules.h"
#include "counting/world/plan-config.h"
#include "counting/world/world-internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* --- preparing */

struct reload *reload_free(struct reload *reload)
{
	if (!reload)
		return NULL;
	count_free(reload->count);
	machine_free(reload->machine);
	config_free(reload->config);
	free(reload);
	return NULL;
}

/* The machine as it is now, and a count of the config on it. */
static int prepare_count(struct reload **ret, const struct monitor *monitor, const struct config *config,
			 struct reason *why)
{
	_cleanup_(reload_freep) struct reload *reload = calloc(1, sizeof(*reload));
	int r;

	if (!reload)
		return reason_set(why, -ENOMEM, "out of memory");
	r = machine_new(&reload->machine, config, &monitor->machine->topology, why);
	if (r >= 0)
		r = profiler_check(config, &reload->machine->env, why);
	if (r >= 0)
		r = capture_rules_check(config, &reload->machine->env, why);
	if (r >= 0)
		r = plan_config_count(&reload->count, config, reload->machine, monitor->count, monitor->closer, why);
	if (r >= 0)
		*ret = steal_ptr(reload);
	return r;
}

int monitor_prepare(const struct monitor *monitor, struct config *config, struct reload **ret, struct reason *why)
{
	int r = prepare_count(ret, monitor, config, why);

	if (r >= 0)
		(*ret)->config = config;
	return r;
}

int monitor_reapply(struct monitor *monitor, struct reason *why)
{
	struct reload *reload;
	int r = prepare_count(&reload, monitor, monitor->config, why);

	if (r >= 0)
		monitor_commit(monitor, reload, why);
	return r;
}

/* --- putting in force */

void monitor_use(struct monitor *monitor, struct machine *machine, struct config *config)
{
	monitor->machine = machine;
	monitor->config = config;
	monitor->hierarchy = machine->perf_hierarchy;
	history_set_max_size(&monitor->history, config->history_memory);
	container_finder_use(monitor->finder, config->container_files.items, config->container_files.nr);
	monitor->filter = (struct cgroup_filter){
		.include = config->include.items,
		.nr_include = config->include.nr,
		.exclude = config->exclude.items,
		.nr_exclude = config->exclude.nr,
	};
	monitor_explain_no_crediting(monitor);
	monitor->info = (struct machine_info){
		.version = PACKAGE_VERSION,
		.engine = count_engine_name(monitor->count),
		.identity = &machine->identity,
		.online = machine->online.nr,
		.privilege = &machine->privilege,
		.env = &machine->env,
		.mount = machine->mount.path ? &machine->mount : NULL,
		.no_cgroups = machine->no_cgroups.text,
		.part_of_tree = machine->part_of_tree.text,
		.no_crediting = monitor->no_crediting.text,
		.cpus_problem = machine->cpus_problem.text,
		.no_names = container_finder_problem(monitor->finder),
		.cpus = &machine->cpus,
		.no_profiles = monitor->profile_problem.text,
	};
}

/* The old machine and config are needed until their successors have taken over: they are freed with the reload. */
static void swap_with_reload(struct monitor *monitor, struct reload *reload)
{
	struct machine *machine = monitor->machine;
	struct config *config = monitor->config;

	monitor_use(monitor, reload->machine ? reload->machine : machine, reload->config ? reload->config : config);
	reload->machine = reload->machine ? machine : NULL;
	reload->config = reload->config ? config : NULL;
}

/* [daemon] sysfs may be another. */
static void watch_cpus_again(struct monitor *monitor, const struct config *before)
{
	if (strcmp(before->sysfs.text, monitor->config->sysfs.text) != 0) {
		cpu_watch_close(&monitor->cpu_watch);
		cpu_watch_open(&monitor->cpu_watch, monitor->config->sysfs.text);
	}
}

/* Do counted cgroups become unreachable with the new mount, without anybody having configured that? */
static bool loses_cgroups(const struct cgroup_mount *before, const struct cgroup_mount *after)
{
	if (!after->path)
		return true;
	return before->path &&
	       (before->version != after->version || (!cgroup_mount_is_part(before) && cgroup_mount_is_part(after)));
}

/* --- taking over */

/* lost: CPUs on which events had stopped. Those that are online must have been offline meanwhile. */
static void explain_lost_cpus(const struct monitor *monitor, const struct cpulist *lost, struct reason *why)
{
	_cleanup_(cpulist_release) struct cpulist back = {};
	_cleanup_(freep) char *now = NULL, *were = NULL;

	for (size_t i = 0; i < lost->nr; i++)
		if (cpulist_has(&monitor->machine->cpus, lost->cpu[i]))
			(void)cpulist_add(&back, lost->cpu[i]);
	if (back.nr == 0)
		return;
	were = cpulist_format(&back);
	now = cpulist_format(&monitor->machine->cpus);
	reason_set(why, 0,
		   "CPU %s has been offline, or an event does not start there: reopened, totals go on; CPUs counted "
		   "now: %s",
		   were ? were : "?", now ? now : "?");
}

/* Events that are open go on counting where the kernel has come to refuse new ones. */
static void explain_refusal(const struct monitor *monitor, struct reason *why)
{
	const struct privilege *privilege = &monitor->machine->privilege;

	if (why->text[0] || privilege_may_count_cpus(privilege) || plan_nr_counted(count_plan(monitor->count)) == 0)
		return;
	privilege_explain(privilege, why);
	reason_prefix(why, 0, "open events go on counting, and no new ones can be opened");
}

void monitor_take_over(struct monitor *monitor, struct count *from, struct reason *why)
{
	int r = count_takeover_begin(monitor->count, from);

	if (!why->text[0])
		explain_lost_cpus(monitor, count_lost(monitor->count), why);
	if (admission_move(&monitor->admission, monitor->count, from) < 0)
		r = -ENOMEM;
	if (count_takeover_end(monitor->count, from) < 0)
		r = -ENOMEM;
	count_free(from);
	if (r < 0)
		reason_set(why, 0, "out of memory: some totals restart at zero");
}

void monitor_commit(struct monitor *monitor, struct reload *reload, struct reason *why)
{
	struct count *from = monitor->count;
	const struct machine *next = reload->machine ? reload->machine : monitor->machine;

	assert(reload->count);
	why->text[0] = '\0';
	monitor_finish_profiles(monitor);
	monitor_keep_or_drop_tree(monitor, reload->machine);
	monitor->count = steal_ptr(reload->count);
	if (loses_cgroups(&monitor->machine->mount, &next->mount))
		count_hold_cgroups(monitor->count, from);
	swap_with_reload(monitor, reload);
	if (reload->config)
		watch_cpus_again(monitor, reload->config);
	/* The new machine may lack a CPU that is back before the list is next compared, which would look unchanged
	 * then. */
	monitor->cpus_changed |= cpu_watch_has_changed(&monitor->cpu_watch);
	if (monitor->tree)
		cgroup_tree_set_filter(monitor->tree, &monitor->filter);
	else if (monitor->machine->mount.path)
		(void)monitor_start_tree(monitor, why);
	monitor_take_over(monitor, from, why);
	explain_refusal(monitor, why);
	if (!admission_is_waiting(&monitor->admission))
		count_end_tries(monitor->count);
	monitor->latest = snapshot_unref(monitor->latest);
	monitor_follow_profiles(monitor);
	reload_free(reload);
}
