/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The engine of the kernel's own perf events, from inside: engine-perf.c counts, engine-perf-root.c has the root
 * cgroup counted by the CPUs' events, engine-perf-image.c writes what is open into an image and makes it again.
 *
 * A station is a target that is counted. It has the readers of each set of its scope's plan, one a CPU.
 *
 * The root cgroup has all tasks, so that its counts are those of all CPUs. Where a set of the CPUs counts the same as a
 * set of cgroups (plan_find_cpu_set()), no event is opened for the root: its set is shared, and each reading of the
 * CPUs' set is added to the root's row as well. Its other sets are opened as the CPUs' are, without a cgroup: the times
 * of cgroup events stand still where no other cgroup ever runs (kernel 6.18).
 */

#include "count/reader.h"

/* A set, open for one target: a reader for each of the target's CPUs on which the set is counted, in the order of
 * their numbers. One allocation, with the readers' arrays behind it. */
struct set_readers {
	size_t nr;
	size_t nr_events;
	bool deferred; /* what is not open has not been tried yet */
	bool shared;   /* of the root cgroup: nothing is open, the CPUs' readings feed it */
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
	struct cpulist lost_since;  /* CPUs on which groups were found to have been taken apart */
	struct perf_engine *from;   /* the engine this one succeeds, or NULL */
	const struct cpulist *lost; /* then: CPUs that have been offline since `from` opened what is on them */
	size_t *heirs[_SCOPE_MAX];  /* one a set: the equal set of `from`, or NO_SET */
	size_t *shared[_SCOPE_MAX]; /* one a set: the other scope's that counts the same in the root, or NO_SET */
	struct handover *handover;  /* of events whose sets are not equal; while it succeeds `from` */
	uint64_t *buffer;	    /* for readings of the largest set */
};

static inline struct perf_engine *perf_engine(struct engine *engine)
{
	return (struct perf_engine *)engine;
}

static inline const struct perf_engine *perf_engine_const(const struct engine *engine)
{
	return (const struct perf_engine *)engine;
}

/* A station in the engine, without a reader yet; NULL when there is no memory. */
struct station *station_new(struct perf_engine *engine, const struct engine_target *target, struct row *const *rows,
			    size_t nr_rows);
/* Readers, none of them open, for those of the set's CPUs that are among cpus; NULL when there is no memory. */
struct set_readers *set_readers_new(const struct set *set, const struct cpulist *cpus, struct row *const *rows);

void set_readers_free(struct set_readers *readers, struct engine_stats *stats);
/* Settles whether the cells of its rows are measured, by what was seen on each of their CPUs. */
void set_readers_settle(struct set_readers *readers, const struct set *set);

/* Reads the station and adds to its rows. last: it is closed after it. */
void perf_update_station(struct perf_engine *engine, struct station *station, uint64_t at, bool last);

struct station *perf_find_station(const struct perf_engine *engine, enum scope scope, uint64_t id);

/* Works out which sets are shared, once. */
void root_find_shared(struct perf_engine *engine);
/* Is the target the root cgroup, and does a set of the CPUs stand for its set of that number? */
bool set_is_shared(const struct perf_engine *engine, enum scope scope, uint64_t id, size_t set);
/* Makes the shared sets of a station that is the root's; old: its station in the preceding engine, or NULL, whose
 * events that the CPUs' replace are closed. -ENOMEM. */
int root_share_sets(struct perf_engine *engine, struct station *station, struct station *old,
		    const struct cpulist *cpus, struct row *const *rows, uint64_t now);
/* The root's reader that the CPU's set feeds as well, and where its readings go; NULL where there is none. */
struct reader *root_find_fed(const struct perf_engine *engine, const struct station *cpu, size_t set,
			     struct sink *ret);
/* Settles the root's rows, after all CPUs have been read. */
void root_settle(struct perf_engine *engine);

/* Of engine_ops. */
void perf_save(const struct engine *engine, struct buf *out);
int perf_restore(struct engine *engine, struct unpack *in, struct row *const *rows, size_t nr_rows,
		 struct fd_pool *fds);
