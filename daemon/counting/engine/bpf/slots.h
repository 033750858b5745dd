/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * From the kernel's cells to the targets' rows.
 *
 * A reading has each CPU credit what it has counted so far, and takes what each cell has more than at the last reading.
 * That is the cgroup's, and that of each ancestor which is a target.
 *
 * A cgroup can run before anybody has seen its directory: its counts are kept for it (unclaimed.h). One that does not
 * become a target for some seconds, because nobody asks for it, gives its slot
 * back: what it counts from then on is credited to its nearest ancestor that is a target.
 */

#include "counting/engine/bpf/target.h"

/* Reads all cells, and decides what is measured. now: CLOCK_MONOTONIC ns. */
void slots_read(struct bpf_engine *engine, uint64_t now);

/* The cgroup, with those ancestors, the parent first, has become a target: it gets a slot, and what runs below it is
 * its own, too. Without a slot, its counts go to the nearest ancestor that has one, until one is free. */
void slots_begin(struct bpf_engine *engine, uint64_t id, const credit_word *ancestors, size_t nr);
/* The targets are going to be others: who is the nearest one above a cgroup that nobody asks for is found anew. */
void slots_end_aliases(struct bpf_engine *engine);

/* Reads the cells of a target's cgroup for the last time. Its slot becomes free after the next reading of all. */
void slots_end(struct bpf_engine *engine, struct bpf_target *target);

/* The cells of a cgroup and of those below it, without those of others. */
void slots_read_below(struct bpf_engine *engine, uint64_t id);

/* Whatever the cells have counted of the set so far has been read, and nothing is kept of it. */
void slots_skip(struct bpf_engine *engine, size_t set);
