/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Counting: the one interface the manager and snapshots have to it.
 *
 * A plan says what is counted, a ledger holds the totals, and behind both stands an engine (engine.h)
 * that gets counts from the kernel and adds them to the ledger's rows. CPUs and cgroups are added and
 * removed as the manager finds them; count_read() brings all rows up to date.
 *
 * What does not fit the limit of open files is not opened (the answer says so), so that fds for the
 * daemon's other work are always left.
 */

#include "count/ledger.h"

/* Why a cgroup is counted or not; kept in struct cgroup's status. */
enum cgroup_status {
	CGROUP_WAITING,	 /* to be opened */
	CGROUP_COUNTED,
	CGROUP_EXCLUDED, /* [cgroup] include and exclude */
	CGROUP_OVER_MAX, /* [cgroup] max */
	CGROUP_OVER_FDS, /* RLIMIT_NOFILE */
	CGROUP_FAILED,	 /* the reason says */
	_CGROUP_STATUS_MAX,
};

const char *cgroup_status_name(enum cgroup_status status);

struct count;

struct count_options {
	bool cgroup_per_cpu;
	uint64_t linger;     /* ns */
	uint64_t cgroup_max; /* cgroups counted at once */
	uint64_t fd_reserve; /* fds left to the rest of the daemon */
};

/* Takes a reference to plan; cpus are the online ones. privilege has to outlive it. */
int count_new(struct count **ret, struct plan *plan, const struct cpulist *cpus, const struct privilege *privilege,
	      const struct count_options *options);
/* Closes all. */
struct count *count_free(struct count *count);
DEFINE_CLEANUP(struct count *, count_free)

/* The time all of this room works with: CLOCK_MONOTONIC in ns. */
uint64_t count_now(void);

/*
 * Makes count the successor of `from`, for a reload: what is added to it takes over what `from` has open
 * for an equal set, with nothing lost; other sets of that target are read a last time just before theirs
 * are opened. What is not added has to be removed from `from`. count_succeeded() ends that: totals of
 * whatever is counted in both go on, and `from` can be freed. -ENOMEM: they could not all be carried.
 */
void count_succeed(struct count *count, struct count *from);
int count_succeeded(struct count *count, struct count *from);

/* Opens the CPU scope's sets on all CPUs. Sets that can't be opened say so in their columns' states.
 * -ENOMEM. */
int count_add_cpus(struct count *count);
/* Tries those again. */
void count_mend_cpus(struct count *count);

/* Opens the cgroup's sets, each on all CPUs or not at all; or, of one that is counted, those that could not be opened
 * then. Its status afterwards (enum cgroup_status), with the
 * sentence in why where it is not CGROUP_COUNTED, or not with all of its sets; -ENOENT where it is gone
 * (normal); -ENOMEM. */
int count_add_cgroup(struct count *count, const struct cgroup_tree *tree, const struct cgroup *cgroup,
		     struct reason *why);

/* Reads the cgroup's counters a last time, closes them, and lets its rows linger (or drops them, where
 * it is still there but no longer wanted). */
void count_remove_cgroup(struct count *count, const struct cgroup *cgroup, bool linger);

/* Reads everything that is open and adds to the totals. Never fails as a whole: a group that can't be
 * read is counted in the stats, and its columns' states say why. */
void count_read(struct count *count);

/* count_read() as the end of an interval: rates, shares and states are worked out, and rows that have
 * lingered are dropped. busy: ns in which each CPU was busy in the interval, or NULL where that is not known;
 * it is only looked at while count_is_in_doubt() (stall.h). */
void count_tick(struct count *count, const uint64_t *busy);
bool count_is_in_doubt(const struct count *count);

struct plan *count_plan(const struct count *count);
const struct ledger *count_ledger(const struct count *count);

/* The state of a column now: of the plan, or what reading has found since. *why may become NULL. */
enum event_state count_column_state(const struct count *count, enum scope scope, size_t column, const char **why);

struct count_stats {
	uint64_t reads, read_ns, read_errors, backwards;
	uint64_t last_read; /* CLOCK_MONOTONIC ns; 0: never */
	size_t fds, cpus, lingering;
};
struct count_stats count_stats(const struct count *count);
const char *count_engine_name(const struct count *count);
