/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The engine of the kernel's own perf events, from inside: engine-perf.c counts, engine-perf-image.c writes what is
 * open into an image and makes it again.
 *
 * A station is a target that is counted. It has the readers of each set of its scope's plan, one a CPU.
 */

#include "count/reader.h"

/* A set, open for one target: a reader for each of the target's CPUs on which the set is counted, in the order of
 * their numbers. One allocation, with the readers' arrays behind it. */
struct set_readers {
	size_t nr;
	size_t nr_events;
	bool deferred; /* what is not open has not been tried yet */
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

/* Of engine_ops. */
void perf_save(const struct engine *engine, struct buf *out);
int perf_restore(struct engine *engine, struct unpack *in, struct row *const *rows, size_t nr_rows,
		 struct fd_pool *fds);
