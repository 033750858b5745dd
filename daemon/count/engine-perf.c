/* SPDX-License-Identifier: MIT */

#include "count/engine.h"

#include "count/estimate.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

/* One kernel group, open on one CPU for one target. */
struct reader {
	struct row *row;
	int cpu;
	int *fds;	/* the leader's first; -1 where the CPU is offline */
	uint64_t *ids;	/* the kernel's, in the order of fds: values are told apart by them */
	struct baseline base;
	/* The last reading's times, for the exposed ones; the baseline can lag behind. */
	uint64_t enabled, running;
	uint64_t read_at; /* CLOCK_MONOTONIC ns of it, or of the start */
	uint64_t base_at; /* … of the baseline */
	bool started;
	bool starved; /* it is pinned, had no counters, and has not been seen to run again */
	bool dead;    /* its CPU has been offline: the kernel has taken the group apart, for good */
	bool still;   /* no time went by between the last two readings, which on a CPU means the same */
};

/* Over less than some of the PMU's turns (kernel: perf_event_mux_interval_ms, 4 ms), the share of time that a group
 * ran is not that of its counts: totals came out 5 % low at 10 ms, and right from 50 ms on. */
#define BRIEF_NS 50000000U

/* Between two readings of a CPU that are so far apart, its time has gone on. */
#define STILL_NS 10000000U

/* A group is read some time after the clock is, and the two clocks differ. A time_enabled that is wrong is
 * so by the machine's uptime. */
#define CLOCK_SLACK_NS 1000000000U

/* A set, open for one target: a reader a CPU. One allocation, with the readers' arrays behind it. */
struct set_readers {
	size_t nr;
	size_t nr_events;
	struct reader readers[];
};

struct station {
	enum scope scope;
	uint64_t id;
	TAILQ_ENTRY(station) in_engine;
	UT_hash_handle hh;
	bool idles;	   /* its time has idle time in it */
	struct row **rows; /* one a CPU, as they were given; of the same allocation */
	size_t nr_rows;
	struct set_readers *sets[]; /* one a set of the scope's plan; NULL where not open */
};

struct perf_engine {
	struct engine engine;
	TAILQ_HEAD(, station) stations;
	struct station *by_id[_SCOPE_MAX];
	struct perf_engine *from; /* the engine this one succeeds, or NULL */
	int *reborn;		   /* CPUs that have been offline since `from` opened what is on them */
	size_t nr_reborn;
	bool closing;		   /* what is being read is read for the last time */
	size_t *heirs[_SCOPE_MAX]; /* one a set: the equal set of `from`, or NO_SET */
	uint64_t *buffer;	  /* of one reading of the largest set, then its values, then its deltas */
	size_t largest;
};

static struct perf_engine *perf_engine(struct engine *engine)
{
	return (struct perf_engine *)engine;
}

/* --- one set of one target */

/* Readers for those of the set's CPUs that are among cpus. */
static struct set_readers *set_readers_new(const struct set *set, const struct cpulist *cpus, struct row *const *rows)
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

/* Members before their leader: closing a leader first would make events of their own of them. */
static void reader_close(struct reader *reader, size_t nr_events, struct engine_stats *stats)
{
	for (size_t i = nr_events; i-- > 0;) {
		stats->fds -= reader->fds[i] >= 0;
		reader->fds[i] = safe_close(reader->fds[i]);
	}
}

static void set_readers_close(struct set_readers *readers, struct engine_stats *stats)
{
	if (!readers)
		return;
	for (size_t i = 0; i < readers->nr; i++)
		reader_close(&readers->readers[i], readers->nr_events, stats);
	free(readers);
}

static int reader_open(struct perf_engine *engine, struct reader *reader, const struct scope_plan *plan,
		       const struct set *set, int cgroup_fd, size_t *failed_at)
{
	for (size_t i = 0; i < set->nr; i++) {
		struct perf_event_attr attr = set_attr(plan, set, i);
		int fd = perf_open(plan->columns[set->columns[i]].event, &attr, reader->cpu, cgroup_fd,
				   i ? reader->fds[0] : -1);

		*failed_at = i;
		if (fd < 0)
			return fd;
		reader->fds[i] = fd;
		engine->engine.stats.fds++;
		if (ioctl(fd, PERF_EVENT_IOC_ID, &reader->ids[i]) < 0)
			return -errno;
	}
	return 0;
}

/* Opens the set without starting it. */
static int set_open(struct perf_engine *engine, struct set_readers **ret, const struct engine_target *target,
		    const struct set *set, const struct cpulist *cpus, struct row *const *rows, struct reason *why)
{
	const struct scope_plan *plan = &engine->engine.plan->scope[target->scope];
	struct set_readers *readers = set_readers_new(set, cpus, rows);
	size_t member = 0;

	if (!readers)
		return reason_set(why, -ENOMEM, "out of memory");
	for (size_t i = 0; i < readers->nr; i++) {
		struct reader *reader = &readers->readers[i];
		const struct event *event;
		struct reason detail;
		int r = reader_open(engine, reader, plan, set, target->cgroup_fd, &member);

		if (r == -ENODEV) /* gone offline since the plan was made: nothing runs there */
			reader_close(reader, set->nr, &engine->engine.stats);
		if (r == 0 || r == -ENODEV)
			continue;
		event = plan->columns[set->columns[member]].event;
		perf_open_explain(r, event, target->scope, reader->cpu, engine->engine.privilege, &detail);
		reason_set(why, 0, "%s%sCPU %d, '%s': %s", target->label, target->label[0] ? ", " : "", reader->cpu,
			   event->text, detail.text);
		set_readers_close(readers, &engine->engine.stats);
		return r;
	}
	*ret = readers;
	return 0;
}

static void set_start(struct set_readers *readers, uint64_t now)
{
	for (size_t i = 0; i < readers->nr; i++) {
		struct reader *reader = &readers->readers[i];

		/* It has no error that a group just opened could have; one that does not start is never seen to run. */
		if (reader->fds[0] >= 0)
			(void)perf_enable_group(reader->fds[0]);
		reader->read_at = reader->base_at = now;
		reader->started = true;
	}
}

/* Puts a reading's values into the order of fds, by the kernel's ids. It returns members in the order in
 * which they were opened, so that the first look is at the right place. */
static bool sort_values(const struct reader *reader, size_t nr, const uint64_t *pairs, uint64_t *values)
{
	for (size_t i = 0; i < nr; i++) {
		size_t k = i, tries = nr;

		while (tries && pairs[2 * k + 1] != reader->ids[i]) {
			k = (k + 1) % nr;
			tries--;
		}
		if (!tries)
			return false;
		values[i] = pairs[2 * k];
	}
	return true;
}

/* A pinned group that does not get its counters is in error state, and read(2) is at the end of file: to enable it
 * is to try it again. What comes next is no reading yet: in a cgroup that is not on the CPU it is enabled in any
 * case, and what has happened meanwhile was not counted. */
static int reader_starves(struct reader *reader, struct reason *why)
{
	reader->starved = true;
	return reason_set(why, -ENODATA,
			  "CPU %d has no counters free for it, and it is pinned, which is all or nothing: it is tried "
			  "again at each reading",
			  reader->cpu);
}

/* perf_event_open(2), "Reading results", with all of our read format: nr, enabled, running, (value, id)… */
static int reader_read(const struct perf_engine *engine, struct reader *reader, size_t nr, struct reading *ret,
		       struct reason *why)
{
	size_t size = (3 + 2 * nr) * sizeof(uint64_t);
	uint64_t *buffer = engine->buffer, *values = buffer + 3 + 2 * engine->largest;
	ssize_t n = read(reader->fds[0], buffer, size);

	if (n < 0)
		return reason_set(why, -errno, "reading on CPU %d: %s", reader->cpu, strerror(errno));
	if (n == 0) {
		(void)perf_enable_group(reader->fds[0]);
		return reader_starves(reader, why);
	}
	/* Its members have left it when the CPU went offline, where nothing is counted: what there is, is final. */
	if (nr > 1 && (size_t)n == 5 * sizeof(uint64_t) && buffer[0] == 1 && buffer[4] == reader->ids[0]) {
		reader->dead = true;
		return reason_set(why, -ENODEV, "CPU %d has been offline", reader->cpu);
	}
	if ((size_t)n != size || buffer[0] != nr || !sort_values(reader, nr, buffer + 3, values))
		return reason_set(why, -EBADMSG, "reading on CPU %d: the kernel returned another group than was opened",
				  reader->cpu);

	if (reader->starved && buffer[2] <= reader->running)
		return reader_starves(reader, why);
	reader->starved = false;
	*ret = (struct reading){ .enabled = buffer[1], .running = buffer[2], .values = values };
	return 0;
}

/* What time went by, if it can have; else as much as there was. */
static uint64_t bounded(uint64_t from, uint64_t to, uint64_t elapsed)
{
	uint64_t delta = to > from ? to - from : 0;

	return delta <= elapsed + CLOCK_SLACK_NS ? delta : elapsed;
}

/* Adds to the times that are exposed. */
static void add_times(struct reader *reader, const struct reading *now, uint64_t at, struct set_times *times,
		      struct finding *finding)
{
	uint64_t elapsed = at > reader->read_at ? at - reader->read_at : 0;
	uint64_t enabled = bounded(reader->enabled, now->enabled, elapsed);
	uint64_t running = bounded(reader->running, now->running, elapsed);

	running = running < enabled ? running : enabled;
	times->enabled += enabled;
	times->running += running;
	finding->enabled += enabled;
	finding->running += running;
	reader->still = now->enabled == reader->enabled && elapsed > STILL_NS;
	finding->ever_enabled |= now->enabled > 0;
	finding->ever_ran |= now->running > 0;
	reader->enabled = now->enabled;
	reader->running = now->running;
	reader->read_at = at;
}

/* What a reading says about whether its row's cells are known. */
enum sight {
	SIGHT_CLOSED,  /* not open on that CPU: says nothing */
	SIGHT_NONE,    /* never enabled there: a true 0 */
	SIGHT_PENDING, /* enabled and never run: unknown */
	SIGHT_SEEN,
	SIGHT_LOST,    /* could not be read */
};

static void add_counts(struct perf_engine *engine, struct reader *reader, const struct set *set,
		       const struct reading *now, uint64_t at)
{
	uint64_t *deltas = engine->buffer + 3 + 3 * engine->largest;

	switch (estimate(&reader->base, now, set->nr, set->exact, deltas)) {
	case ESTIMATE_COUNTED:
		for (size_t i = 0; i < set->nr; i++)
			reader->row->cells[set->columns[i]].total += deltas[i];
		reader->base_at = at;
		break;
	case ESTIMATE_UNOBSERVED:
		break;
	case ESTIMATE_BACKWARDS:
		engine->engine.stats.backwards++;
		break;
	}
}

static enum sight reader_update(struct perf_engine *engine, struct reader *reader, const struct set *set,
				size_t set_at, uint64_t at, struct finding *finding)
{
	struct reading now;
	int r;

	if (reader->fds[0] < 0 || reader->dead)
		return SIGHT_CLOSED;
	r = reader_read(engine, reader, set->nr, &now, &finding->why);
	if (r == -ENODEV)
		return SIGHT_CLOSED;
	if (r < 0) {
		engine->engine.stats.read_errors++;
		finding->failures++;
		return SIGHT_LOST;
	}
	now.most = at - reader->base_at + CLOCK_SLACK_NS;
	now.brief = at - reader->base_at < BRIEF_NS && !engine->closing;
	add_times(reader, &now, at, &reader->row->times[set_at], finding);
	add_counts(engine, reader, set, &now, at);

	if (set->exact || reader->base.running > 0)
		return SIGHT_SEEN;
	return now.enabled > 0 ? SIGHT_PENDING : SIGHT_NONE;
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

static void set_update(struct perf_engine *engine, struct set_readers *readers, const struct set *set, size_t set_at,
		       uint64_t at, struct finding *finding)
{
	unsigned sights = 0;

	for (size_t i = 0; i < readers->nr; i++) {
		struct row *row = readers->readers[i].row;

		sights |= 1U << reader_update(engine, &readers->readers[i], set, set_at, at, finding);
		if (i + 1 < readers->nr && readers->readers[i + 1].row == row)
			continue;
		settle_row(row, set, sights);
		sights = 0;
	}
}

/* --- stations */

static void station_update(struct perf_engine *engine, struct station *station, uint64_t at)
{
	const struct scope_plan *plan = &engine->engine.plan->scope[station->scope];

	for (size_t i = 0; i < plan->nr_sets; i++) {
		struct finding *finding = &engine->engine.findings[station->scope][i];
		uint64_t before = finding->running;

		if (!station->sets[i])
			continue;
		set_update(engine, station->sets[i], &plan->sets[i], i, at, finding);
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
		set_readers_close(station->sets[i], &engine->engine.stats);
	free(station);
}

static struct station *station_new(const struct engine_target *target, size_t nr_sets, struct row *const *rows,
				   size_t nr_rows)
{
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
	return station;
}

static struct station *find_station(const struct perf_engine *engine, enum scope scope, uint64_t id)
{
	struct station *station = NULL;

	if (engine)
		HASH_FIND(hh, engine->by_id[scope], &id, sizeof(id), station);
	return station;
}

/* Moves open fds over from the preceding engine: they go on counting, and so does their baseline. Both are
 * on the same CPUs (set_find_equal()), of which the target's rows are told by. */
static void set_inherit(struct perf_engine *engine, struct set_readers **ret, struct set_readers **from,
			const struct cpulist *cpus, struct row *const *rows)
{
	struct set_readers *readers = *from;
	size_t at = 0;

	*from = NULL;
	for (size_t i = 0; i < readers->nr; i++) {
		struct reader *reader = &readers->readers[i];

		while (cpus->cpu[at] != reader->cpu)
			at++;
		reader->row = rows[at];
		for (size_t k = 0; k < readers->nr_events; k++)
			if (reader->fds[k] >= 0) {
				engine->engine.stats.fds++;
				engine->from->engine.stats.fds--;
			}
	}
	*ret = readers;
}

static size_t nr_fds(const struct set *set, enum scope scope)
{
	return set->nr * (scope == SCOPE_CPU ? 1 : set->cpus.nr);
}

static size_t perf_fds_needed(const struct engine *base, enum scope scope, uint64_t id)
{
	const struct perf_engine *engine = (const struct perf_engine *)base;
	const struct scope_plan *plan = &base->plan->scope[scope];
	const struct station *old = find_station(engine->from, scope, id), *own = find_station(engine, scope, id);
	size_t needed = 0, freed = 0;

	for (size_t i = 0; i < plan->nr_sets; i++)
		if (!(own && own->sets[i]) && (scope != SCOPE_CPU || cpulist_has(&plan->sets[i].cpus, (int)id)))
			needed += nr_fds(&plan->sets[i], scope);
	/* Of the preceding engine, what is not taken over is closed first. */
	for (size_t i = 0; old && i < engine->from->engine.plan->scope[scope].nr_sets; i++)
		if (old->sets[i])
			freed += nr_fds(&engine->from->engine.plan->scope[scope].sets[i], scope);
	return needed > freed ? needed - freed : 0;
}

static bool perf_has(const struct engine *base, enum scope scope, uint64_t id)
{
	return find_station((const struct perf_engine *)base, scope, id) != NULL;
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

static void perf_remove(struct engine *base, enum scope scope, uint64_t id, uint64_t now)
{
	struct perf_engine *engine = perf_engine(base);
	struct station *station = find_station(engine, scope, id);

	if (!station)
		return;
	engine->closing = true;
	station_update(engine, station, now);
	engine->closing = false;
	station_remove(engine, station);
}

/* Does it still count on all of its CPUs? */
static bool is_alive(const struct perf_engine *engine, const struct set_readers *readers)
{
	for (size_t i = 0; i < readers->nr; i++) {
		if (readers->readers[i].dead)
			return false;
		for (size_t k = 0; k < engine->nr_reborn; k++)
			if (readers->readers[i].cpu == engine->reborn[k])
				return false;
	}
	return true;
}

/* Takes over equal sets of the preceding engine's station. */
static size_t inherit_sets(struct perf_engine *engine, struct station *station, const struct cpulist *cpus,
			   struct row *const *rows)
{
	const struct scope_plan *plan = &engine->engine.plan->scope[station->scope];
	struct station *old = find_station(engine->from, station->scope, station->id);
	size_t nr = 0;

	for (size_t i = 0; old && i < plan->nr_sets; i++) {
		size_t heir = engine->heirs[station->scope][i];

		if (heir == NO_SET || !old->sets[heir] || !is_alive(engine, old->sets[heir]))
			continue;
		set_inherit(engine, &station->sets[i], &old->sets[heir], cpus, rows);
		nr++;
	}
	return nr;
}

/* Opens the sets that are not open yet, as far as it goes; the last error, with its sentence, or 0. Of a CPU, the
 * sets' findings are told. */
static int open_missing(struct perf_engine *engine, struct station *station, const struct engine_target *target,
			const struct cpulist *cpus, struct row *const *rows, struct reason *why, bool tell)
{
	const struct scope_plan *plan = &engine->engine.plan->scope[target->scope];
	int error = 0;

	why->text[0] = '\0';
	for (size_t i = 0; i < plan->nr_sets && !(error == -ENOENT && target->scope == SCOPE_CGROUP); i++) {
		int r = station->sets[i] ? 0 :
					   set_open(engine, &station->sets[i], target, &plan->sets[i], cpus, rows, why);

		if (r < 0 && tell && target->scope == SCOPE_CPU)
			engine->engine.findings[SCOPE_CPU][i].lasting = *why;
		if (r < 0)
			error = r;
	}
	return error;
}

/* Starts what was opened; returns how many sets are open. */
static size_t start_sets(struct perf_engine *engine, struct station *station, uint64_t now)
{
	size_t nr = 0;

	for (size_t i = 0; i < engine->engine.plan->scope[station->scope].nr_sets; i++) {
		struct set_readers *readers = station->sets[i];

		if (!readers)
			continue;
		if (readers->nr && !readers->readers[0].started)
			set_start(readers, now);
		nr++;
	}
	return nr;
}

/*
 * Opens all sets of the target. What the preceding engine has open for it and is not taken over is read a
 * last time at the moment in which its replacement starts, or before that one is opened where there is no
 * room for both: of files, of breakpoints, of a PMU with one user. A set that can't be opened is left out, which
 * `why` then tells. A cgroup the kernel does not know ends it all, and so does a shortage, unless something was
 * taken over: that goes on.
 */
static int open_sets(struct perf_engine *engine, struct station *station, const struct engine_target *target,
		     const struct cpulist *cpus, struct row *const *rows, uint64_t now, struct reason *why)
{
	size_t nr_inherited = inherit_sets(engine, station, cpus, rows), nr_open;
	int r = open_missing(engine, station, target, cpus, rows, why, !engine->from);

	if (engine->from)
		perf_remove(&engine->from->engine, target->scope, target->id, now);
	if (r < 0 && engine->from)
		r = open_missing(engine, station, target, cpus, rows, why, true);
	if ((r == -ENOENT && target->scope == SCOPE_CGROUP) || (is_shortage(r) && nr_inherited == 0))
		return r;

	nr_open = start_sets(engine, station, now);
	return nr_open ? 0 : r;
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
	struct station *station = find_station(engine, target->scope, target->id);
	int r;

	if (station)
		return mend_station(engine, station, target, cpus, rows, now, why);
	station = station_new(target, base->plan->scope[target->scope].nr_sets, rows, cpus->nr);
	if (!station)
		return reason_set(why, -ENOMEM, "out of memory");
	r = open_sets(engine, station, target, cpus, rows, now, why);
	if (r == 0) {
		HASH_ADD(hh, engine->by_id[target->scope], id, sizeof(station->id), station);
		if (!station->hh.tbl)
			r = reason_set(why, -ENOMEM, "out of memory");
	}
	if (r < 0) {
		/* What was inherited has its last counts. */
		station_update(engine, station, now);
		station_free(engine, station);
		return r;
	}
	TAILQ_INSERT_TAIL(&engine->stations, station, in_engine);
	return 0;
}

static void perf_read(struct engine *base, uint64_t now)
{
	struct perf_engine *engine = perf_engine(base);
	struct station *station;

	TAILQ_FOREACH(station, &engine->stations, in_engine) {
		station_update(engine, station, now);
		settle_closed(engine, station);
	}
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
		finding->ever_enabled = engine->from->engine.findings[scope][k].ever_enabled;
		finding->ever_ran = engine->from->engine.findings[scope][k].ever_ran;
	}
}

static bool was_offline(const struct station *station, size_t nr_sets)
{
	for (size_t i = 0; i < nr_sets; i++)
		if (station->sets[i] && station->sets[i]->nr &&
		    (station->sets[i]->readers[0].dead || station->sets[i]->readers[0].still))
			return true;
	return false;
}

/* An event on a CPU that has been offline counts no more, and a single one does not show it but by its time. Where
 * no event is counted on the CPU as a whole, it is not known. */
static void find_reborn(struct perf_engine *engine)
{
	size_t nr_sets = engine->from->engine.plan->scope[SCOPE_CPU].nr_sets;
	const struct station *station;

	TAILQ_FOREACH(station, &engine->from->stations, in_engine) {
		int *cpus = NULL;

		if (station->scope == SCOPE_CPU && was_offline(station, nr_sets))
			cpus = reallocarray(engine->reborn, engine->nr_reborn + 1, sizeof(*cpus));
		if (!cpus)
			continue;
		engine->reborn = cpus;
		cpus[engine->nr_reborn++] = (int)station->id;
	}
}

static void perf_succeed(struct engine *base, struct engine *from)
{
	struct perf_engine *engine = perf_engine(base);

	engine->from = from ? perf_engine(from) : NULL;
	for (int scope = 0; from && scope < _SCOPE_MAX; scope++)
		find_heirs(engine, (enum scope)scope);
	if (from)
		find_reborn(engine);
}

static void perf_destroy(struct engine *base)
{
	struct perf_engine *engine = perf_engine(base);

	while (!TAILQ_EMPTY(&engine->stations))
		station_remove(engine, TAILQ_FIRST(&engine->stations));
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		free(base->findings[scope]);
		free(engine->heirs[scope]);
	}
	plan_unref(base->plan);
	free(engine->reborn);
	free(engine->buffer);
	free(engine);
}

static int perf_create(struct engine **ret, struct plan *plan, const struct privilege *privilege)
{
	struct perf_engine *engine = calloc(1, sizeof(*engine));
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
		failed |= !engine->engine.findings[scope] || !engine->heirs[scope];
		for (size_t i = 0; i < sp->nr_sets; i++)
			if (sp->sets[i].nr > engine->largest)
				engine->largest = sp->sets[i].nr;
	}
	engine->buffer = calloc(3 + 4 * engine->largest, sizeof(*engine->buffer));
	if (failed || !engine->buffer) {
		perf_destroy(&engine->engine);
		return -ENOMEM;
	}
	*ret = &engine->engine;
	return 0;
}

const struct engine_ops engine_perf = {
	.name = "perf-cgroup",
	.create = perf_create,
	.destroy = perf_destroy,
	.fds_needed = perf_fds_needed,
	.has = perf_has,
	.add = perf_add,
	.remove = perf_remove,
	.read = perf_read,
	.succeed = perf_succeed,
};
