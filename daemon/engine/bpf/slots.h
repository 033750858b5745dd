/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * From the kernel's cells to the targets' rows.
 *
 * A reading has each CPU credit what it has counted so far, and takes what each cell has more than at the last reading.
 * That is the cgroup's, and that of each ancestor which is a target.
 *
 * A cgroup can run before anybody has seen its directory. Its ancestors have its counts at once, and it gets them when
 * it becomes a target. One that does not become a target for some seconds, because nobody asks for it, gives its slot
 * back: what it counts from then on is credited to its nearest ancestor that is a target.
 */

#include "engine/bpf/target.h"

/* Reads all cells, and settles what is measured. now: CLOCK_MONOTONIC ns. */
void slots_read(struct bpf_engine *engine, uint64_t now);

/* Reads the cells of a target's cgroup for the last time. Its slot becomes free after the next reading of all. */
void slots_end(struct bpf_engine *engine, struct bpf_target *target);

/* What was counted up to now below the target, or in it, is not its own: another engine has counted it. Call
 * slots_read() before. */
void slots_disclaim(struct bpf_engine *engine, const struct bpf_target *target);

/* Whatever the cells have counted of the set so far has been read. */
void slots_skip(struct bpf_engine *engine, size_t set);
