/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Has a CPU been offline? Its events say so by their time, which stands still from then on, also when the CPU is back.
 * Those of cgroups don't: their time is their tasks'. Where nothing else is counted on the CPU as a whole, a lifeline
 * is: an event that counts nothing (PERF_COUNT_SW_DUMMY) and has its time. As what it tells of goes on over a restart
 * of the daemon, so does a lifeline: one opened anew would know nothing of the time before.
 */

#include "count/fd-pool.h"
#include "util/buf.h"
#include "util/cpulist.h"
#include "util/pack.h"

#include <stdbool.h>
#include <stdint.h>

struct lifeline {
	int cpu;
	int fd; /* -1: it could not be opened, and so says nothing; a CPU that was offline then is broken at once */
	uint64_t id;		   /* PERF_EVENT_IOC_ID */
	uint64_t enabled, read_at; /* ns; CLOCK_MONOTONIC ns */
	bool broken;		   /* it has been offline, and this lifeline says nothing more */
};

void lifeline_open(struct lifeline *ret, int cpu, uint64_t now);
void lifeline_close(struct lifeline *lifeline);
/* Reads it: `broken` is known then. */
void lifeline_check(struct lifeline *lifeline, uint64_t now);

/* One a CPU at most. */
struct lifelines {
	struct lifeline *lifelines;
	size_t nr;
	uint64_t changes; /* of them opened, since ever */
};

/* For up to max CPUs. -ENOMEM. */
int lifelines_new(struct lifelines *ret, size_t max);
/* Closes all. */
void lifelines_release(struct lifelines *lifelines);

/* That of the CPU, or NULL. */
struct lifeline *lifelines_find(const struct lifelines *lifelines, int cpu);
/* Opens that of the CPU, unless it is open, or broken. */
void lifelines_open(struct lifelines *lifelines, int cpu, uint64_t now);
void lifelines_check(struct lifelines *lifelines, uint64_t now);
/* Those that are open. */
size_t lifelines_nr_open(const struct lifelines *lifelines);

/* To another that is empty, those that can still tell something of one of the CPUs. */
void lifelines_move(struct lifelines *to, struct lifelines *from, const struct cpulist *cpus);

/* Those that can still tell something: their files; writes them; and makes those again whose files are in the pool.
 * -EBADMSG where it can't have been written for these CPUs. */
void lifelines_each_fd(const struct lifelines *lifelines, void (*each)(void *userdata, int fd, uint64_t id),
		       void *userdata);
void lifelines_save(const struct lifelines *lifelines, struct buf *out);
int lifelines_restore(struct lifelines *lifelines, struct unpack *in, const struct cpulist *cpus,
		      struct fd_pool *fds);
/* Of a CPU that has none: nothing tells that it was online all the time, so it counts as if it was not. */
void lifelines_add_broken(struct lifelines *lifelines, int cpu);
