/* SPDX-License-Identifier: MIT */

#include "count/engine-perf.h"

#include "count/handover.h"

#include <errno.h>
#include <string.h>

/* --- one set of one target */

struct set_readers *set_readers_new(const struct set *set, const struct cpulist *cpus, struct row *const *rows)
{
	size_t most = cpus->nr * set->nr, size = sizeof(struct set_readers) + cpus->nr * sizeof(struct reader);
	struct set_readers *readers = calloc(1, size + most * (2 * sizeof(uint64_t) + sizeof(int)));
	uint64_t *values, *ids;
	int *fds;

	if (!readers)
		return NULL;
	values = (uint64_t *)((char *)readers + size);
	ids = values + most;
	fds = (int *)(ids + most);
	readers->nr_events = set->nr;
	for (size_t i = 0; i < cpus->nr; i++) {
		if (!cpulist_has(&set->cpus, cpus->cpu[i]))
			continue;
		readers->readers[readers->nr] = (struct reader){
			.row = rows[i],
			.cpu = cpus->cpu[i],
			.fds = fds + readers->nr * set->nr,
			.ids = ids + readers->nr * set->nr,
			.base.values = values + readers->nr * set->nr,
		};
		readers->nr++;
	}
	for (size_t i = 0; i < most; i++)
		fds[i] = -1;
	return readers;
}

void set_readers_free(struct set_readers *readers, struct engine_stats *stats)
{
	if (!readers)
		return;
	for (size_t i = 0; i < readers->nr; i++)
		reader_close(&readers->readers[i], readers->nr_events, stats);
	free(readers);
}

static size_t nr_open(const struct set_readers *readers)
{
	size_t nr = 0;

	for (size_t i = 0; readers && i < readers->nr; i++)
		nr += reader_is_open(&readers->readers[i]);
	return nr;
}

/* Is all of it open, or was, that can be? */
static bool is_whole(const struct set_readers *readers)
{
	for (size_t i = 0; readers && !readers->shared && i < readers->nr; i++)
		if (!reader_is_open(&readers->readers[i]) && !readers->readers[i].offline)
			return false;
	return readers;
}

static int explain(const struct perf_engine *engine, const struct engine_target *target, int error, int cpu,
		   const struct event *event, struct reason *why)
{
	struct reason detail;

	perf_open_explain(error, event, target->scope, cpu, engine->engine.privilege, &detail);
	return reason_set(why, error, "%s%sCPU %d, '%s': %s", target->label, target->label[0] ? ", " : "", cpu,
			  event->text, detail.text);
}

/* Without its directory nothing of a cgroup can be opened: perf_event_open(2) would take -1 for all processes. */
static int directory_error(const struct engine_target *target, struct reason *why)
{
	if (target->scope != SCOPE_CGROUP || target->id == CGROUP_ROOT_ID || target->cgroup_fd >= 0)
		return 0;
	return reason_set(why, target->cgroup_fd, "its directory can't be opened: %s", strerror(-target->cgroup_fd));
}

/*
 * Opens what of the set is not open yet, without starting it: on all of its CPUs, or on none that it was not open on
 * before. A CPU that has gone offline since the plan was made is passed over: nothing runs there.
 */
static int set_open(struct perf_engine *engine, struct set_readers **ret, const struct engine_target *target,
		    const struct set *set, const struct cpulist *cpus, struct row *const *rows, struct reason *why)
{
	const struct scope_plan *plan = &engine->engine.plan->scope[target->scope];
	struct engine_stats *stats = &engine->engine.stats;
	struct set_readers *readers = *ret ? *ret : set_readers_new(set, cpus, rows);
	int r = 0;

	if (!readers)
		return reason_set(why, -ENOMEM, "out of memory");
	r = directory_error(target, why);
	readers->deferred = false;
	for (size_t i = 0; i < readers->nr && (r == 0 || r == -ENODEV); i++) {
		struct reader *reader = &readers->readers[i];
		size_t member;

		if (reader_is_open(reader))
			continue;
		r = reader_open(reader, plan, set, target->cgroup_fd, stats, &member);
		if (r < 0 && r != -ENODEV)
			explain(engine, target, r, reader->cpu, plan->columns[set->columns[member]].event, why);
	}
	if (r == 0 || r == -ENODEV) {
		*ret = readers;
		return 0;
	}
	for (size_t i = 0; i < readers->nr; i++)
		if (!readers->readers[i].started)
			reader_close(&readers->readers[i], set->nr, stats);
	*ret = readers;
	if (nr_open(readers) == 0) {
		set_readers_free(readers, stats);
		*ret = NULL;
	}
	return r;
}

static void set_start(struct set_readers *readers, uint64_t now)
{
	for (size_t i = 0; i < readers->nr; i++)
		if (!readers->readers[i].started && reader_is_open(&readers->readers[i]))
			reader_start(&readers->readers[i], now);
}

static void set_measured(struct row *row, const struct set *set, bool measured)
{
	for (size_t i = 0; i < set->nr; i++)
		row->cells[set->columns[i]].measured = measured;
}

/*
 * Settles whether a row's cells are measured, from what all of its readers (bits of enum sight) have
 * seen. A sum of which a part could not be read is no sum. What has been measured stays so while its
 * group waits for the PMU; what never was stays absent until the group has run somewhere, also
 * where it was a true 0 before the group was enabled.
 */
static void settle_row(struct row *row, const struct set *set, unsigned sights)
{
	bool seen = sights & 1U << SIGHT_SEEN, zero = sights & 1U << SIGHT_NONE, pending = sights & 1U << SIGHT_PENDING;

	if (sights & 1U << SIGHT_LOST)
		set_measured(row, set, false);
	else if (seen || (zero && !pending))
		set_measured(row, set, true);
	else if (pending)
		for (size_t i = 0; i < set->nr; i++)
			row->cells[set->columns[i]].measured &= row->cells[set->columns[i]].total > 0;
}

void set_readers_settle(struct set_readers *readers, const struct set *set)
{
	unsigned sights = 0;

	for (size_t i = 0; i < readers->nr; i++) {
		struct row *row = readers->readers[i].row;

		sights |= 1U << readers->readers[i].sight;
		if (i + 1 < readers->nr && readers->readers[i + 1].row == row)
			continue;
		settle_row(row, set, sights);
		sights = 0;
	}
}

static void set_update(struct set_readers *readers, const struct reading_context *context)
{
	for (size_t i = 0; i < readers->nr; i++)
		readers->readers[i].sight = reader_update(&readers->readers[i], context);
	set_readers_settle(readers, context->set);
}

/* --- stations */

void perf_update_station(struct perf_engine *engine, struct station *station, uint64_t at, bool last)
{
	const struct scope_plan *plan = &engine->engine.plan->scope[station->scope];

	for (size_t i = 0; i < plan->nr_sets; i++) {
		struct finding *finding = &engine->engine.findings[station->scope][i];
		struct sink also = {};
		struct reader *fed = root_find_fed(engine, station, i, &also);
		const struct reading_context context = {
			.also = also,
			.set = &plan->sets[i],
			.set_at = i,
			.at = at,
			.last = last,
			.deferred = station->sets[i] && station->sets[i]->deferred,
			.finding = finding,
			.stats = &engine->engine.stats,
			.lost = &engine->lost_since,
			.buffer = engine->buffer,
		};
		uint64_t before = finding->running;

		if (!station->sets[i] || station->sets[i]->shared)
			continue;
		set_update(station->sets[i], &context);
		if (fed)
			fed->sight = station->sets[i]->readers[0].sight;
		if (!station->idles)
			finding->busy += finding->running - before;
	}
}

/* What is not open here is not measured, whatever an earlier cgroup of that label, or plan, has left. */
static void settle_closed(const struct perf_engine *engine, const struct station *station)
{
	const struct scope_plan *plan = &engine->engine.plan->scope[station->scope];

	for (size_t i = 0; i < plan->nr_sets; i++)
		for (size_t k = 0; !station->sets[i] && k < station->nr_rows; k++)
			set_measured(station->rows[k], &plan->sets[i], false);
}

static void station_free(struct perf_engine *engine, struct station *station)
{
	for (size_t i = 0; i < engine->engine.plan->scope[station->scope].nr_sets; i++)
		set_readers_free(station->sets[i], &engine->engine.stats);
	free(station);
}

struct station *station_new(struct perf_engine *engine, const struct engine_target *target, struct row *const *rows,
			    size_t nr_rows)
{
	size_t nr_sets = engine->engine.plan->scope[target->scope].nr_sets;
	size_t size = sizeof(struct station) + nr_sets * sizeof(struct set_readers *);
	struct station *station = calloc(1, size + nr_rows * sizeof(*rows));

	if (!station)
		return NULL;
	station->scope = target->scope;
	station->id = target->id;
	station->idles = target->idles;
	station->rows = (struct row **)((char *)station + size);
	station->nr_rows = nr_rows;
	memcpy(station->rows, rows, nr_rows * sizeof(*rows));
	HASH_ADD(hh, engine->by_id[target->scope], id, sizeof(station->id), station);
	if (!station->hh.tbl) {
		free(station);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&engine->stations, station, in_engine);
	return station;
}

struct station *perf_find_station(const struct perf_engine *engine, enum scope scope, uint64_t id)
{
	struct station *station = NULL;

	if (engine)
		HASH_FIND(hh, engine->by_id[scope], &id, sizeof(id), station);
	return station;
}

/* The fds of a station that has all that can be open. */
static size_t nr_fds_of(const struct perf_engine *engine, enum scope scope, uint64_t id)
{
	const struct scope_plan *plan = &engine->engine.plan->scope[scope];
	size_t nr = 0;

	for (size_t i = 0; i < plan->nr_sets; i++)
		if (scope == SCOPE_CPU)
			nr += cpulist_has(&plan->sets[i].cpus, (int)id) ? plan->sets[i].nr : 0;
		else if (!set_is_shared(engine, scope, id, i))
			nr += plan->sets[i].nr * plan->sets[i].cpus.nr;
	return nr;
}

static size_t nr_open_fds(const struct station *station, const struct scope_plan *plan)
{
	size_t nr = 0;

	for (size_t i = 0; station && i < plan->nr_sets; i++)
		nr += nr_open(station->sets[i]) * plan->sets[i].nr;
	return nr;
}

static size_t perf_fds_needed(const struct engine *base, enum scope scope, uint64_t id)
{
	const struct perf_engine *engine = perf_engine_const(base);
	const struct scope_plan *plan = &base->plan->scope[scope];
	size_t needed = nr_fds_of(engine, scope, id), open = nr_open_fds(perf_find_station(engine, scope, id), plan);

	/* Of the preceding engine, what is not taken over is closed first. */
	if (engine->from)
		open += nr_open_fds(perf_find_station(engine->from, scope, id),
				    &engine->from->engine.plan->scope[scope]);
	return needed > open ? needed - open : 0;
}

static bool perf_has(const struct engine *base, enum scope scope, uint64_t id)
{
	return perf_find_station(perf_engine_const(base), scope, id) != NULL;
}

static bool perf_is_open(const struct engine *base, enum scope scope, size_t set)
{
	const struct perf_engine *engine = perf_engine_const(base);
	const struct station *station;

	TAILQ_FOREACH(station, &engine->stations, in_engine) {
		const struct set_readers *readers = station->scope == scope ? station->sets[set] : NULL;

		if (nr_open(readers) > 0 ||
		    (readers && readers->shared && perf_is_open(base, SCOPE_CPU, engine->shared[scope][set])))
			return true;
	}
	return false;
}

static bool is_shortage(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM;
}

static void station_remove(struct perf_engine *engine, struct station *station)
{
	HASH_DELETE(hh, engine->by_id[station->scope], station);
	TAILQ_REMOVE(&engine->stations, station, in_engine);
	station_free(engine, station);
}

/* Leaves what is slow to close to the closer: members before their leader. */
static void hand_to_closer(struct perf_engine *engine, struct station *station)
{
	const struct scope_plan *plan = &engine->engine.plan->scope[station->scope];

	for (size_t i = 0; i < plan->nr_sets; i++) {
		struct set_readers *readers = station->sets[i];

		if (!readers || !set_is_slow_to_close(plan, &plan->sets[i]))
			continue;
		for (size_t k = 0; k < readers->nr; k++)
			reader_close_by(&readers->readers[k], readers->nr_events, engine->engine.closer,
					&engine->engine.stats);
	}
}

/* wait: until all of it is closed, for somebody needs the room. */
static void station_end(struct perf_engine *engine, struct station *station, uint64_t now, bool wait)
{
	perf_update_station(engine, station, now, true);
	if (!wait)
		hand_to_closer(engine, station);
	station_remove(engine, station);
}

static void perf_remove(struct engine *base, enum scope scope, uint64_t id, uint64_t now)
{
	struct perf_engine *engine = perf_engine(base);
	struct station *station = perf_find_station(engine, scope, id);

	if (station)
		station_end(engine, station, now, false);
}

static void perf_finish(struct engine *base, uint64_t now)
{
	struct perf_engine *engine = perf_engine(base);

	while (!TAILQ_EMPTY(&engine->stations))
		station_end(engine, TAILQ_FIRST(&engine->stations), now, false);
}

/* --- taking over */

/* Takes over what the old set has open on CPUs that both are on, and that have been online ever since: they go on
 * counting. Returns how many readers that are. */
static size_t inherit_readers(struct perf_engine *engine, struct set_readers *readers, struct set_readers *old)
{
	size_t nr = 0, at = 0;

	for (size_t i = 0; i < old->nr; i++) {
		struct reader *from = &old->readers[i];

		/* Both are in the order of CPUs. */
		while (at < readers->nr && readers->readers[at].cpu < from->cpu)
			at++;
		if (at == readers->nr)
			break;
		if (readers->readers[at].cpu != from->cpu || !reader_is_open(from) || from->dead ||
		    cpulist_has(engine->lost, from->cpu))
			continue;
		reader_move(&readers->readers[at], from, old->nr_events);
		engine->engine.stats.fds += old->nr_events;
		engine->from->engine.stats.fds -= old->nr_events;
		nr++;
	}
	return nr;
}

/* Takes over from equal sets of the preceding engine's station; how many readers. */
static size_t inherit_sets(struct perf_engine *engine, struct station *station, const struct cpulist *cpus,
			   struct row *const *rows)
{
	const struct scope_plan *plan = &engine->engine.plan->scope[station->scope];
	struct station *old = perf_find_station(engine->from, station->scope, station->id);
	size_t nr = 0;

	for (size_t i = 0; old && i < plan->nr_sets; i++) {
		size_t heir = engine->heirs[station->scope][i], taken;

		if (heir == NO_SET || station->sets[i] || nr_open(old->sets[heir]) == 0)
			continue;
		station->sets[i] = set_readers_new(&plan->sets[i], cpus, rows);
		if (!station->sets[i])
			continue;
		taken = inherit_readers(engine, station->sets[i], old->sets[heir]);
		if (taken == 0) {
			free(station->sets[i]);
			station->sets[i] = NULL;
		}
		nr += taken;
	}
	return nr;
}

/* Which of the preceding engine's sets each set is: worked out once, and not for each target. */
static void find_heirs(struct perf_engine *engine, enum scope scope)
{
	const struct scope_plan *plan = &engine->engine.plan->scope[scope];
	const struct scope_plan *from = &engine->from->engine.plan->scope[scope];

	for (size_t i = 0; i < plan->nr_sets; i++) {
		struct finding *finding = &engine->engine.findings[scope][i];
		size_t k = set_find_equal(plan, &plan->sets[i], from);

		engine->heirs[scope][i] = k;
		if (k == NO_SET)
			continue;
		finding->waited = engine->from->engine.findings[scope][k].waited;
		finding->ever_ran = engine->from->engine.findings[scope][k].ever_ran;
	}
}

static void perf_succeed(struct engine *base, struct engine *from, const struct cpulist *lost)
{
	struct perf_engine *engine = perf_engine(base);

	engine->from = from ? perf_engine(from) : NULL;
	engine->lost = lost;
	for (int scope = 0; from && scope < _SCOPE_MAX; scope++)
		find_heirs(engine, (enum scope)scope);
	handover_free(engine->handover);
	engine->handover = from ? handover_new(engine) : NULL;
}

/* Groups show it by their shape, also those of cgroups, and a single event by its time, if it is of the whole CPU. One
 * is enough: others can have been opened since. That the kernel said so at opening is not, where others are open
 * there: it says the same of a PMU that does not count on that CPU. */
static enum life perf_life(const struct engine *base, int cpu)
{
	const struct perf_engine *engine = perf_engine_const(base);
	const struct station *station = perf_find_station(engine, SCOPE_CPU, (uint64_t)cpu);
	enum life life = LIFE_UNKNOWN;

	if (cpulist_has(&engine->lost_since, cpu))
		return LIFE_BEEN_OFFLINE;
	for (size_t i = 0; station && i < base->plan->scope[SCOPE_CPU].nr_sets; i++) {
		const struct set_readers *readers = station->sets[i];

		if (!readers || readers->nr == 0)
			continue;
		if (nr_open(readers) && readers->readers[0].still)
			return LIFE_BEEN_OFFLINE;
		if (nr_open(readers))
			life = LIFE_ONLINE;
		else if (readers->readers[0].offline && life == LIFE_UNKNOWN)
			life = LIFE_BEEN_OFFLINE;
	}
	return life;
}

/* --- adding */

/* Opens the sets that are not open yet, as far as it goes; an error, with a sentence on the last one, or 0. Of a CPU,
 * the sets' findings are told. */
static int open_missing(struct perf_engine *engine, struct station *station, const struct engine_target *target,
			const struct cpulist *cpus, struct row *const *rows, struct reason *why, bool tell)
{
	const struct scope_plan *plan = &engine->engine.plan->scope[target->scope];
	int error = 0;

	why->text[0] = '\0';
	for (size_t i = 0; i < plan->nr_sets && !(error == -ENOENT && target->scope == SCOPE_CGROUP); i++) {
		int r = is_whole(station->sets[i]) ? 0 :
						     set_open(engine, &station->sets[i], target, &plan->sets[i], cpus,
							      rows, why);

		if (r < 0 && tell && target->scope == SCOPE_CPU)
			engine->engine.findings[SCOPE_CPU][i].lasting = *why;
		/* What room could cure matters most: it decides whether others are waited for. */
		if (r < 0 && !perf_open_may_recover(error))
			error = r;
	}
	return error;
}

/* Starts what was opened; returns how many sets are open. */
static size_t start_sets(struct perf_engine *engine, struct station *station, uint64_t now)
{
	size_t nr = 0;

	for (size_t i = 0; i < engine->engine.plan->scope[station->scope].nr_sets; i++) {
		if (!station->sets[i])
			continue;
		set_start(station->sets[i], now);
		nr++;
	}
	return nr;
}

/* Leaves what is not open to a later add(); why says so. */
static void defer_missing(const struct scope_plan *plan, struct station *station, struct reason *why)
{
	why->text[0] = '\0';
	for (size_t i = 0; i < plan->nr_sets; i++) {
		if (is_whole(station->sets[i]))
			continue;
		if (station->sets[i])
			station->sets[i]->deferred = true;
		reason_set(why, 0, "some of its events are about to be opened");
	}
}

/* Is all taken over that was open of a cgroup, so that nothing is lost while the rest of it is not? The root cgroup can
 * have been counted without anything open. */
static bool may_defer(const struct perf_engine *engine, const struct station *old)
{
	const struct perf_engine *from = engine->from;

	return engine->engine.defers && old && old->scope == SCOPE_CGROUP && old->id != CGROUP_ROOT_ID &&
	       nr_open_fds(old, &from->engine.plan->scope[SCOPE_CGROUP]) == 0;
}

/*
 * Opens all sets of the target. What the preceding engine has open for it and is not taken over is handed over to
 * its replacement (handover.h) and closed, or is read a last time before that one is opened where there is no
 * room for both: of files, of breakpoints, of a PMU with one user. A set that can't be opened is left out, which
 * `why` then tells. A cgroup the kernel does not know ends it all, and so does a shortage, unless something was
 * taken over: that goes on. Where nothing is replaced, what is new may be deferred.
 */
static int open_sets(struct perf_engine *engine, struct station *station, const struct engine_target *target,
		     const struct cpulist *cpus, struct row *const *rows, uint64_t now, struct reason *why)
{
	struct station *old = perf_find_station(engine->from, target->scope, target->id);
	size_t nr_inherited, nr;
	int r = root_share_sets(engine, station, old, cpus, rows, now);

	if (r < 0)
		return reason_set(why, r, "out of memory");
	nr_inherited = inherit_sets(engine, station, cpus, rows);
	if (nr_inherited > 0 && may_defer(engine, old)) {
		defer_missing(&engine->engine.plan->scope[target->scope], station, why);
		station_end(engine->from, old, now, false);
		return 0;
	}
	r = open_missing(engine, station, target, cpus, rows, why, !engine->from);
	if (old) {
		handover_run(engine->handover, engine, station, old);
		station_end(engine->from, old, now, perf_open_may_recover(r));
	}
	if (r < 0 && engine->from)
		r = open_missing(engine, station, target, cpus, rows, why, true);
	if ((r == -ENOENT && target->scope == SCOPE_CGROUP) || (is_shortage(r) && nr_inherited == 0))
		return r;

	nr = start_sets(engine, station, now);
	return nr ? 0 : r;
}

/* What is open of the target goes on; the rest is tried again. */
static int mend_station(struct perf_engine *engine, struct station *station, const struct engine_target *target,
			const struct cpulist *cpus, struct row *const *rows, uint64_t now, struct reason *why)
{
	int r = open_missing(engine, station, target, cpus, rows, why, true);

	(void)start_sets(engine, station, now);
	return r == -ENOENT && target->scope == SCOPE_CGROUP ? r : 0;
}

static int perf_add(struct engine *base, const struct engine_target *target, const struct cpulist *cpus,
		    struct row *const *rows, uint64_t now, struct reason *why)
{
	struct perf_engine *engine = perf_engine(base);
	struct station *station = perf_find_station(engine, target->scope, target->id);
	int r;

	if (station)
		return mend_station(engine, station, target, cpus, rows, now, why);
	station = station_new(engine, target, rows, cpus->nr);
	if (!station)
		return reason_set(why, -ENOMEM, "out of memory");
	r = open_sets(engine, station, target, cpus, rows, now, why);
	if (r < 0)
		station_end(engine, station, now, false); /* what was inherited has its last counts */
	return r;
}

static void perf_read(struct engine *base, uint64_t now)
{
	struct perf_engine *engine = perf_engine(base);
	struct station *station;

	TAILQ_FOREACH(station, &engine->stations, in_engine) {
		perf_update_station(engine, station, now, false);
		settle_closed(engine, station);
	}
	root_settle(engine);
}

static void perf_each_fd(const struct engine *base, void (*each)(void *userdata, int fd, uint64_t id), void *userdata)
{
	const struct perf_engine *engine = perf_engine_const(base);
	const struct station *station;

	TAILQ_FOREACH(station, &engine->stations, in_engine)
		for (size_t i = 0; i < base->plan->scope[station->scope].nr_sets; i++) {
			const struct scope_plan *plan = &base->plan->scope[station->scope];
			const struct set_readers *readers = station->sets[i];

			if (set_has_probe(plan, &plan->sets[i]))
				continue;
			for (size_t k = 0; readers && k < readers->nr; k++) {
				const struct reader *reader = &readers->readers[k];

				for (size_t m = 0; !reader->dead && m < readers->nr_events; m++)
					if (reader->fds[m] >= 0)
						each(userdata, reader->fds[m], reader->ids[m]);
			}
		}
}

/* --- making */

static void perf_destroy(struct engine *base)
{
	struct perf_engine *engine = perf_engine(base);

	while (!TAILQ_EMPTY(&engine->stations))
		station_remove(engine, TAILQ_FIRST(&engine->stations));
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		free(base->findings[scope]);
		free(engine->heirs[scope]);
		free(engine->shared[scope]);
	}
	cpulist_release(&engine->lost_since);
	handover_free(engine->handover);
	plan_unref(base->plan);
	free(engine->buffer);
	free(engine);
}

static int perf_create(struct engine **ret, struct plan *plan, const struct privilege *privilege)
{
	struct perf_engine *engine = calloc(1, sizeof(*engine));
	size_t largest = 0;
	bool failed = false;

	if (!engine)
		return -ENOMEM;
	engine->engine.ops = &engine_perf;
	engine->engine.plan = plan_ref(plan);
	engine->engine.privilege = privilege;
	TAILQ_INIT(&engine->stations);

	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		const struct scope_plan *sp = &plan->scope[scope];

		engine->engine.findings[scope] = calloc(sp->nr_sets + 1, sizeof(struct finding));
		engine->heirs[scope] = calloc(sp->nr_sets + 1, sizeof(size_t));
		engine->shared[scope] = calloc(sp->nr_sets + 1, sizeof(size_t));
		failed |= !engine->engine.findings[scope] || !engine->heirs[scope] || !engine->shared[scope];
		for (size_t i = 0; i < sp->nr_sets; i++)
			if (sp->sets[i].nr > largest)
				largest = sp->sets[i].nr;
	}
	engine->buffer = calloc(3 + 4 * largest, sizeof(*engine->buffer));
	if (failed || !engine->buffer) {
		perf_destroy(&engine->engine);
		return -ENOMEM;
	}
	root_find_shared(engine);
	*ret = &engine->engine;
	return 0;
}

const struct engine_ops engine_perf = {
	.name = "perf-cgroup",
	.create = perf_create,
	.destroy = perf_destroy,
	.fds_needed = perf_fds_needed,
	.is_open = perf_is_open,
	.has = perf_has,
	.add = perf_add,
	.remove = perf_remove,
	.finish = perf_finish,
	.read = perf_read,
	.life = perf_life,
	.succeed = perf_succeed,
	.each_fd = perf_each_fd,
	.save = perf_save,
	.restore = perf_restore,
};
