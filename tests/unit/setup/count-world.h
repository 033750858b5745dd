/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What is counted on a kernel that the test plays (fake-perf.h): a machine of three CPUs (0, 1 and 5), and a
 * hierarchy of plain directories for cgroups. Groups are added first, then the plan is made, then counting
 * starts.
 */

#include "base/util/cleanup.h"
#include "counting/engine/engine.h"
#include "counting/session/session.h"
#include "setup/fake-perf.h"

#define HW PERF_TYPE_HARDWARE
#define SW PERF_TYPE_SOFTWARE
#define UNCORE_TYPE 77

#define SECOND 1000000000U
#define MS (SECOND / 1000U)

struct count_world {
	char dir[64];
	int root_fd;
	const char *no_cgroups; /* the reason, where root_fd is -1 */
	struct cpulist cpus;
	struct privilege privilege;
	const struct engine_ops *const *engines; /* NULL: those of the daemon */
	const struct event_env *env;		 /* PMUs to be tested, or NULL */
	struct group_list groups[_SCOPE_MAX];
	struct cgroup_tree *tree;
	struct plan *plan;
	struct session *session;
	struct session_options options;
};

/* Of a test's fixture. */
int world_setup(void **state);
int world_teardown(void **state);

/* Cgroups. */
void make_dir(const struct count_world *w, const char *name);
void remove_dir(const struct count_world *w, const char *name);
uint64_t inode_of(const struct count_world *w, const char *name);

struct text_event {
	const char *text;
	uint32_t type;
	uint64_t config;
};

/* A group of events that is not split. It stays at its place until the next is added, or the plan is made. */
struct group *add_group(struct count_world *w, enum scope scope, const char *name, bool alone,
			const struct text_event *events, size_t nr);
/* The plan of the groups that were added since the last one, whose place it takes. */
int try_plan(struct count_world *w, struct reason *why);
/* Of the plan that has been made. */
bool plan_recovers(const struct count_world *w);
void make_plan(struct count_world *w);
/* Makes the plan where there is none yet. */
void start(struct count_world *w);

/*
 * A reload. Between its halves a test adds CPUs and cgroups to w->count, the new count:
 *
 *   add_group(w, ...);
 *   old = reload_begin(w);
 *   ...
 *   takeover_end(w, old);
 */
struct session *reload_begin(struct count_world *w);
/* The same of a plan that is there, and of any count that is taken over from. */
void takeover_begin(struct count_world *w, struct session *from);
/* Frees `from`. */
void takeover_end(const struct count_world *w, struct session *from);

/* Time passes for the groups of all CPUs: fake_run() of each. */
void run_cpus(const struct count_world *w, uint64_t enabled, uint64_t running, uint64_t by);

struct cgroup *find_cgroup(const struct count_world *w, const char *label);
struct cgroup *add_cgroup(struct count_world *w, const char *label);

/* The plan's sets, by the numbers of their columns, the leader first: "0 1|2". */
void assert_sets(const struct count_world *w, enum scope scope, const char *sets);

/* cgroup is NULL for a CPU's row. */
const struct totals_row *row_of(const struct count_world *w, int cpu, const struct cgroup *cgroup);
void assert_cell(const struct count_world *w, int cpu, const struct cgroup *cgroup, size_t column, bool measured,
		 uint64_t total);
void assert_state(const struct count_world *w, enum scope scope, size_t column, enum event_state state,
		  const char *part_of_why);

/* Two events of each kind. */
extern const struct text_event cycles[2], software[2];
