/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A session counts by one plan, from the plan's making until another session takes over. It is the one interface that
 * the world and snapshots have to counting.
 *
 * A plan says what is counted, the totals hold the results, and the plan's engines (engines.h) get counts from the
 * kernel and add them to the totals. The world adds and removes CPUs and cgroups as it finds them; session_read()
 * brings all totals up to date.
 *
 * An event that has no room within the limit of open files is not opened, and the answer says so: files for the
 * daemon's other work are always left.
 *
 * A plan never changes. A reload, a change of CPUs and a restart make a new plan and a new session, which takes over
 * from the old one (session_takeover_begin()).
 */

#include "base/util/buf.h"
#include "counting/session/cgroup-status.h"
#include "counting/session/planner.h"
#include "counting/session/session-options.h"
#include "counting/totals/rows.h"

struct session;

/*
 * Keeps events of a plan to come that can't be looked up now (tracefs is not mounted or not readable, kallsyms is
 * closed) but are open in this session: such tracepoints and breakpoints are not absent, and stay what they were found
 * to be. An open event needs no name any more, and while it is open the kernel gives its number to no other.
 */
void session_retain_events(const struct session *session, struct group_list groups[static _SCOPE_MAX]);

/* Takes a reference to plan. cpus: online, and to be counted. privilege has to outlive the session. -ENOMEM. */
int session_new(struct session **ret, struct plan *plan, const struct cpulist *cpus, const struct privilege *privilege,
		const struct session_options *options);
/* Closes all. */
struct session *session_free(struct session *session);
DEFINE_CLEANUP(struct session *, session_free)

/*
 * Begins the takeover from `from`. Targets that are then added to `session` take over from `from`: an equal set stays
 * open and loses nothing; another set is read for the last time when the set that takes its place starts. `from` is
 * read at first, because that tells which CPUs have been offline: on those, events are read for the last time and
 * opened anew.
 *
 * session_takeover_end() reads for the last time what is left in `from`, and carries the totals: events that both count
 * continue, cgroups that are not counted any more linger. `from` can then be freed. -ENOMEM, of either: not all totals
 * could be carried; the takeover goes on.
 */
int session_takeover_begin(struct session *session, struct session *from);
int session_takeover_end(struct session *session, struct session *from);

/* Before session_takeover_begin(), where the mount of the cgroups is gone, or another hierarchy stands in its place:
 * reads the cgroups in `from` for the last time and closes them (another hierarchy can have the same ids). Their
 * totals are suspended: they are not shown, and continue when cgroups of those labels are counted again. */
void session_suspend_cgroups(struct session *session, struct session *from);

/* During a takeover: CPUs that turned out to have been offline since `from` opened its events there (borrowed). */
const struct cpulist *session_lost(const struct session *session);

/* Until the takeover ends: a cgroup that keeps all of its open events does not get new ones (of a new event, on a new
 * CPU) at once, but when it is added once more. Its status has a sentence that says so. */
void session_defer(struct session *session);

/* Adds to ret the CPUs that have been offline since their events were opened, as far as readings have shown: then it is
 * time for a takeover. -ENOMEM. */
int session_find_lost(const struct session *session, struct cpulist *ret);

/* Is there room for the CPUs' events that are not open yet? */
bool session_has_room_for_cpus(const struct session *session);

/* Opens the CPU scope's sets on all CPUs. Sets that can't be opened say so in their columns' states. -ENOMEM. */
int session_add_cpus(struct session *session);
/* Tries sets again that could not be opened. */
void session_mend_cpus(struct session *session);

/* Closes the events that the planner opened to try them (plan_end_tries()), when all targets are open. The first cgroup
 * of which everything is open ends them too. */
void session_end_tries(struct session *session);

/* How many files all CPUs take, and each cgroup. */
size_t session_fds_of_cpus(const struct session *session);
size_t session_fds_per_cgroup(const struct session *session);

/* How many more cgroups fit, by cgroup_max, the limit of open files and the engines' own bounds. */
size_t session_room(const struct session *session);

/* Opens the cgroup's sets, each on all CPUs or not at all; of a cgroup that is counted already, those that could not
 * be opened. Returns its status (enum cgroup_status), with a sentence in why where that is not CGROUP_COUNTED, or
 * where not all sets are open; -ENOENT: it is gone, which is normal; -ENOMEM. */
int session_add_cgroup(struct session *session, const struct cgroup_tree *tree, const struct cgroup *cgroup,
		       struct reason *why);

/* Is it counted under that label? One cgroup can be mounted at two places, and is counted at one of them. */
bool session_has_cgroup(const struct session *session, const struct cgroup *cgroup);
/* Is it counted, under whatever label? */
bool session_is_counted(const struct session *session, const struct cgroup_identity *identity);

/* The enabled time of its events, in ns, summed over all of them: it grows while the cgroup runs. */
uint64_t session_cgroup_time(const struct session *session, const struct cgroup *cgroup);

/* Reads the cgroup's events for the last time and closes them. linger: its rows linger; else they are dropped,
 * because it still exists and is not wanted any more. */
void session_remove_cgroup(struct session *session, const struct cgroup *cgroup, bool linger);

/* Reads everything that is open, adds to the totals, and drops rows that have lingered long enough. States are
 * judged at the end of an interval, and in a long one once a second. Never fails as a whole: a group that can't be
 * read is counted in the stats, and its columns' states say why. */
void session_read(struct session *session);

/* For the next session_tick(): the CPUs that are online now (borrowed until then). One that is not counted yet leaves
 * the interval without rates. */
void session_note_online(struct session *session, const struct cpulist *online);

/* Reads, and ends an interval: works out rates, shares and states. busy: ns in which each CPU was busy in the interval;
 * NULL: not known. It is of use only while session_is_in_doubt() (stall.h). */
void session_tick(struct session *session, const uint64_t *busy);
bool session_is_in_doubt(const struct session *session);

/*
 * Writes an image (session-image.h) of everything, as of the last reading. False: no memory. out is mostly that of the
 * last time.
 *
 * session_restore() makes a session from an image, takes its open events out of the pool, and reads them at once. That
 * session is there to be taken over from, and opens nothing new. stored->nr_missed is then the number of events that
 * were not in the pool; their counts up to the image are not lost. -EBADMSG with the sentence in why: the pool is as
 * it was, or closed in part; -ENOMEM.
 */
bool session_save(const struct session *session, const char *boot_id, struct rewrite *out);
int session_restore(struct session **ret, const void *bytes, size_t size, const char *boot_id,
		    const struct privilege *privilege, struct stored_pool *stored, struct reason *why);

/* A time that is kept with the session for whoever takes samples, over a restart too: until when some were taken.
 * CLOCK_MONOTONIC ns, or 0. */
uint64_t session_sampled(const struct session *session);
void session_set_sampled(struct session *session, uint64_t time);

/* Calls each() with every open file that may stay open while no daemon runs: of events, and canaries. */
void session_each_stored(const struct session *session, stored_visitor each, void *userdata);

struct plan *session_plan(const struct session *session);
/* Those that are counted now. */
const struct cpulist *session_cpus(const struct session *session);

/* Where its CPUs sit: from its options, or from the image that it was restored from. */
const struct cpu_topology *session_topology(const struct session *session);
const struct totals *session_totals(const struct session *session);

/* The state of a column now: the plan's, or what readings have found since. *why may become NULL. */
enum event_state session_column_state(const struct session *session, enum scope scope, size_t column, const char **why);

/* Is it counted in some cgroups, and not in others? Then its state is `failed`, and what is counted is shown. */
bool session_column_is_partial(const struct session *session, enum scope scope, size_t column);

struct session_stats {
	uint64_t reads, read_ns, read_errors, backwards;
	uint64_t lies[_LIE_MAX];
	uint64_t changes;   /* events opened or closed, in all */
	uint64_t last_read; /* CLOCK_MONOTONIC ns; 0: never */
	size_t fds, cpus;
	size_t lingering;    /* cgroups */
	uint64_t pushed_out; /* cgroups that could not linger to the end, because others needed the room */
	size_t canaries;     /* events that only tell whether a CPU is up (cpu-canary.h); open ones are among fds */
	size_t cpus_offline; /* CPUs that were counted before, whose totals are kept */
};
struct session_stats session_stats(const struct session *session);

/* What counting takes at the switches of a CPU, where an engine credits cgroups with CPUs' events; false elsewhere. */
bool session_switch_cost(const struct session *session, int cpu, struct switch_cost *ret);
/* That of the kind, or NULL. */
const struct engine *session_find_engine(const struct session *session, const struct engine_ops *ops);
const char *session_engine_name(const struct session *session);
