/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What is sampled, on all CPUs: the rings, and one stream of records from them, in the order of their times.
 *
 * Each CPU has a ring for each event that is sampled, with call chain and cgroup, and one for a dummy event's side-band
 * records (mappings, commands, forks and exits, cgroups). So a storm of new processes, or of one event, loses no sample
 * of another. The cgroup is stamped by the kernel at the sample, so that processes that end at once are attributed too.
 *
 * Rings of different CPUs are not in order: a task that moves leaves its mappings in one and its samples in another.
 * So records are merged by time, up to a moment shortly before the heads were read; later ones stay for the next time.
 *
 * Fields that a kernel lacks are left out: build ids (Linux 5.12), the exact number of lost records (6.0). A user that
 * may not lock so much memory gets smaller copies of stacks, together with their rings (ring-size.h), or else smaller
 * rings.
 *
 * Where an event asks for it (stack_bytes), a sample has the user's registers and a copy of the user's stack. They are
 * foreign secrets, and gone from the rings within a second (turned-ring.h).
 */

#include "base/util/async-close.h"
#include "base/util/clock.h"
#include "base/util/cpulist.h"
#include "base/util/reason.h"
#include "profiler/protocol.h"
#include "profiler/sample/record.h"

struct sampler;

struct sampler_stats {
	uint64_t samples;      /* taken from the rings */
	uint64_t lost;	       /* samples that the kernel had no room for, or that made no sense */
	uint64_t lost_records; /* the same of side-band */
	uint64_t unsampled;    /* counted by events with a period, and in no sample (unsampled.h); Linux 6.0 */
	uint64_t throttled;    /* times that the kernel paused an event */
	size_t ring_bytes;
};

/*
 * Begins to sample those events on those CPUs; all are borrowed for the call. CPUs that can't be sampled, as those that
 * have just gone, are left out. Negative errno with the sentence in why if none can, or the first event can't be; what
 * is wrong with others is sampler_problem(). Where CPUs come or go, another sampler takes its place. closer (or NULL)
 * closes events that are slow to close.
 */
int sampler_new(struct sampler **ret, const struct sampled_event *events, size_t nr, const struct cpulist *cpus,
		struct async_close *closer, struct reason *why);
struct sampler *sampler_free(struct sampler *sampler);
DEFINE_CLEANUP(struct sampler *, sampler_free)

/* Why an event is not sampled, by its number in sampler_new(), or "". */
const char *sampler_problem(const struct sampler *sampler, size_t event);
/* When the kernel has paused an event for the last time (CLOCK_MONOTONIC ns), so that its samples do not stand for all
 * of it; 0: it has not. Samples of a clock stand for the pauses too (pause.h), and its time is always 0. */
uint64_t sampler_paused_at(const struct sampler *sampler, size_t event);
/* Why rings or copies of stacks are smaller than they should be, or some of them missing; or "". */
const char *sampler_shortage(const struct sampler *sampler);

/* Why copies of stacks stay in ring buffers for longer than they should, now; or "". */
const char *sampler_stuck(const struct sampler *sampler);

/* Readable when a ring is half full; it stays the sampler's. */
int sampler_fd(const struct sampler *sampler);

/* In place of an event's number: of the side-band's rings. */
#define SAMPLER_SIDE_BAND SIZE_MAX

/* Takes a record. event: the number of the event whose ring it comes from. The record is valid during the call only. */
typedef void (*sampler_take)(void *userdata, size_t event, const struct record *record);

/* A record with an earlier time may still be on its way into a ring when it is looked at: so young ones stay there. */
#define SAMPLER_YOUNG_NS NS_PER_MS

/* Hands over the records that are due, oldest first: all that are older than SAMPLER_YOUNG_NS at the call. Returns the
 * time until which that is, CLOCK_MONOTONIC ns. */
uint64_t sampler_drain(struct sampler *sampler, sampler_take take, void *userdata);

struct sampler_stats sampler_stats(const struct sampler *sampler);

/* --- events that come and go */

/* So many at a time. */
#define SAMPLER_EXTRAS 4

/*
 * Samples one more event, on all CPUs, until sampler_remove(): of a cgroup and all below it, whose directory's fd is
 * borrowed for the call, or of all tasks (-1). Returns its number for sampler_take, or negative errno with the sentence
 * in why: nothing is sampled then.
 */
int sampler_add(struct sampler *sampler, const struct sampled_event *event, int cgroup, struct reason *why);
/* Records that were not handed over are lost. Not from within sampler_drain(). */
void sampler_remove(struct sampler *sampler, size_t number);
