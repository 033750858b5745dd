/* SPDX-License-Identifier: MIT */

#include "counting/engine/perf/groups-image.h"

#include <errno.h>

/* Of a group. */
enum {
	FLAG_STARVED = 1 << 0,
	FLAG_STILL = 1 << 1,
	FLAG_OFFLINE = 1 << 2,
	FLAG_DEAD = 1 << 3,
	FLAG_SHARED = 1 << 4, /* as all groups of its set are */
	FLAGS = FLAG_STARVED | FLAG_STILL | FLAG_OFFLINE | FLAG_DEAD | FLAG_SHARED,
};

/* --- saving */

/* A group that is open has been started. One that is not, and could be, is to be opened by who comes. Those of probes
 * do not outlive the daemon: whoever held them meanwhile would have to wait for each when it is closed, and that is
 * systemd itself. */
static bool is_saved(const struct perf_groups *groups, size_t i)
{
	const struct perf_group *group = &groups->groups[i];

	return groups->shared || perf_group_is_open(group) || group->offline;
}

static void save_group(struct buf *out, const struct perf_group *group, bool shared, size_t nr_events)
{
	pack_u64(out, (group->starved ? FLAG_STARVED : 0) | (group->still ? FLAG_STILL : 0) |
			      (group->offline ? FLAG_OFFLINE : 0) | (group->dead ? FLAG_DEAD : 0) |
			      (shared ? FLAG_SHARED : 0));
	pack_u64(out, group->enabled);
	pack_u64(out, group->running);
	pack_u64(out, group->clock);
	pack_u64(out, group->read_at);
	pack_u64(out, group->base_at);
	pack_u64(out, group->base.enabled);
	pack_u64(out, group->base.running);
	pack_u64(out, group->base.clock);
	for (size_t i = 0; i < nr_events; i++) {
		pack_u64(out, group->ids[i]);
		pack_u64(out, group->base.values[i]);
	}
}

/* How many groups; the CPU and the row of each; then the groups. */
static void save_set(struct buf *out, const struct perf_groups *groups)
{
	size_t nr = 0;

	for (size_t i = 0; groups && i < groups->nr; i++)
		nr += is_saved(groups, i);
	pack_u64(out, nr);
	for (size_t i = 0; nr && i < groups->nr; i++)
		if (is_saved(groups, i)) {
			pack_u64(out, (uint64_t)groups->groups[i].cpu);
			pack_u64(out, groups->groups[i].row->number);
		}
	for (size_t i = 0; nr && i < groups->nr; i++)
		if (is_saved(groups, i))
			save_group(out, &groups->groups[i], groups->shared, groups->nr_events);
}

void perf_save(const struct engine *base, struct rewrite *rewrite)
{
	struct buf *out = &rewrite->buf;
	const struct perf_engine *engine = perf_engine_const(base);
	const struct perf_target *target;
	uint64_t nr = 0;

	TAILQ_FOREACH(target, &engine->targets, in_engine)
		nr++;
	pack_u64(out, nr);
	TAILQ_FOREACH(target, &engine->targets, in_engine) {
		const struct scope_plan *plan = &base->env.plan->scope[target->scope];

		pack_u64(out, (uint64_t)target->scope);
		pack_u64(out, target->id);
		pack_u64(out, target->idles);
		pack_u64(out, target->nr_rows);
		for (size_t i = 0; i < target->nr_rows; i++)
			pack_u64(out, target->rows[i]->number);
		for (size_t i = 0; i < plan->nr_sets; i++)
			save_set(out, set_has_probe(plan, &plan->sets[i]) ? NULL : target->sets[i]);
	}
}

/* --- restoring */

struct restoring {
	struct perf_engine *engine;
	struct unpack *in;
	struct totals_row *const *rows;
	size_t nr_rows;
	struct stored_pool *stored;
};

/* A row of that scope that does not linger; NULL, which is bad, where there is none of that number. */
static struct totals_row *get_row(const struct restoring *restoring, enum scope scope)
{
	uint64_t number = unpack_u64(restoring->in);

	if (number < restoring->nr_rows && restoring->rows[number]->scope == scope && !restoring->rows[number]->gone_at)
		return restoring->rows[number];
	restoring->in->bad = true;
	return NULL;
}

/* All of the group's events, or none. */
static void take_fds(struct perf_group *group, size_t nr, struct stored_pool *fds, struct engine_stats *stats)
{
	bool whole = true;

	for (size_t i = 0; i < nr; i++) {
		group->fds[i] = stored_pool_take(fds, STORED_PERF_EVENT, group->ids[i]);
		whole = whole && group->fds[i] >= 0;
		stats->fds += group->fds[i] >= 0;
	}
	group->started = true;
	group->dead = !whole;
	if (!whole)
		perf_group_close(group, nr, stats);
}

static void get_group(const struct restoring *restoring, struct perf_groups *groups, struct perf_group *group,
		      size_t nr)
{
	struct unpack *in = restoring->in;
	uint64_t flags = unpack_at_most(in, FLAGS);

	if (group != groups->groups && groups->shared != (bool)(flags & FLAG_SHARED))
		in->bad = true;
	groups->shared = flags & FLAG_SHARED;
	group->starved = flags & FLAG_STARVED;
	group->still = flags & FLAG_STILL;
	/* All counts of a dead group have been read: its events are not needed any more. */
	group->offline = flags & (FLAG_OFFLINE | FLAG_DEAD);
	if (flags & FLAG_DEAD)
		(void)cpulist_add(&restoring->engine->lost_since, group->cpu);
	group->enabled = unpack_u64(in);
	group->running = unpack_u64(in);
	group->clock = unpack_u64(in);
	group->read_at = unpack_u64(in);
	group->base_at = unpack_u64(in);
	group->base.enabled = unpack_u64(in);
	group->base.running = unpack_u64(in);
	group->base.clock = unpack_u64(in);
	for (size_t i = 0; i < nr; i++) {
		group->ids[i] = unpack_u64(in);
		group->base.values[i] = unpack_u64(in);
	}
	if (!in->bad && !group->offline && !groups->shared)
		take_fds(group, nr, restoring->stored, &restoring->engine->engine.stats);
}

/* The CPUs and rows of a set's groups; false where they are not in order, or not the set's. */
static bool get_places(const struct restoring *restoring, enum scope scope, const struct set *set, struct cpulist *cpus,
		       struct totals_row **rows)
{
	for (size_t i = 0; i < cpus->nr; i++) {
		cpus->cpu[i] = (int)unpack_at_most(restoring->in, CPULIST_MAX_CPU);
		rows[i] = get_row(restoring, scope);
		if (!rows[i] || !cpulist_has(&set->cpus, cpus->cpu[i]) || (i && cpus->cpu[i] <= cpus->cpu[i - 1]))
			return false;
	}
	return !restoring->in->bad;
}

static int get_set(const struct restoring *restoring, struct perf_groups **ret, enum scope scope, struct set *set)
{
	size_t nr = unpack_nr(restoring->in, 2 * sizeof(uint64_t));
	_cleanup_(freep) struct totals_row **rows = calloc(nr + 1, sizeof(*rows));
	_cleanup_(cpulist_release) struct cpulist cpus = { .cpu = calloc(nr + 1, sizeof(int)), .nr = nr };

	if (nr == 0)
		return restoring->in->bad ? -EBADMSG : 0;
	if (!rows || !cpus.cpu)
		return -ENOMEM;
	if (!get_places(restoring, scope, set, &cpus, rows))
		return -EBADMSG;
	*ret = perf_groups_new(&restoring->engine->engine.env.plan->scope[scope], set, &cpus, rows);
	if (!*ret)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++) {
		get_group(restoring, *ret, &(*ret)->groups[i], (*ret)->nr_events);
		set->closed = set->closed && !perf_group_is_open(&(*ret)->groups[i]);
	}
	return restoring->in->bad ? -EBADMSG : 0;
}

static int get_rows(const struct restoring *restoring, enum scope scope, size_t nr, struct totals_row ***ret)
{
	_cleanup_(freep) struct totals_row **rows = calloc(nr + 1, sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++) {
		rows[i] = get_row(restoring, scope);
		if (!rows[i])
			return -EBADMSG;
	}
	*ret = steal_ptr(rows);
	return 0;
}

static int get_target(const struct restoring *restoring)
{
	struct unpack *in = restoring->in;
	struct engine *engine = &restoring->engine->engine;
	struct engine_target spec = {
		.scope = (enum scope)unpack_at_most(in, _SCOPE_MAX - 1),
		.id = unpack_u64(in),
		.idles = unpack_at_most(in, 1),
	};
	size_t nr_rows = unpack_nr(in, sizeof(uint64_t));
	struct scope_plan *plan = &engine->env.plan->scope[spec.scope];
	_cleanup_(freep) struct totals_row **rows = NULL;
	struct perf_target *target;
	int r;

	if (in->bad || engine->ops->has(engine, spec.scope, spec.id))
		return -EBADMSG;
	r = get_rows(restoring, spec.scope, nr_rows, &rows);
	if (r < 0)
		return r;
	target = perf_target_new(restoring->engine, &spec, rows, nr_rows);
	if (!target)
		return -ENOMEM;
	for (size_t i = 0; i < plan->nr_sets && r == 0; i++)
		r = get_set(restoring, &target->sets[i], spec.scope, &plan->sets[i]);
	for (size_t i = 0; i < plan->nr_sets && r == 0; i++)
		if (target->sets[i] && target->sets[i]->shared &&
		    !perf_set_is_shared(restoring->engine, spec.scope, spec.id, i))
			r = -EBADMSG;
	return r;
}

/* A set that the CPUs' events count for the root cgroup has no events of its own. */
static void open_shared(const struct perf_engine *engine)
{
	struct plan *plan = engine->engine.env.plan;
	struct scope_plan *cgroups = &plan->scope[SCOPE_CGROUP];

	for (size_t i = 0; i < cgroups->nr_sets; i++)
		if (set_is_open(&plan->scope[SCOPE_CPU], perf_find_twin(engine, SCOPE_CGROUP, i)))
			cgroups->sets[i].closed = false;
}

int perf_restore(struct engine *engine, struct unpack *in, struct totals_row *const *rows, size_t nr_rows,
		 struct stored_pool *stored)
{
	const struct restoring restoring = {
		.engine = perf_engine(engine),
		.in = in,
		.rows = rows,
		.nr_rows = nr_rows,
		.stored = stored,
	};
	size_t nr = unpack_nr(in, 4 * sizeof(uint64_t));
	int r = in->bad ? -EBADMSG : 0;

	for (size_t i = 0; i < nr && r == 0; i++)
		r = get_target(&restoring);
	if (r == 0)
		open_shared(restoring.engine);
	return r;
}
