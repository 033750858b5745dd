/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What this machine makes of a plan: each event is opened once, alone, and each set once, as the group it
 * will be, before anything is counted.
 *
 * An event may have to do without a part of what its text asks for (precise_ip, being pinned or exclusive,
 * leaving out the hypervisor, idle time, or guests where the text does not name them): where the kernel
 * refuses that, as little as possible is given up, and the column says what. What would make its name untrue
 * is never given up: an event counted under the name `_user` leaves out the kernel or is not counted.
 *
 * Some events exist only behind a certain leader (Intel's topdown-*, behind slots): what is refused alone is tried
 * in the group it was written in.
 *
 * Does a set fit the PMU at once? Some PMUs refuse the member that is too many, others take it and then
 * never run the group. So the set is run once, pinned: a pinned group goes before all others and either runs
 * in that moment or is put into error state (perf_event_open(2), "pinned"). Sets that are to be pinned are held
 * open meanwhile, since they will have their counters before the others.
 *
 * An event that is slow to close (event_is_slow_to_close()) stays open when it has been tried, in `tried`: a thousand
 * tracepoints would take half a minute. Where files are short they are closed all the same.
 */

#include "count/plan.h"

struct probe {
	enum scope scope;
	const struct cpulist *cpus; /* online */
	int cgroup_fd;		    /* the hierarchy's root; -1 for CPUs, or where no_cgroups says why */
	const char *no_cgroups;
	const struct privilege *privilege;
	const struct scope_plan *counting; /* what is counted now and is not tried again, or NULL */
	struct held *tried; /* gets what is slow to close; NULL: it is closed at once */
};

/* The CPUs of online on which the event can be counted. -ENOMEM. */
int probe_cpus(struct cpulist *ret, const struct event *event, const struct cpulist *online);

/* Settles the state of the plan's column, its reason, and the attr to open it with. Those before it are in their
 * sets. -ENOMEM. */
int probe_column(struct scope_plan *plan, size_t at, const struct probe *probe);

/* How many of the set's members, from its first, can be counted together: all; fewer, where the set may be
 * split; or none: then all of its columns say why. -ENOMEM. */
int probe_set(struct scope_plan *plan, const struct set *set, const struct probe *probe, size_t *ret);

/* Opens a pinned set as it will be on its first CPU, and starts it: what shares the PMU with it is then tried beside
 * it. -ENOMEM. */
int probe_hold(const struct scope_plan *plan, const struct set *set, const struct probe *probe, struct held *held);

/* Can the column, which could not be opened, be by now? */
bool probe_recovers(const struct column *column, const struct probe *probe);
