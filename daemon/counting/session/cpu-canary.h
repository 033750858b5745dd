/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Has a CPU been offline? The events of a whole CPU tell it by their time: it stands still from then on, also when the
 * CPU is back. Events of cgroups do not, because their time is their tasks'. Where nothing counts the CPU as a whole, a
 * canary is opened on it: an event that counts nothing (PERF_COUNT_SW_DUMMY) and has the CPU's time.
 *
 * A canary is kept over a restart of the daemon, as the events are that it tells of: one that is opened later knows
 * nothing of the time before.
 *
 * Without it, such a CPU counts no cgroup any more after it was offline while no daemon ran: system/test_hotplug.py,
 * test_a_cpu_that_is_offline_between_two_daemons_is_found_out.
 */

#include "counting/session/engines.h"

struct cpu_canary {
	int cpu;
	int fd;	     /* -1: it could not be opened and says nothing; one whose CPU was offline then is broken at once */
	uint64_t id; /* PERF_EVENT_IOC_ID */
	uint64_t enabled, read_at; /* ns; CLOCK_MONOTONIC ns */
	bool broken;		   /* its CPU has been offline, and the canary says nothing more */
	bool time_missing; /* a check found that its CPU had been offline for a part of the time; gaps.h clears it */
};

/* now: CLOCK_MONOTONIC ns. */
void cpu_canary_open(struct cpu_canary *ret, int cpu, uint64_t now);
void cpu_canary_close(struct cpu_canary *canary);
/* Reads it: `broken` is known then, and whether time is missing. */
void cpu_canary_check(struct cpu_canary *canary, uint64_t now);

/* One a CPU at most. */
struct cpu_canaries {
	struct cpu_canary *canaries;
	size_t nr;
	uint64_t changes; /* canaries opened, in all */
};

/* For up to max CPUs. -ENOMEM. */
int cpu_canaries_new(struct cpu_canaries *ret, size_t max);
/* Closes all. */
void cpu_canaries_release(struct cpu_canaries *canaries);

/* That of the CPU, or NULL. */
struct cpu_canary *cpu_canaries_find(const struct cpu_canaries *canaries, int cpu);
/* Opens that of the CPU, unless it is open, or broken. */
void cpu_canaries_open(struct cpu_canaries *canaries, int cpu, uint64_t now);
/* Opens one on each of the CPUs of which the engines know nothing, and those that could not be opened before. */
void cpu_canaries_cover(struct cpu_canaries *canaries, const struct cpulist *cpus, const struct engines *engines,
			uint64_t now);
void cpu_canaries_check(struct cpu_canaries *canaries, uint64_t now);
size_t cpu_canaries_nr_open(const struct cpu_canaries *canaries);

/* By what the engines' events and the canary have shown. */
bool cpu_has_been_offline(const struct cpu_canaries *canaries, const struct engines *engines, int cpu);
/* Adds those of the CPUs to ret. -ENOMEM. */
int cpus_find_lost(const struct cpu_canaries *canaries, const struct engines *engines, const struct cpulist *cpus,
		   struct cpulist *ret);

/* Moves the canaries of these CPUs that can still tell something to another object, which is empty. */
void cpu_canaries_move(struct cpu_canaries *to, struct cpu_canaries *from, const struct cpulist *cpus);

/* Visits, and writes, the canaries that can still tell something. */
void cpu_canaries_each_stored(const struct cpu_canaries *canaries, stored_visitor each, void *userdata);
void cpu_canaries_save(const struct cpu_canaries *canaries, struct buf *out);
/* Makes those again whose files are in the pool. A CPU of which neither a canary nor the engines can tell that it has
 * been online ever since gets a broken one. -EBADMSG: this can't have been written for these CPUs. */
int cpu_canaries_restore(struct cpu_canaries *canaries, struct unpack *in, const struct cpulist *cpus,
			 const struct engines *engines, struct stored_pool *stored);
