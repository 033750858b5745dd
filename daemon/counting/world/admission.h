/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Decides which cgroups are counted, and why the others are not.
 *
 * Cgroups that the tree finds wait first and are opened bit by bit, so that a thousand new ones do not hold up a
 * scrape. Parents are opened before their children.
 *
 * Where not all can be counted, for [cgroup] max or for want of open files, counted cgroups stay counted. Free room
 * goes to the cgroups nearest to the root, since they include those below them, and at the same depth to the busiest:
 * by the CPU time they have used since the last ranking (cpu.stat, where there is one). Room that comes free later is
 * given out by the same rule. A cgroup that may be gone (struct cgroup, doubtful) and is not seen to run gives way to
 * those left out. Where the counted cgroups come to need more files (a CPU is back, a reload adds an event), the last
 * by the rule give way. A ranking of many cgroups takes time: it is limited to a hundredth of all time.
 */

#include "base/cgroup/usage.h"
#include "counting/session/session.h"

struct admission {
	struct cgroup_tree *tree; /* NULL: no cgroups here */
	struct session *session;
	size_t nr_status[_CGROUP_STATUS_MAX];
	size_t nr_partial;	    /* counted ones with a sentence: sets are not open */
	bool doubts;		    /* at the last retry, some cgroup was doubtful */
	struct cgroup_list waiting; /* in the order in which they began to wait */
	uint64_t missed;	    /* wanted cgroups that were removed before they could be counted */

	/* A ranking: it weighs candidates, chooses the best and opens them. */
	bool is_ranking;
	uint64_t ranking_began; /* CLOCK_MONOTONIC ns */
	uint64_t spent;		/* CPU time (ns) that weighing and choosing have taken so far */
	uint64_t next_ranking;	/* CLOCK_MONOTONIC ns */
	struct cgroup **chosen; /* best first; NULL in place of one that was removed meanwhile */
	size_t nr_chosen, at_chosen;

	/* Counted cgroups of which some sets are not open: these are tried once. */
	bool is_completing;
	uint64_t completing_began; /* CLOCK_MONOTONIC ns */

	/* A move from another session: the cgroups that it counts, best first. */
	struct session *from;
	struct cgroup **moving;
	size_t nr_moving, at_moving;
};

void admission_init(struct admission *admission, struct session *session);
void admission_release(struct admission *admission);

/* For cgroup_tree_new(). The admission has to outlive the tree, at the same place. */
struct cgroup_observer admission_observer(struct admission *admission);

/* Call it before the tree is freed: forgets its cgroups, which stay counted. */
void admission_forget_tree(struct admission *admission);

/* Opens waiting cgroups for about budget ns (0: a small step; UINT64_MAX: all); true where there is more to do now. */
bool admission_admit(struct admission *admission, uint64_t budget);
bool admission_is_waiting(const struct admission *admission);

/* Is there room for cgroups that are left out, and is it time to give it out? */
bool admission_wants_ranking(const struct admission *admission);

/* Tries failed cgroups, and sets that counted ones lack, once more: others may have released memory, files or PMUs. */
void admission_retry(struct admission *admission);

/* Moves the CPUs from one session to its successor (session_takeover_begin()), which is the admission's from now on,
 * and prepares to move the cgroups. Those that are no longer wanted are dropped. Where `to` needs more files than there
 * are, the last by the rule give way. -ENOMEM of session_add_cpus(). */
int admission_begin_move(struct admission *admission, struct session *to, struct session *from);
/* Moves cgroups by the rule, for about budget ns; false: all have been moved. Until then nothing else is asked of the
 * admission, and the tree does not change. */
bool admission_move(struct admission *admission, uint64_t budget);

/* Open files that it would take to count every wanted cgroup and CPU. */
size_t admission_needed_fds(const struct admission *admission);
