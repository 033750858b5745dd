/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An engine gets counts from the kernel and adds them to rows of the ledger. It knows fds (or maps, or
 * ring buffers) and nothing of series, limits or states; what it finds out about a set on the way it
 * leaves in the set's finding, of which struct count makes the events' states.
 *
 * engine-perf.c is the kernel's own way: one fd per event, CPU and cgroup.
 */

#include "count/fd-pool.h"
#include "count/ledger.h"
#include "util/closer.h"
#include "util/pack.h"

/* What reading a set has shown, summed over all its targets. */
struct finding {
	uint64_t enabled, running; /* ns, since the finding was last looked at */
	uint64_t busy;		   /* of running, what is of targets that do not idle */
	bool ever_ran;
	uint64_t waited; /* ns: how long one of its groups has been enabled at most; of interest where none ever ran */
	bool timeless; /* counts rose while the running time stood still, since the finding was last looked at */
	uint64_t failures; /* targets or readings that failed since then */
	struct reason why; /* the last failure's sentence */
	struct reason lasting; /* of a set that is not open on some CPU: stays until the next plan */
};

struct engine_stats {
	size_t fds;
	uint64_t changes; /* perf events opened or closed since ever */
	uint64_t read_errors, backwards;
};

struct engine {
	const struct engine_ops *ops;
	struct plan *plan;		     /* a reference */
	const struct privilege *privilege;   /* borrowed */
	struct closer *closer;		     /* of slow files, or NULL; borrowed */
	bool defers; /* what is only new of a cgroup that goes on is opened when that is added once more */
	struct finding *findings[_SCOPE_MAX]; /* one a set */
	struct engine_stats stats;
};

/* A CPU, or a cgroup on all CPUs. */
struct engine_target {
	enum scope scope;
	uint64_t id;	 /* the CPU's number, or the cgroup's id */
	const char *label; /* for sentences; "" for a CPU */
	int cgroup_fd;	 /* of a cgroup: its directory, or the negative errno of opening it: then what is open of it can
			  * go on, and nothing more can be opened. -1 for a CPU, and for the root cgroup: both have all
			  * tasks. */
	bool idles;	 /* idle time is in its time: a CPU, or the root cgroup, which has the idle tasks */
};

/* What an engine knows of a CPU. */
enum life {
	LIFE_UNKNOWN, /* it counts nothing there but cgroups' events, which can't tell that it is online */
	LIFE_ONLINE,
	LIFE_BEEN_OFFLINE, /* since it was added: what counts on it has to be opened anew */
};

struct engine_ops {
	const char *name;
	int (*create)(struct engine **ret, struct plan *plan, const struct privilege *privilege);
	void (*destroy)(struct engine *engine);

	/* How many more fds will be open after add(). */
	size_t (*fds_needed)(const struct engine *engine, enum scope scope, uint64_t id);

	/* Is anything of the set open, on any target? */
	bool (*is_open)(const struct engine *engine, enum scope scope, size_t set);

	/* Is the target counted? */
	bool (*has)(const struct engine *engine, enum scope scope, uint64_t id);

	/*
	 * Starts counting a target, or what could not be opened of it before. rows[i] is fed by cpus->cpu[i];
	 * they may all be the same row. Each set is opened on all of its CPUs or not at all, unless a part of it
	 * was taken over; 0 where at least one is, with a sentence in why where another is not, or not all of it,
	 * or not yet. -EMFILE, -ENFILE, -ENOMEM: no room, nothing is open. -ENOENT: the kernel knows no such
	 * cgroup. Other errors: no set could be opened; why says.
	 */
	int (*add)(struct engine *engine, const struct engine_target *target, const struct cpulist *cpus,
		   struct row *const *rows, uint64_t now, struct reason *why);

	/* Reads a target for the last time and closes it; what is slow to close, by the closer. now: CLOCK_MONOTONIC
	 * ns. */
	void (*remove)(struct engine *engine, enum scope scope, uint64_t id, uint64_t now);

	/* The same for all targets. */
	void (*finish)(struct engine *engine, uint64_t now);

	/* Reads all targets. */
	void (*read)(struct engine *engine, uint64_t now);

	/* What the last readings say of a CPU. */
	enum life (*life)(const struct engine *engine, int cpu);

	/* From now on add() takes the target over from `from`: of an equal set what it has open, so that
	 * nothing is lost, but for the CPUs that are lost (borrowed; they have been offline); of others, the last
	 * counts. NULL ends that. Both have to be of the same ops. */
	void (*succeed)(struct engine *engine, struct engine *from, const struct cpulist *lost);

	/* Calls each() with every perf event that is open, and may stay open when the daemon is gone, and its id
	 * (PERF_EVENT_IOC_ID), which is its own until the machine is restarted. */
	void (*each_fd)(const struct engine *engine, void (*each)(void *userdata, int fd, uint64_t id), void *userdata);

	/*
	 * Writes those and where they stand (image.h); rows are named by their `number`. restore() makes it
	 * again in an engine without targets, with the fds of the pool: what has none there is not open any more.
	 * -EBADMSG where it can't have been written by save(), -ENOMEM.
	 */
	void (*save)(const struct engine *engine, struct buf *out);
	int (*restore)(struct engine *engine, struct unpack *in, struct row *const *rows, size_t nr_rows,
		       struct fd_pool *fds);
};

extern const struct engine_ops engine_perf;
