/* SPDX-License-Identifier: MIT */

/* One session after another: a reload, and whatever else works like one. */

#include "counting/world/world.h"

#include "base/util/clock.h"
#include "counting/alarm/capture-rules.h"
#include "counting/engine/bpf/bpf.h"
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
	session_free(reload->session);
	machine_free(reload->machine);
	config_free(reload->config);
	free(reload);
	return NULL;
}

/* The machine as it is now, and a session of the config on it. */
static int prepare_count(struct reload **ret, const struct world *world, const struct config *config,
			 struct reason *why)
{
	_cleanup_(reload_freep) struct reload *reload = calloc(1, sizeof(*reload));
	int r;

	if (!reload)
		return reason_set(why, -ENOMEM, "out of memory");
	r = machine_new(&reload->machine, config, &world->machine->topology, why);
	if (r >= 0)
		r = capture_rules_check(config, &reload->machine->env, why);
	if (r >= 0)
		r = plan_config_session(&reload->session, config, reload->machine, world->session, world->closer, why);
	if (r >= 0)
		*ret = steal_ptr(reload);
	return r;
}

int world_prepare(struct world *world, struct config *config, struct reload **ret, struct reason *why)
{
	int r;

	/* A change of the machine may be under way. */
	world_finish_commit(world, NULL);
	r = prepare_count(ret, world, config, why);

	if (r >= 0)
		(*ret)->config = config;
	return r;
}

const struct machine *reload_machine(const struct reload *reload)
{
	return reload->machine;
}

struct bpf_load *world_find_load(const struct world *world, const struct config *config, const struct reload *prepared)
{
	if (prepared)
		return bpf_load_to_take_over(session_find_engine(prepared->session, engine_bpf),
					     session_find_engine(world->session, engine_bpf),
					     prepared->machine->mount.version == 1);
	return machine_is_to_credit(world->machine, config) ? bpf_load_to_try(config->cgroup_max, config->sysfs.text) :
							      NULL;
}

void world_use_load(struct world *world, struct bpf_load *load)
{
	/* Where the engine was in force, it is tried again when there may be memory. */
	if (bpf_load_use(load) < 0 && world->machine->credits)
		world->engine_retry_at = clock_monotonic_ns() + ENGINE_RETRY_NS;
	bpf_load_free(load);
}

int world_reapply(struct world *world, struct reason *why)
{
	struct reload *reload;
	int r = prepare_count(&reload, world, world->config, why);

	if (r < 0)
		return r;
	world_begin_commit(world, reload);
	*why = world->takeover.news;
	return 0;
}

/* --- putting in force */

void world_use(struct world *world, struct machine *machine, struct config *config)
{
	world->machine = machine;
	world->config = config;
	world->hierarchy = machine->perf_hierarchy;
	history_set_max_size(&world->history, config->history_memory);
	container_finder_use(world->finder, config->container_files.items, config->container_files.nr);
	world->filter = (struct cgroup_filter){
		.include = config->include.items,
		.nr_include = config->include.nr,
		.exclude = config->exclude.items,
		.nr_exclude = config->exclude.nr,
	};
	world_explain_no_crediting(world);
	world->info = (struct machine_info){
		.version = PACKAGE_VERSION,
		.engine = session_engine_name(world->session),
		.identity = &machine->identity,
		.online = machine->online.nr,
		.privilege = &machine->privilege,
		.env = &machine->env,
		.mount = machine->mount.path ? &machine->mount : NULL,
		.no_cgroups = machine->no_cgroups.text,
		.part_of_tree = machine->part_of_tree.text,
		.no_crediting = world->no_crediting.text,
		.cpus_problem = machine->cpus_problem.text,
		.no_names = container_finder_problem(world->finder),
		.cpus = &machine->cpus,
	};
}

/* The old machine and config are needed until their successors have taken over: they are freed with the reload. */
static void swap_with_reload(struct world *world, struct reload *reload)
{
	struct machine *machine = world->machine;
	struct config *config = world->config;

	world_use(world, reload->machine ? reload->machine : machine, reload->config ? reload->config : config);
	reload->machine = reload->machine ? machine : NULL;
	reload->config = reload->config ? config : NULL;
}

/* [daemon] sysfs may be another. */
static void watch_cpus_again(struct world *world, const struct config *before)
{
	if (strcmp(before->sysfs.text, world->config->sysfs.text) != 0) {
		cpu_watch_close(&world->cpu_watch);
		cpu_watch_open(&world->cpu_watch, world->config->sysfs.text);
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
static void explain_lost_cpus(const struct world *world, const struct cpulist *lost, struct reason *why)
{
	_cleanup_(cpulist_release) struct cpulist back = {};
	_cleanup_(freep) char *now = NULL, *were = NULL;

	for (size_t i = 0; i < lost->nr; i++)
		if (cpulist_has(&world->machine->cpus, lost->cpu[i]))
			(void)cpulist_add(&back, lost->cpu[i]);
	if (back.nr == 0)
		return;
	were = cpulist_format(&back);
	now = cpulist_format(&world->machine->cpus);
	reason_set(why, 0,
		   "CPU %s has been offline, or an event does not start there: reopened, totals go on; CPUs counted "
		   "now: %s",
		   were ? were : "?", now ? now : "?");
}

/* Events that are open go on counting where the kernel has come to refuse new ones. */
static void explain_refusal(const struct world *world, struct reason *why)
{
	const struct privilege *privilege = &world->machine->privilege;

	if (why->text[0] || privilege_may_count_cpus(privilege) || plan_nr_counted(session_plan(world->session)) == 0)
		return;
	privilege_explain(privilege, why);
	reason_prefix(why, 0, "open events go on counting, and no new ones can be opened");
}

static void begin_takeover(struct world *world, struct session *from)
{
	struct takeover *takeover = &world->takeover;

	takeover->from = from;
	takeover->result = session_takeover_begin(world->session, from);
	if (!takeover->news.text[0])
		explain_lost_cpus(world, session_lost(world->session), &takeover->news);
	if (admission_begin_move(&world->admission, world->session, from) < 0)
		takeover->result = -ENOMEM;
}

static void end_takeover(struct world *world)
{
	struct takeover *takeover = &world->takeover;

	if (session_takeover_end(world->session, takeover->from) < 0)
		takeover->result = -ENOMEM;
	takeover->from = session_free(takeover->from);
	takeover->has_news = takeover->result < 0;
	if (takeover->result < 0)
		reason_set(&takeover->news, 0, "out of memory: some totals restart at zero");
	if (!takeover->reload)
		return;
	if (!admission_is_waiting(&world->admission))
		session_end_tries(world->session);
	world->latest = snapshot_unref(world->latest);
	world->generation++;
	takeover->reload = reload_free(takeover->reload);
}

void world_take_over_some(struct world *world, uint64_t budget)
{
	struct takeover *takeover = &world->takeover;

	if (!takeover->has_moved)
		takeover->has_moved = !admission_move(&world->admission, budget);
	else
		end_takeover(world);
}

bool world_is_committing(const struct world *world)
{
	return world->takeover.from;
}

void world_finish_commit(struct world *world, struct reason *why)
{
	while (world_is_committing(world))
		world_take_over_some(world, UINT64_MAX);
	if (!why)
		return;
	*why = world->takeover.news;
	world->takeover.has_news = false;
}

void world_take_over(struct world *world, struct session *from, struct reason *why)
{
	world->takeover = (struct takeover){ .news = *why };
	begin_takeover(world, from);
	world_finish_commit(world, why);
}

void world_begin_commit(struct world *world, struct reload *reload)
{
	struct session *from;
	const struct machine *next;
	struct reason *why = &world->takeover.news;

	world_finish_commit(world, NULL);
	from = world->session;
	next = reload->machine ? reload->machine : world->machine;
	assert(reload->session);
	world->takeover = (struct takeover){ .reload = reload };
	world_keep_or_drop_tree(world, reload->machine);
	world->session = steal_ptr(reload->session);
	if (loses_cgroups(&world->machine->mount, &next->mount))
		session_suspend_cgroups(world->session, from);
	swap_with_reload(world, reload);
	if (reload->config)
		watch_cpus_again(world, reload->config);
	/* The new machine may lack a CPU that is back before the list is next compared, which would look unchanged
	 * then. */
	world->cpus_changed |= cpu_watch_has_changed(&world->cpu_watch);
	if (world->tree)
		cgroup_tree_set_filter(world->tree, &world->filter);
	else if (world->machine->mount.path)
		(void)world_start_tree(world, why);
	begin_takeover(world, from);
	explain_refusal(world, why);
}

void world_commit(struct world *world, struct reload *reload, struct reason *why)
{
	world_begin_commit(world, reload);
	world_finish_commit(world, why);
}
