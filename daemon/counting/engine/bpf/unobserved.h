/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Cgroups that have ended before enough of them was observed.
 *
 * Limited events are credited for a part of the time, and a multiplexed set counts for a part of it: a cgroup that
 * lives for milliseconds can fall between. Nobody knows what it has counted, but its ancestors have its time, and would
 * come out too low. Chance has let others that ended below the same target be observed, or parts of them: so it is
 * taken to have counted as much in its time as these in theirs. That is an estimate, as all that is scaled; it is for
 * ancestors, and for a cgroup itself only if something was observed of it.
 */

#include "counting/engine/bpf/share.h"

struct baseline;
struct reading;

/* A cgroup of that slot ends: notes for those beside it what it was observed to count from `base` to `now`. */
void unobserved_learn(struct bpf_engine *engine, uint32_t slot, size_t set, const struct baseline *base,
		      const struct reading *now);

/* What it is taken to have counted in its last `covered` ns, on the CPU. False: nothing tells of that. */
bool unobserved_estimate(const struct bpf_engine *engine, uint32_t slot, uint32_t cpu, size_t set, uint64_t covered,
			 uint64_t *ret);
