/* SPDX-License-Identifier: MIT */

#include "counting/world/world.h"

#include "base/util/clock.h"
#include "counting/alarm/capture-rules.h"
#include "counting/world/plan-config.h"
#include "counting/world/world-internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

int monitor_new(struct monitor **ret, struct config *config, struct count *restored, struct reason *why)
{
	_cleanup_(monitor_freep) struct monitor *monitor = calloc(1, sizeof(*monitor));
	_cleanup_(machine_freep) struct machine *machine = NULL;
	int r;

	if (!monitor)
		return reason_set(why, -ENOMEM, "out of memory");
	monitor->start_time = monitor_note_clocks(monitor).realtime;
	monitor->suspended = clock_steps_suspended(&monitor->clock);
	monitor->started_at = clock_monotonic_ns();
	history_init(&monitor->history, &monitor->clock, config->history_memory);
	/* Before the CPUs are read, so that a change from then on is noticed. */
	cpu_watch_open(&monitor->cpu_watch, config->sysfs.text);
	if (async_close_new(&monitor->closer) < 0 || capturer_new(&monitor->capturer) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	r = container_finder_new(&monitor->finder);
	if (r < 0)
		return reason_set(why, r, "names of containers can't be looked for: %s", strerror(-r));
	r = machine_new(&machine, config, restored ? count_topology(restored) : NULL, why);
	if (r < 0)
		return r;
	r = profiler_check(config, &machine->env, why);
	if (r >= 0)
		r = capture_rules_check(config, &machine->env, why);
	if (r < 0)
		return r;
	r = plan_config_count(&monitor->count, config, machine, restored, monitor->closer, why);
	if (r < 0)
		return r;

	admission_init(&monitor->admission, monitor->count);
	monitor->restored = restored;
	monitor->sampled = restored ? count_sampled(restored) : 0;
	monitor_use(monitor, steal_ptr(machine), config);
	*ret = steal_ptr(monitor);
	return 0;
}

struct monitor *monitor_free(struct monitor *monitor)
{
	if (!monitor)
		return NULL;
	snapshot_unref(monitor->latest);
	history_release(&monitor->history);
	capturer_free(monitor->capturer);
	profiler_free(monitor->profiler);
	admission_release(&monitor->admission);
	container_finder_free(monitor->finder);
	cpu_watch_close(&monitor->cpu_watch);
	count_free(monitor->restored);
	count_free(monitor->count);
	async_close_free(monitor->closer);
	cgroup_tree_free(monitor->tree);
	machine_free(monitor->machine);
	config_free(monitor->config);
	cpu_busy_release(&monitor->busy);
	free(monitor);
	return NULL;
}

int monitor_start(struct monitor *monitor, struct reason *why)
{
	int r = 0;

	assert(!monitor->tree);
	why->text[0] = '\0';
	if (!monitor->restored && count_add_cpus(monitor->count) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	if (monitor->machine->mount.path)
		r = monitor_start_tree(monitor, why);
	if (!monitor->machine->mount.path && monitor->restored)
		count_hold_cgroups(monitor->count, monitor->restored);
	if (r == 0 && monitor->restored)
		monitor_take_over(monitor, steal_ptr(monitor->restored), why);
	monitor_follow_profiles(monitor);
	return r;
}

/* --- cgroups */

bool monitor_admit(struct monitor *monitor, uint64_t budget)
{
	bool more = !monitor_is_suspended(monitor) && admission_admit(&monitor->admission, budget);

	if (!more)
		count_end_tries(monitor->count);
	return more;
}

bool monitor_is_waiting(const struct monitor *monitor)
{
	return admission_is_waiting(&monitor->admission) || admission_wants_ranking(&monitor->admission);
}

/* --- reading */

/* As in snapshots: an event that stands still has no numbers. */
static bool is_stalled(const void *userdata, enum scope scope, size_t column)
{
	const char *why;

	return count_column_state(userdata, scope, column, &why) == EVENT_STALLED;
}

struct clock_times monitor_note_clocks(struct monitor *monitor)
{
	const struct clock_times now = clock_times_now();

	clock_steps_note(&monitor->clock, &now);
	return now;
}

static void take_history(struct monitor *monitor)
{
	const struct clock_times now = monitor_note_clocks(monitor);

	history_take(&monitor->history, count_totals(monitor->count), &now, is_stalled, monitor->count);
}

/* A CPU that has come back is opened by the next check (monitor_follow_machine()), maybe in the next interval. */
static void note_online(struct monitor *monitor, struct cpulist *online)
{
	monitor->cpus_changed |= cpu_watch_has_changed(&monitor->cpu_watch);
	if (cpulist_parse(online, monitor->cpu_watch.text) == 0 && online->nr > 0)
		count_note_online(monitor->count, online);
}

void monitor_tick(struct monitor *monitor)
{
	_cleanup_(cpulist_release) struct cpulist online = {};
	const uint64_t *busy = NULL;

	monitor_retry(monitor);
	/* /proc/stat is read only while some event is suspected to stand still. */
	if (count_is_in_doubt(monitor->count))
		busy = cpu_busy_update(&monitor->busy, &monitor->machine->cpus, monitor->config->procfs.text);
	else
		cpu_busy_forget(&monitor->busy);
	note_online(monitor, &online);
	count_tick(monitor->count, busy);
	take_history(monitor);
	monitor_note_sampled(monitor);
	monitor_tick_captures(monitor);
	monitor->latest = snapshot_unref(monitor->latest);
}

/* The busy time of CPUs is an addition: a snapshot without it is none the worse. */
static void add_busy(struct monitor *monitor, struct snapshot *snapshot)
{
	const struct cpulist *cpus = &monitor->machine->cpus;
	_cleanup_(freep) uint64_t *busy = calloc(cpus->nr + 1, sizeof(*busy));

	if (busy && cpu_busy_read(busy, cpus, monitor->config->procfs.text) == 0)
		snapshot_set_busy(snapshot, cpus, busy);
}

/* Without memory for them, too, the snapshot is kept. */
static void add_rules(const struct monitor *monitor, struct snapshot *snapshot)
{
	struct capture_rule_info rule;

	for (size_t i = 0; capturer_rule(monitor->capturer, i, &rule); i++)
		if (snapshot_add_rule(snapshot, &rule) < 0)
			return;
}

int monitor_snapshot(struct monitor *monitor, uint64_t max_age, const struct self_stats *own, struct snapshot **ret)
{
	const struct snapshot_options options = {
		.aggregate = monitor->config->cpu_aggregate,
		.created = monitor->config->created,
		.peaks = monitor->config->peaks,
	};
	struct self_stats self;
	int r;

	if (clock_monotonic_ns() - count_stats(monitor->count).last_read > max_age) {
		monitor->latest = snapshot_unref(monitor->latest);
		monitor_retry(monitor);
		count_read(monitor->count);
	}
	if (monitor->latest) {
		*ret = snapshot_ref(monitor->latest);
		return 0;
	}
	self = monitor_self_stats(monitor, own);
	r = snapshot_new(&monitor->latest, monitor->count, monitor->tree, &monitor->machine->topology, &options, &self);
	if (r < 0)
		return r;
	add_busy(monitor, monitor->latest);
	add_rules(monitor, monitor->latest);
	*ret = snapshot_ref(monitor->latest);
	return 1;
}

/* --- questions */

const struct config *monitor_config(const struct monitor *monitor)
{
	return monitor->config;
}

const struct machine *monitor_machine(const struct monitor *monitor)
{
	return monitor->machine;
}

const struct count *monitor_count(const struct monitor *monitor)
{
	return monitor->count;
}

const struct clock_steps *monitor_clock(const struct monitor *monitor)
{
	return &monitor->clock;
}

const struct history *monitor_history(const struct monitor *monitor)
{
	return &monitor->history;
}

const struct cgroup_tree *monitor_tree(const struct monitor *monitor)
{
	return monitor->tree;
}

const struct machine_info *monitor_info(const struct monitor *monitor)
{
	return &monitor->info;
}

uint64_t monitor_fd_limit(const struct monitor *monitor)
{
	return monitor->machine->privilege.fd_limit;
}

size_t monitor_nr_cgroups(const struct monitor *monitor, enum cgroup_status status)
{
	return monitor->admission.nr_status[status];
}
