/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The open events of the engine: targets, and for each set of a target a kernel group on each CPU.
 *
 * The root cgroup has all tasks, so its counts are those of all CPUs. Where one of its sets stands on the same counters
 * as a set of the CPUs (set_find_twin()), nothing is opened for it: its set is shared, and each reading of the CPUs'
 * set is added to the root's row too. The root's other sets are opened as the CPUs' are, without a cgroup: the times of
 * cgroup events stand still where no other cgroup ever runs (kernel 6.18).
 */

#include "counting/engine/engine.h"
#include "counting/engine/perf/group.h"

/* A set that is open for one target: a group for each of the target's CPUs on which the set is counted, in the order of
 * their numbers. One allocation, with the groups' arrays behind it. */
struct perf_groups {
	size_t nr;
	size_t nr_events; /* of each group: the set's members, and the clock (run-clock.h) */
	bool deferred;	  /* groups that are not open have not been tried yet */
	bool shared;	  /* of the root cgroup: nothing is open, the CPUs' readings feed it */
	struct perf_level level;
	struct perf_group groups[];
};

struct perf_target {
	enum scope scope;
	uint64_t id;
	TAILQ_ENTRY(perf_target) in_engine;
	UT_hash_handle hh;
	bool idles;	 /* its time has idle time in it */
	uint64_t parent; /* as in struct engine_target; 0 in a restored engine */
	unsigned depth;
	struct totals_row **rows; /* one a CPU, as they were given; of the same allocation */
	size_t nr_rows;
	struct perf_groups *sets[]; /* one a set of the scope's plan; NULL: not open, or another engine's */
};

struct perf_engine {
	struct engine engine;
	TAILQ_HEAD(perf_target_list, perf_target) targets;
	struct perf_target *by_id[_SCOPE_MAX];
	struct cpulist lost_since; /* CPUs on which groups were found to have been taken apart */
	uint64_t *buffer;	   /* for readings of the largest set */
	struct cpu_freqs freqs;	   /* of the CPUs on which something is counted */
	bool doubtful;		   /* this kernel's running times of cgroups have been found false */
	/* One a set of the cgroups' scope: all CPUs, and all cgroups below the root, of the same stretch of time. */
	struct perf_level *cpus, *highest;

	/* In a takeover: */
	struct perf_engine *from;		/* the predecessor, or NULL */
	const struct engine_takeover *takeover; /* borrowed */
	size_t *predecessors[_SCOPE_MAX];	/* one a set: that of `from` which it continues, or NO_SET */
	struct handover *handover;		/* of events whose sets are not equal */
};

static inline struct perf_engine *perf_engine(struct engine *engine)
{
	return (struct perf_engine *)engine;
}

static inline const struct perf_engine *perf_engine_const(const struct engine *engine)
{
	return (const struct perf_engine *)engine;
}

/* In a takeover: is that set of the predecessor's plan one of the engine's now, as it is? */
static inline bool perf_goes_over(const struct perf_engine *engine, enum scope scope, size_t set)
{
	for (size_t i = 0; i < engine->engine.env.plan->scope[scope].nr_sets; i++)
		if (engine->predecessors[scope][i] == set)
			return true;
	return false;
}

/* --- the groups of one set */

/* Groups, none of them open, for those of the set's CPUs that are among cpus. rows[i] is fed by cpus->cpu[i]. NULL: no
 * memory. */
struct perf_groups *perf_groups_new(const struct scope_plan *plan, const struct set *set, const struct cpulist *cpus,
				    struct totals_row *const *rows);
/* Closes them at once. NULL is fine. */
void perf_groups_free(struct perf_groups *groups, struct engine_stats *stats);

size_t perf_groups_nr_open(const struct perf_groups *groups);
/* Is everything of the set open that can be: on all CPUs but those that are offline? */
bool perf_groups_are_whole(const struct perf_groups *groups);

/* Settles whether the cells of its rows are measured, by what was seen on each of their CPUs. */
void perf_groups_decide(struct perf_groups *groups, const struct scope_plan *plan, size_t set);

/* --- targets */

/* A target in the engine, with nothing open yet. NULL: no memory. */
struct perf_target *perf_target_new(struct perf_engine *engine, const struct engine_target *spec,
				    struct totals_row *const *rows, size_t nr_rows);
/* engine may be NULL. */
struct perf_target *perf_target_find(const struct perf_engine *engine, enum scope scope, uint64_t id);

/* Files that are open for it; target may be NULL. */
size_t perf_target_nr_fds(const struct perf_target *target, const struct scope_plan *plan);

/* Reads the target, or one set of it, and adds to its rows. at: CLOCK_MONOTONIC ns; last: it is closed after that. */
void perf_target_update(struct perf_engine *engine, struct perf_target *target, uint64_t at, bool last);
void perf_target_update_set(struct perf_engine *engine, struct perf_target *target, size_t set, uint64_t at, bool last);
/* Sets that are not open are not measured, whatever an earlier cgroup of that label, or an earlier plan, has left. */
void perf_target_decide_closed(const struct perf_engine *engine, const struct perf_target *target);

/* The target of its parent cgroup, or NULL. The root cgroup is nobody's: it is counted as CPUs are. */
struct perf_target *perf_target_find_parent(const struct perf_engine *engine, const struct perf_target *target);

/* A set is not measured; … an estimated set whose level does not agree with others (levels.h) is not measured. */
void perf_target_unmeasure(const struct perf_engine *engine, const struct perf_target *target, size_t set);
void perf_target_unmeasure_doubted(const struct perf_engine *engine, const struct perf_target *target, size_t set);

/* Closes all at once, unread. */
void perf_target_remove(struct perf_engine *engine, struct perf_target *target);
/* Reads the target for the last time and closes it. wait: all of it is closed on return, because the room is needed;
 * else slow files are left to the closer. */
void perf_target_end(struct perf_engine *engine, struct perf_target *target, uint64_t now, bool wait);
/* The same for one set, with the closer. */
void perf_target_end_set(struct perf_engine *engine, struct perf_target *target, size_t set, uint64_t now);

/* --- the root cgroup */

/* Can the CPUs' readings feed the root's set: is it this engine's, or credited by another, which leaves the root to
 * who counts the CPUs? */
bool perf_may_feed_root(const struct perf_engine *engine, size_t set);
/* The other scope's set that stands on the same counters, where this engine counts both for the root; or NO_SET. */
size_t perf_find_twin(const struct perf_engine *engine, enum scope scope, size_t set);
/* Is the target the root cgroup, and is that set counted by the CPUs' events? */
bool perf_set_is_shared(const struct perf_engine *engine, enum scope scope, uint64_t id, size_t set);
/* The root's group that a CPU's set feeds as well, and the account of it; NULL: there is none. */
struct perf_group *perf_target_find_fed(const struct perf_engine *engine, const struct perf_target *cpu, size_t set,
					struct account *ret);
