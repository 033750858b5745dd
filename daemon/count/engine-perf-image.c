/* SPDX-License-Identifier: MIT */

#include "count/engine-perf.h"

#include <errno.h>

/* Of a reader. */
enum {
	FLAG_STARVED = 1 << 0,
	FLAG_STILL = 1 << 1,
	FLAG_OFFLINE = 1 << 2,
	FLAG_DEAD = 1 << 3,
	FLAG_SHARED = 1 << 4, /* as all readers of its set are */
	FLAGS = FLAG_STARVED | FLAG_STILL | FLAG_OFFLINE | FLAG_DEAD | FLAG_SHARED,
};

/* --- saving */

/* A reader that is open has been started. One that is not, and could be, is to be opened by who comes. Those of probes
 * do not outlive the daemon: whoever held them meanwhile would have to wait for each when it is closed, and that is
 * systemd itself. */
static bool is_saved(const struct set_readers *readers, size_t i)
{
	const struct reader *reader = &readers->readers[i];

	return readers->shared || reader_is_open(reader) || reader->offline;
}

static void save_reader(struct buf *out, const struct reader *reader, bool shared, size_t nr_events)
{
	pack_u64(out, (reader->starved ? FLAG_STARVED : 0) | (reader->still ? FLAG_STILL : 0) |
			      (reader->offline ? FLAG_OFFLINE : 0) | (reader->dead ? FLAG_DEAD : 0) |
			      (shared ? FLAG_SHARED : 0));
	pack_u64(out, reader->enabled);
	pack_u64(out, reader->running);
	pack_u64(out, reader->read_at);
	pack_u64(out, reader->base_at);
	pack_u64(out, reader->base.enabled);
	pack_u64(out, reader->base.running);
	for (size_t i = 0; i < nr_events; i++) {
		pack_u64(out, reader->ids[i]);
		pack_u64(out, reader->base.values[i]);
	}
}

/* How many readers; the CPU and the row of each; then the readers. */
static void save_set(struct buf *out, const struct set_readers *readers)
{
	size_t nr = 0;

	for (size_t i = 0; readers && i < readers->nr; i++)
		nr += is_saved(readers, i);
	pack_u64(out, nr);
	for (size_t i = 0; nr && i < readers->nr; i++)
		if (is_saved(readers, i)) {
			pack_u64(out, (uint64_t)readers->readers[i].cpu);
			pack_u64(out, readers->readers[i].row->number);
		}
	for (size_t i = 0; nr && i < readers->nr; i++)
		if (is_saved(readers, i))
			save_reader(out, &readers->readers[i], readers->shared, readers->nr_events);
}

void perf_save(const struct engine *base, struct buf *out)
{
	const struct perf_engine *engine = perf_engine_const(base);
	const struct station *station;
	uint64_t nr = 0;

	TAILQ_FOREACH(station, &engine->stations, in_engine)
		nr++;
	pack_u64(out, nr);
	TAILQ_FOREACH(station, &engine->stations, in_engine) {
		const struct scope_plan *plan = &base->plan->scope[station->scope];

		pack_u64(out, (uint64_t)station->scope);
		pack_u64(out, station->id);
		pack_u64(out, station->idles);
		pack_u64(out, station->nr_rows);
		for (size_t i = 0; i < station->nr_rows; i++)
			pack_u64(out, station->rows[i]->number);
		for (size_t i = 0; i < plan->nr_sets; i++)
			save_set(out, set_has_probe(plan, &plan->sets[i]) ? NULL : station->sets[i]);
	}
}

/* --- restoring */

struct restoring {
	struct perf_engine *engine;
	struct unpack *in;
	struct row *const *rows;
	size_t nr_rows;
	struct fd_pool *fds;
};

/* A row of that scope that does not linger; NULL, which is bad, where there is none of that number. */
static struct row *get_row(const struct restoring *restoring, enum scope scope)
{
	uint64_t number = unpack_u64(restoring->in);

	if (number < restoring->nr_rows && restoring->rows[number]->scope == scope &&
	    !restoring->rows[number]->gone_at)
		return restoring->rows[number];
	restoring->in->bad = true;
	return NULL;
}

/* All of the group's events, or none. */
static void take_fds(struct reader *reader, size_t nr, struct fd_pool *fds, struct engine_stats *stats)
{
	bool whole = true;

	for (size_t i = 0; i < nr; i++) {
		reader->fds[i] = fd_pool_take(fds, reader->ids[i]);
		whole = whole && reader->fds[i] >= 0;
		stats->fds += reader->fds[i] >= 0;
	}
	reader->started = true;
	reader->dead = !whole;
	if (!whole)
		reader_close(reader, nr, stats);
}

static void get_reader(const struct restoring *restoring, struct set_readers *readers, struct reader *reader, size_t nr)
{
	struct unpack *in = restoring->in;
	uint64_t flags = unpack_at_most(in, FLAGS);

	if (reader != readers->readers && readers->shared != (bool)(flags & FLAG_SHARED))
		in->bad = true;
	readers->shared = flags & FLAG_SHARED;
	reader->starved = flags & FLAG_STARVED;
	reader->still = flags & FLAG_STILL;
	/* All that was counted by what is dead has been read: its events are needed no more. */
	reader->offline = flags & (FLAG_OFFLINE | FLAG_DEAD);
	if (flags & FLAG_DEAD)
		(void)cpulist_add(&restoring->engine->lost_since, reader->cpu);
	reader->enabled = unpack_u64(in);
	reader->running = unpack_u64(in);
	reader->read_at = unpack_u64(in);
	reader->base_at = unpack_u64(in);
	reader->base.enabled = unpack_u64(in);
	reader->base.running = unpack_u64(in);
	for (size_t i = 0; i < nr; i++) {
		reader->ids[i] = unpack_u64(in);
		reader->base.values[i] = unpack_u64(in);
	}
	if (!in->bad && !reader->offline && !readers->shared)
		take_fds(reader, nr, restoring->fds, &restoring->engine->engine.stats);
}

/* The CPUs and rows of a set's readers; false where they are not in order, or not the set's. */
static bool get_places(const struct restoring *restoring, enum scope scope, const struct set *set, struct cpulist *cpus,
		       struct row **rows)
{
	for (size_t i = 0; i < cpus->nr; i++) {
		cpus->cpu[i] = (int)unpack_at_most(restoring->in, CPULIST_MAX_CPU);
		rows[i] = get_row(restoring, scope);
		if (!rows[i] || !cpulist_has(&set->cpus, cpus->cpu[i]) || (i && cpus->cpu[i] <= cpus->cpu[i - 1]))
			return false;
	}
	return !restoring->in->bad;
}

static int get_set(const struct restoring *restoring, struct set_readers **ret, enum scope scope, struct set *set)
{
	size_t nr = unpack_nr(restoring->in, 2 * sizeof(uint64_t));
	_cleanup_(freep) struct row **rows = calloc(nr + 1, sizeof(*rows));
	_cleanup_(cpulist_release) struct cpulist cpus = { .cpu = calloc(nr + 1, sizeof(int)), .nr = nr };

	if (nr == 0)
		return restoring->in->bad ? -EBADMSG : 0;
	if (!rows || !cpus.cpu)
		return -ENOMEM;
	if (!get_places(restoring, scope, set, &cpus, rows))
		return -EBADMSG;
	*ret = set_readers_new(set, &cpus, rows);
	if (!*ret)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++) {
		get_reader(restoring, *ret, &(*ret)->readers[i], set->nr);
		set->closed = set->closed && !reader_is_open(&(*ret)->readers[i]);
	}
	return restoring->in->bad ? -EBADMSG : 0;
}

static int get_rows(const struct restoring *restoring, enum scope scope, size_t nr, struct row ***ret)
{
	_cleanup_(freep) struct row **rows = calloc(nr + 1, sizeof(*rows));

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

static int get_station(const struct restoring *restoring)
{
	struct unpack *in = restoring->in;
	struct engine *engine = &restoring->engine->engine;
	struct engine_target target = {
		.scope = (enum scope)unpack_at_most(in, _SCOPE_MAX - 1),
		.id = unpack_u64(in),
		.idles = unpack_at_most(in, 1),
	};
	size_t nr_rows = unpack_nr(in, sizeof(uint64_t));
	struct scope_plan *plan = &engine->plan->scope[target.scope];
	_cleanup_(freep) struct row **rows = NULL;
	struct station *station;
	int r;

	if (in->bad || engine->ops->has(engine, target.scope, target.id))
		return -EBADMSG;
	r = get_rows(restoring, target.scope, nr_rows, &rows);
	if (r < 0)
		return r;
	station = station_new(restoring->engine, &target, rows, nr_rows);
	if (!station)
		return -ENOMEM;
	for (size_t i = 0; i < plan->nr_sets && r == 0; i++)
		r = get_set(restoring, &station->sets[i], target.scope, &plan->sets[i]);
	for (size_t i = 0; i < plan->nr_sets && r == 0; i++)
		if (station->sets[i] && station->sets[i]->shared &&
		    !set_is_shared(restoring->engine, target.scope, target.id, i))
			r = -EBADMSG;
	return r;
}

/* The root cgroup has no events of its own where the CPUs' are its too (plan_find_cpu_set()). */
static void open_shared(struct plan *plan)
{
	struct scope_plan *cgroups = &plan->scope[SCOPE_CGROUP];

	for (size_t i = 0; i < cgroups->nr_sets; i++)
		if (set_is_open(&plan->scope[SCOPE_CPU], plan_find_cpu_set(plan, &cgroups->sets[i])))
			cgroups->sets[i].closed = false;
}

int perf_restore(struct engine *engine, struct unpack *in, struct row *const *rows, size_t nr_rows,
		 struct fd_pool *fds)
{
	const struct restoring restoring = {
		.engine = perf_engine(engine),
		.in = in,
		.rows = rows,
		.nr_rows = nr_rows,
		.fds = fds,
	};
	size_t nr = unpack_nr(in, 4 * sizeof(uint64_t));
	int r = in->bad ? -EBADMSG : 0;

	for (size_t i = 0; i < nr && r == 0; i++)
		r = get_station(&restoring);
	if (r == 0)
		open_shared(engine->plan);
	return r;
}
