/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which cgroups are counted, and why the others are not.
 *
 * The tree finds cgroups at once; they then wait, and are opened bit by bit, so that a thousand new ones do not hold
 * up a scrape. Parents are before their children.
 *
 * When not all can be counted, for [cgroup] max or for want of open files, the rule is: what is counted goes on. Room
 * goes to the cgroups nearest to the root, since with those below them they stand for the most, and of equally deep
 * ones to the busiest: by the CPU time they have used since they were last looked at (cpu.stat, where there is one).
 * Room that comes back is given out by the same rule. One that may be gone (struct cgroup, doubtful) and is not seen to
 * run gives way to those left out. Where what is counted comes to need more (a CPU is back, a reload
 * adds an event), the last by that rule give way. To look at many takes its time: it is bounded to a hundredth of all
 * time.
 */

#include "count/count.h"
#include "target/usage.h"

struct roster {
	struct cgroup_tree *tree; /* NULL: no cgroups here */
	struct count *count;
	size_t nr_status[_CGROUP_STATUS_MAX];
	struct cgroup_list waiting; /* those of that status, in the order in which they came to it */
	uint64_t missed;	    /* cgroups that were wanted, and are gone without ever having been counted */

	/* A ranking: those that have been chosen, best first, and are to be opened. */
	struct cgroup **chosen; /* NULL in place of one that is gone meanwhile */
	size_t nr_chosen, at_chosen;
	bool is_ranking; /* they are being looked at, one after another */
	uint64_t ranking_began, spent, next_ranking; /* CLOCK_MONOTONIC ns; ns of work; CLOCK_MONOTONIC ns */

	bool is_mending; /* those that are counted, and not with all of their sets, are opened now, or tried again */
	uint64_t mending_began;
};

void roster_init(struct roster *roster, struct count *count);
void roster_release(struct roster *roster);

/* What the tree is to tell; roster has to stay at its place. */
struct cgroup_observer roster_observer(struct roster *roster);

/* The tree is about to be freed: its cgroups are not known any more, and what the count has of them stays. */
void roster_forget_tree(struct roster *roster);

/* Opens cgroups that wait, for about budget ns (0: a small step; UINT64_MAX: all); true where there is more to do at
 * once. */
bool roster_admit(struct roster *roster, uint64_t budget);
bool roster_is_waiting(const struct roster *roster);

/* Has time come to give out room to those left out? */
bool roster_wants_ranking(const struct roster *roster);

/* What failed once can work later: memory, files and PMUs are had by others too. */
void roster_retry(struct roster *roster);

/* Hands what `from` counts over to `to`, which succeeds it and is the roster's count from now on: first CPUs, then
 * cgroups, by the rule. One that is not wanted any more is dropped. Where `to` needs more room than there is, the last
 * of them by the rule give way. -ENOMEM of count_add_cpus(). */
int roster_move(struct roster *roster, struct count *to, struct count *from);

/* The open files that counting everything wanted would take. */
size_t roster_needed_fds(const struct roster *roster);
