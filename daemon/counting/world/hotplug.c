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

/* Retries events that were denied. Open ones go on counting, whatever the level is now. */
static void follow_sysctl(struct world *world, struct reason *news)
{
	uint64_t now = clock_monotonic_ns();

	if (!privilege_has_changed(&world->machine->privilege, world->config->procfs.text) ||
	    now < world->sysctl_retry_at)
		return;
	if (world_reapply(world, news) < 0) {
		world->sysctl_retry_at = now + RETRY_NS;
		reason_prefix(news, 0, "kernel.perf_event_paranoid has changed, but the config can't be applied again");
		return;
	}
	if (!news->text[0])
		reason_set(news, 0, "kernel.perf_event_paranoid is now %d: retried the events that were denied",
			   world->machine->privilege.paranoid);
}

/* A CPU that went and came back between two checks of the list shows by its events, which have stopped. An event that
 * does not start looks the same, so reopening for that reason alone is limited in rate. */
static void follow_cpus(struct world *world, struct reason *news)
{
	_cleanup_(cpulist_release) struct cpulist lost = {};
	_cleanup_(freep) char *text = NULL;
	uint64_t now = clock_monotonic_ns();

	world->cpus_changed |= cpu_watch_has_changed(&world->cpu_watch);
	(void)session_find_lost(world->session, &lost);
	if (!world->cpus_changed && (lost.nr == 0 || now < world->cpus_opened_at + RETRY_NS))
		return;
	world->cpus_opened_at = now;
	world->cpus_changed = false;
	if (world_reapply(world, news) < 0) {
		world->cpus_changed = true;
		reason_prefix(news, 0, "CPUs have come or gone, but the config can't be applied again yet");
		return;
	}
	if (news->text[0])
		return;
	text = cpulist_format(&world->machine->cpus);
	reason_set(news, 0, "CPUs have come or gone: counted now: %s", text ? text : "?");
}

/* A machine that was suspended may go on with another PMU, or on another host: what fired need not fire any more
 * (counting/event/firing.h). */
static void follow_resume(struct world *world, struct reason *news)
{
	uint64_t suspended = clock_steps_suspended(&world->clock);

	if (suspended < world->suspended + RESUME_NS)
		return;
	world->suspended = suspended;
	if (world_reapply(world, news) < 0)
		reason_prefix(news, 0, "the machine was suspended, and the config can't be applied again");
	else if (!news->text[0])
		reason_set(news, 0, "the machine was suspended: tried the events again");
}

/* Loading the BPF programs can fail where trying them has not, for want of memory: then perf counts the cgroups, until
 * another trial succeeds. */
static void follow_engine(struct world *world, struct reason *news)
{
	const struct config *config = world->config;
	uint64_t now = clock_monotonic_ns();
	bool credits = world->machine->credits;
	struct reason why;

	if ((!credits && world->engine_retry_at == 0) || now < world->engine_retry_at ||
	    (bpf_is_available(config->cgroup_max, config->sysfs.text, &why) >= 0) == credits)
		return;
	world->engine_retry_at = now + ENGINE_RETRY_NS;
	if (world_reapply(world, news) < 0) {
		reason_prefix(news, 0, "the engine of cgroups has to change, but the config can't be applied again");
		return;
	}
	if (!news->text[0])
		reason_set(news, 0, "%s",
			   world->machine->credits ? "cgroups are counted by crediting again" :
						     world->machine->no_crediting.text);
}

void world_follow_machine(struct world *world, struct reason *news)
{
	news->text[0] = '\0';
	world_finish_commit(world, NULL);
	if (world->takeover.has_news) {
		world_finish_commit(world, news);
		return;
	}
	/* Reopening would close the events of cgroups whose mount may be back in a moment. */
	if (world_is_suspended(world))
		return;
	follow_cpus(world, news);
	if (!news->text[0])
		follow_resume(world, news);
	if (!news->text[0])
		follow_sysctl(world, news);
	if (!news->text[0])
		follow_engine(world, news);
	if (!world_is_committing(world))
		world_retry(world);
}

/* Events may have failed because the PMU was busy, or files or memory were short. Where one can be opened now, the
 * config is applied again. */
static void retry_events(struct world *world)
{
	const struct plan *plan = session_plan(world->session);
	_cleanup_(reload_freep) struct reload *reload = NULL;
	struct reason why;

	if (!plan_config_recovers(plan, world->machine))
		return;
	reload = calloc(1, sizeof(*reload));
	if (!reload ||
	    plan_config_session(&reload->session, world->config, world->machine, world->session, world->closer, &why) <
		    0 ||
	    plan_nr_counted(session_plan(reload->session)) <= plan_nr_counted(plan))
		return;
	world_begin_commit(world, steal_ptr(reload));
}

void world_retry(struct world *world)
{
	uint64_t now = clock_monotonic_ns();

	if (now - world->retried_at < RETRY_NS || world_is_suspended(world))
		return;
	world->retried_at = now;
	session_mend_cpus(world->session);
	if (world->tree) {
		admission_retry(&world->admission);
		if (cgroup_tree_is_incomplete(world->tree))
			cgroup_tree_rescan(world->tree);
	}
	retry_events(world);
}
