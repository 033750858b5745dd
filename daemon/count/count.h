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

#include "count/fd-pool.h"
#include "count/ledger.h"
#include "target/cpu.h"
#include "util/buf.h"
#include "util/closer.h"

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
	uint64_t cgroup_max; /* cgroups counted at once, and as many linger at most */
	uint64_t fd_reserve; /* fds left to the rest of the daemon */
	const struct cpulist *excluded; /* CPUs of which nothing is to be counted, or NULL; borrowed */
	const struct cpu_topology *topology; /* to be kept in images, or NULL; borrowed */
	struct closer *closer;		/* of files that are slow to close, or NULL; borrowed */
};

/*
 * Of the groups of a plan to come: tracepoints and breakpoints that can't be looked up now (tracefs is not mounted or
 * not readable, kallsyms is closed), and that count has open, are not absent but stay what they were found to be: what
 * counts needs no name any more. While one is open the kernel gives its number to no other.
 */
void count_keep_events(const struct count *count, struct group_list groups[static _SCOPE_MAX]);

/* Takes a reference to plan; cpus are those that are online and to be counted. privilege has to outlive it. */
int count_new(struct count **ret, struct plan *plan, const struct cpulist *cpus, const struct privilege *privilege,
	      const struct count_options *options);
/* Closes all. */
struct count *count_free(struct count *count);
DEFINE_CLEANUP(struct count *, count_free)

/* The time all of this room works with: CLOCK_MONOTONIC in ns. */
uint64_t count_now(void);

/*
 * Makes count the successor of `from`, for a reload, a change of CPUs, or after a restart: what is added to it takes
 * over what `from` has open for an equal set, with nothing lost; other sets of that target are read a last time just
 * before theirs are opened, and so is what a CPU that has been offline has left, for which `from` is read at first.
 * count_succeeded() ends that: what is left in `from` is read a last time, totals of whatever is counted in both go
 * on, those of cgroups that are not counted any more linger, and `from` can be freed. -ENOMEM: they could not all be
 * carried.
 */
int count_succeed(struct count *count, struct count *from);
int count_succeeded(struct count *count, struct count *from);

/* Before count_succeed(): the mount of the cgroups is gone, or another hierarchy stands in its place. What `from` has
 * of cgroups is read a last time and closed (ids of another hierarchy can be the same), and the totals are held: they
 * are not shown, and go on when cgroups of those labels are counted again. */
void count_hold_cgroups(struct count *count, struct count *from);

/* Until then: CPUs that turned out to have been offline since what `from` has there was opened (borrowed). */
const struct cpulist *count_lost(const struct count *count);

/* Until then: of a cgroup that goes on with all it has, what is only new (events, a CPU) is not opened at once, but
 * when it is added once more, and its status has a sentence that says so. */
void count_defer(struct count *count);

/* Adds to ret the CPUs that have been offline since what counts on them was opened, as far as readings have shown:
 * time for a successor. -ENOMEM. */
int count_find_lost(const struct count *count, struct cpulist *ret);

/* Is there room for all that is to be counted on CPUs, beside what is open? */
bool count_has_room_for_cpus(const struct count *count);

/* Opens the CPU scope's sets on all CPUs. Sets that can't be opened say so in their columns' states.
 * -ENOMEM. */
int count_add_cpus(struct count *count);
/* Tries those again. */
void count_mend_cpus(struct count *count);

/* Closes what is still open of trying the plan's events (plan_end_tries()): all that is to be opened is. A cgroup of
 * which all is open ends them as well. */
void count_end_tries(struct count *count);

/* How many more cgroups fit, by cgroup_max and the limit of open files. */
size_t count_room(const struct count *count);

/* Opens the cgroup's sets, each on all CPUs or not at all; or, of one that is counted, those that could not be opened
 * then. Its status afterwards (enum cgroup_status), with the
 * sentence in why where it is not CGROUP_COUNTED, or not with all of its sets; -ENOENT where it is gone
 * (normal); -ENOMEM. */
int count_add_cgroup(struct count *count, const struct cgroup_tree *tree, const struct cgroup *cgroup,
		     struct reason *why);

/* Under that label: a cgroup can be mounted at a second place as well, and is counted at one. */
bool count_has_cgroup(const struct count *count, const struct cgroup *cgroup);
/* Under whatever label. */
bool count_is_counted(const struct count *count, const struct cgroup_identity *identity);

/* For how long it was seen to run, in ns, summed over all that is counted of it: it grows while the cgroup lives. */
uint64_t count_cgroup_time(const struct count *count, const struct cgroup *cgroup);

/* Reads the cgroup's counters a last time, closes them, and lets its rows linger (or drops them, where
 * it is still there but no longer wanted). */
void count_remove_cgroup(struct count *count, const struct cgroup *cgroup, bool linger);

/* Reads everything that is open and adds to the totals; rows that have lingered are dropped. What the reading has shown
 * becomes states at an interval's end, or, where that is far, from second to second. Never fails as a whole: a group
 * that can't be read is counted in the stats, and its columns' states say why. */
void count_read(struct count *count);

/* count_read() as the end of an interval: rates, shares and states are worked out. busy: ns in which each CPU was busy
 * in the interval, or NULL where that is not known; it is only looked at while count_is_in_doubt() (stall.h). */
void count_tick(struct count *count, const uint64_t *busy);
bool count_is_in_doubt(const struct count *count);

/*
 * Writes an image (image.h) of all that is counted, as of the last reading. False when there is no memory.
 *
 * count_restore() makes a count from one, with the perf events of the pool, which it takes out of it; it is read at
 * once. It counts nothing new: it is there to be succeeded. fds->nr_missed is then how many perf events of the image
 * were not in the pool any more; what they counted up to the image is not lost. -EBADMSG with the sentence in why, and
 * the pool is as it was, or may have been closed in part; -ENOMEM.
 */
bool count_save(const struct count *count, const char *boot_id, struct buf *out);
int count_restore(struct count **ret, const void *bytes, size_t size, const char *boot_id,
		  const struct privilege *privilege, struct fd_pool *fds, struct reason *why);

/* Calls each() with every perf event that is open, and may stay open when the daemon is gone, and its id: those that
 * count, and lifelines. */
void count_each_fd(const struct count *count, void (*each)(void *userdata, int fd, uint64_t id), void *userdata);

struct plan *count_plan(const struct count *count);

/* Where its CPUs sit: of its options, or of the image that it was restored from. */
const struct cpu_topology *count_topology(const struct count *count);
const struct ledger *count_ledger(const struct count *count);

/* The state of a column now: of the plan, or what reading has found since. *why may become NULL. */
enum event_state count_column_state(const struct count *count, enum scope scope, size_t column, const char **why);

struct count_stats {
	uint64_t reads, read_ns, read_errors, backwards;
	uint64_t changes;   /* perf events opened or closed since ever */
	uint64_t last_read; /* CLOCK_MONOTONIC ns; 0: never */
	size_t fds, cpus;
	size_t lingering;    /* cgroups */
	uint64_t pushed_out; /* cgroups that did not linger to the end, since others needed the room */
	size_t lifelines;    /* files that only tell whether a CPU is up (lifeline.h): of the fds where they are open */
	size_t cpus_offline; /* that were counted, and whose totals are kept */
};
struct count_stats count_stats(const struct count *count);
const char *count_engine_name(const struct count *count);
