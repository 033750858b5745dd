/* SPDX-License-Identifier: MIT */

/* Changes that nobody announces: CPUs come and go, the machine was suspended, the sysctl is written, room for failed
 * events comes back, the BPF engine can't be loaded although it could be tried. */

#include "counting/world/world.h"

#include "base/util/clock.h"
#include "counting/engine/bpf/bpf.h"
#include "counting/world/plan-config.h"
#include "counting/world/world-internal.h"

/* How often failed events are retried, and the tree is read again while it can't be watched completely. */
#define RETRY_NS 10000000000U

/* Clocks that disagree by less are no suspend. */
#define RESUME_NS ((uint64_t)NS_PER_S)

/* How often the BPF engine is tried again, which had to be given up. */
#define ENGINE_RETRY_NS 60000000000U

/* Retries events that were denied. Open ones go on counting, whatever the level is now. */
static void follow_sysctl(struct monitor *monitor, struct reason *news)
{
	uint64_t now = clock_monotonic_ns();

	if (!privilege_has_changed(&monitor->machine->privilege, monitor->config->procfs.text) ||
	    now < monitor->sysctl_retry_at)
		return;
	if (monitor_reapply(monitor, news) < 0) {
		monitor->sysctl_retry_at = now + RETRY_NS;
		reason_prefix(news, 0, "kernel.perf_event_paranoid has changed, but the config can't be applied again");
		return;
	}
	if (!news->text[0])
		reason_set(news, 0, "kernel.perf_event_paranoid is now %d: retried the events that were denied",
			   monitor->machine->privilege.paranoid);
}

/* A CPU that went and came back between two checks of the list shows by its events, which have stopped. An event that
 * does not start looks the same, so reopening for that reason alone is limited in rate. */
static void follow_cpus(struct monitor *monitor, struct reason *news)
{
	_cleanup_(cpulist_release) struct cpulist lost = {};
	_cleanup_(freep) char *text = NULL;
	uint64_t now = clock_monotonic_ns();

	monitor->cpus_changed |= cpu_watch_has_changed(&monitor->cpu_watch);
	(void)count_find_lost(monitor->count, &lost);
	if (!monitor->cpus_changed && (lost.nr == 0 || now < monitor->cpus_opened_at + RETRY_NS))
		return;
	monitor->cpus_opened_at = now;
	monitor->cpus_changed = false;
	if (monitor_reapply(monitor, news) < 0) {
		monitor->cpus_changed = true;
		reason_prefix(news, 0, "CPUs have come or gone, but the config can't be applied again yet");
		return;
	}
	if (news->text[0])
		return;
	text = cpulist_format(&monitor->machine->cpus);
	reason_set(news, 0, "CPUs have come or gone: counted now: %s", text ? text : "?");
}

/* A machine that was suspended may go on with another PMU, or on another host: what fired need not fire any more
 * (counting/event/firing.h). */
static void follow_resume(struct monitor *monitor, struct reason *news)
{
	uint64_t suspended = clock_steps_suspended(&monitor->clock);

	if (suspended < monitor->suspended + RESUME_NS)
		return;
	monitor->suspended = suspended;
	if (monitor_reapply(monitor, news) < 0)
		reason_prefix(news, 0, "the machine was suspended, and the config can't be applied again");
	else if (!news->text[0])
		reason_set(news, 0, "the machine was suspended: tried the events again");
}

/* Loading the BPF programs can fail where trying them has not, for want of memory: then perf counts the cgroups, until
 * another trial succeeds. */
static void follow_engine(struct monitor *monitor, struct reason *news)
{
	const struct config *config = monitor->config;
	uint64_t now = clock_monotonic_ns();
	bool credits = monitor->machine->credits;
	struct reason why;

	if ((!credits && monitor->engine_retry_at == 0) || now < monitor->engine_retry_at ||
	    (bpf_is_available(config->cgroup_max, config->sysfs.text, &why) >= 0) == credits)
		return;
	monitor->engine_retry_at = now + ENGINE_RETRY_NS;
	if (monitor_reapply(monitor, news) < 0) {
		reason_prefix(news, 0, "the engine of cgroups has to change, but the config can't be applied again");
		return;
	}
	if (!news->text[0])
		reason_set(news, 0, "%s",
			   monitor->machine->credits ? "cgroups are counted by crediting again" :
						       monitor->machine->no_crediting.text);
}

void monitor_follow_machine(struct monitor *monitor, struct reason *news)
{
	news->text[0] = '\0';
	/* Reopening would close the events of cgroups whose mount may be back in a moment. */
	if (monitor_is_suspended(monitor))
		return;
	follow_cpus(monitor, news);
	if (!news->text[0])
		follow_resume(monitor, news);
	if (!news->text[0])
		follow_sysctl(monitor, news);
	if (!news->text[0])
		follow_engine(monitor, news);
	if (!news->text[0])
		monitor_follow_sample_rate(monitor, news);
}

/* Events may have failed because the PMU was busy, or files or memory were short. Where one can be opened now, the
 * config is applied again. */
static void retry_events(struct monitor *monitor)
{
	const struct plan *plan = count_plan(monitor->count);
	_cleanup_(reload_freep) struct reload *reload = NULL;
	struct reason why;

	if (!plan_config_recovers(plan, monitor->machine))
		return;
	reload = calloc(1, sizeof(*reload));
	if (!reload ||
	    plan_config_count(&reload->count, monitor->config, monitor->machine, monitor->count, monitor->closer,
			      &why) < 0 ||
	    plan_nr_counted(count_plan(reload->count)) <= plan_nr_counted(plan))
		return;
	monitor_commit(monitor, steal_ptr(reload), &why);
}

void monitor_retry(struct monitor *monitor)
{
	uint64_t now = clock_monotonic_ns();

	if (now - monitor->retried_at < RETRY_NS || monitor_is_suspended(monitor))
		return;
	monitor->retried_at = now;
	retry_events(monitor);
	count_mend_cpus(monitor->count);
	if (!monitor->tree)
		return;
	admission_retry(&monitor->admission);
	if (cgroup_tree_is_incomplete(monitor->tree))
		cgroup_tree_rescan(monitor->tree);
}
