/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Counts of cgroups that are no targets.
 *
 * A cgroup can run before anybody has seen its directory. Its ancestors have its counts at once; they are kept beside
 * its slot as well, for the cgroup itself, and for ancestors between it and those that have them: whichever of them
 * becomes a target gets them.
 */

#include "counting/engine/bpf/share.h"

/* Words of what is kept of a slot, by CPU: those of a cell, and for each set the time that its counts cover. */
static inline size_t unclaimed_words(const struct bpf_sizes *sizes)
{
	return CREDIT_CELL_WORDS(sizes->sets, sizes->events) + sizes->sets;
}

/* Keeps a share for the slot's cgroup. */
void unclaimed_add(struct bpf_engine *engine, uint32_t slot, const struct bpf_share *share);

/* The engine's targets have changed: those that have a right to what is kept of the slot get it. Notes the slot's own
 * target. */
void unclaimed_claim(struct bpf_engine *engine, uint32_t slot);

/* The target is new, and another engine has counted it up to now, but for the sets that the predecessor of this engine
 * has credited: those it gets, of what is kept of its slot and of those below it. Read these slots before. */
void unclaimed_disclaim(struct bpf_engine *engine, struct bpf_target *target);

/* What is kept of a set is of one that had its numbers before. */
void unclaimed_drop_set(struct bpf_engine *engine, size_t set);
/* Nothing is kept of the slot any more. */
void unclaimed_drop(struct bpf_slot *known);
