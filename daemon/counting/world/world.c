/* SPDX-License-Identifier: MIT */

#include "counting/world/world.h"

#include "base/util/clock.h"
#include "counting/alarm/capture-rules.h"
#include "counting/world/plan-config.h"
#include "counting/world/world-internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

int world_new(struct world **ret, struct config *config, struct session *restored, struct reason *why)
{
	_cleanup_(world_freep) struct world *world = calloc(1, sizeof(*world));
	_cleanup_(machine_freep) struct machine *machine = NULL;
	int r;

	if (!world)
		return reason_set(why, -ENOMEM, "out of memory");
	world->start_time = world_note_clocks(world).realtime;
	world->suspended = clock_steps_suspended(&world->clock);
	world->started_at = clock_monotonic_ns();
	history_init(&world->history, &world->clock, config->history_memory);
	/* Before the CPUs are read, so that a change from then on is noticed. */
	cpu_watch_open(&world->cpu_watch, config->sysfs.text);
	if (async_close_new(&world->closer) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	r = container_finder_new(&world->finder);
	if (r < 0)
		return reason_set(why, r, "names of containers can't be looked for: %s", strerror(-r));
	r = machine_new(&machine, config, restored ? session_topology(restored) : NULL, why);
	if (r < 0)
		return r;
	r = capture_rules_check(config, &machine->env, why);
	if (r < 0)
		return r;
	r = plan_config_session(&world->session, config, machine, restored, world->closer, why);
	if (r < 0)
		return r;

	world->generation = 1;
	admission_init(&world->admission, world->session);
	world->restored = restored;
	world_use(world, steal_ptr(machine), config);
	*ret = steal_ptr(world);
	return 0;
}

struct world *world_free(struct world *world)
{
	if (!world)
		return NULL;
	world_finish_commit(world, NULL);
	snapshot_unref(world->latest);
	history_release(&world->history);
	admission_release(&world->admission);
	container_finder_free(world->finder);
	cpu_watch_close(&world->cpu_watch);
	session_free(world->restored);
	session_free(world->session);
	async_close_free(world->closer);
	cgroup_tree_free(world->tree);
	cgroup_changes_release(&world->changes);
	machine_free(world->machine);
	config_free(world->config);
	cpu_busy_release(&world->busy);
	free(world);
	return NULL;
}

int world_start(struct world *world, struct reason *why)
{
	int r = 0;

	assert(!world->tree);
	why->text[0] = '\0';
	if (!world->restored && session_add_cpus(world->session) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	if (world->machine->mount.path)
		r = world_start_tree(world, why);
	if (!world->machine->mount.path && world->restored)
		session_suspend_cgroups(world->session, world->restored);
	if (r == 0 && world->restored)
		world_take_over(world, steal_ptr(world->restored), why);
	return r;
}

/* --- cgroups */

bool world_admit(struct world *world, uint64_t budget)
{
	bool more;

	if (world_is_committing(world)) {
		world_take_over_some(world, budget);
		return true;
	}
	more = !world_is_suspended(world) && admission_admit(&world->admission, budget);
	if (!more)
		session_end_tries(world->session);
	return more;
}

bool world_is_waiting(const struct world *world)
{
	return world_is_committing(world) || admission_is_waiting(&world->admission) ||
	       admission_wants_ranking(&world->admission);
}

/* --- reading */

/* As in snapshots: an event that stands still has no numbers. */
static bool is_stalled(const void *userdata, enum scope scope, size_t column)
{
	const char *why;

	return session_column_state(userdata, scope, column, &why) == EVENT_STALLED;
}

struct clock_times world_note_clocks(struct world *world)
{
	const struct clock_times now = clock_times_now();

	clock_steps_note(&world->clock, &now);
	return now;
}

static void take_history(struct world *world)
{
	const struct clock_times now = world_note_clocks(world);

	history_take(&world->history, session_totals(world->session), &now, is_stalled, world->session);
}

/* A CPU that has come back is opened by the next check (world_follow_machine()), maybe in the next interval. */
static void note_online(struct world *world, struct cpulist *online)
{
	world->cpus_changed |= cpu_watch_has_changed(&world->cpu_watch);
	if (cpulist_parse(online, cpu_watch_text(&world->cpu_watch)) == 0 && online->nr > 0)
		session_note_online(world->session, online);
}

void world_tick(struct world *world)
{
	_cleanup_(cpulist_release) struct cpulist online = {};
	const uint64_t *busy = NULL;

	world_finish_commit(world, NULL);
	/* /proc/stat is read only while some event is suspected to stand still. */
	if (session_is_in_doubt(world->session))
		busy = cpu_busy_update(&world->busy, &world->machine->cpus, world->config->procfs.text);
	else
		cpu_busy_forget(&world->busy);
	note_online(world, &online);
	session_tick(world->session, busy);
	take_history(world);
	world->latest = snapshot_unref(world->latest);
	world_retry(world);
}

/* The busy time of CPUs is an addition: a snapshot without it is none the worse. */
static void add_busy(struct world *world, struct snapshot *snapshot)
{
	const struct cpulist *cpus = &world->machine->cpus;
	_cleanup_(freep) uint64_t *busy = calloc(cpus->nr + 1, sizeof(*busy));

	if (busy && cpu_busy_read(busy, cpus, world->config->procfs.text) == 0)
		snapshot_set_busy(snapshot, cpus, busy);
}

/* Without memory for them, too, the snapshot is kept. */
static void add_rules(const struct world *world, struct snapshot *snapshot)
{
	struct capture_rule_info rule;

	for (size_t i = 0; world->rules && capture_rules_info(world->rules, i, &rule); i++)
		if (snapshot_add_rule(snapshot, &rule) < 0)
			return;
}

int world_snapshot(struct world *world, uint64_t max_age, const struct self_stats *own, struct snapshot **ret)
{
	const struct snapshot_options options = {
		.aggregate = world->config->cpu_aggregate,
		.created = world->config->created,
		.peaks = world->config->peaks,
	};
	struct self_stats self;
	int r;

	if (!world->latest)
		world_finish_commit(world, NULL);
	if (!world_is_committing(world) && clock_monotonic_ns() - session_stats(world->session).last_read > max_age) {
		world->latest = snapshot_unref(world->latest);
		session_read(world->session);
	}
	if (world->latest) {
		*ret = snapshot_ref(world->latest);
		return 0;
	}
	self = world_self_stats(world, own);
	r = snapshot_new(&world->latest, world->session, world->tree, &world->machine->topology, &options, &self);
	if (r < 0)
		return r;
	add_busy(world, world->latest);
	add_rules(world, world->latest);
	*ret = snapshot_ref(world->latest);
	return 1;
}

/* --- questions */

void world_show_rules(struct world *world, const struct capture_rules *rules)
{
	world->rules = rules;
}

void world_set_sampled(struct world *world, uint64_t time)
{
	session_set_sampled(world->session, time);
}

uint64_t world_generation(const struct world *world)
{
	return world->generation;
}

const struct config *world_config(const struct world *world)
{
	return world->config;
}

const struct machine *world_machine(const struct world *world)
{
	return world->machine;
}

const struct session *world_session(const struct world *world)
{
	return world->session;
}

const struct clock_steps *world_clock(const struct world *world)
{
	return &world->clock;
}

const struct history *world_history(const struct world *world)
{
	return &world->history;
}

const struct cgroup_tree *world_tree(const struct world *world)
{
	return world->tree;
}

const struct machine_info *world_info(const struct world *world)
{
	return &world->info;
}

uint64_t world_fd_limit(const struct world *world)
{
	return world->machine->privilege.fd_limit;
}

size_t world_nr_cgroups(const struct world *world, enum cgroup_status status)
{
	return world->admission.nr_status[status];
}
