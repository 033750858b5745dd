/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which cgroup has which slot.
 *
 * A cgroup gets one when it runs for the first time, from a program, or when it becomes a target, from the daemon.
 * Slots are reserved for targets that are still to come: so each target has one, and what has run below it, and has
 * found none, is counted as its own. A cgroup that nobody asks for can be made an alias: its counts go to an ancestor's
 * slot.
 */

#include "counting/engine/bpf/kernel-part.h"

/* The slot of the cgroup, or CREDIT_ROOT_SLOT: it has none. */
uint32_t slot_find(const struct bpf_kernel *kernel, uint64_t id);
/* The cgroup has no slot any more; it gets a new one when it runs. False: it still has its slot. */
bool slot_forget(struct bpf_kernel *kernel, uint64_t id);
/* The slot of a cgroup with those ancestors, the parent first: if it has not run yet, it gets a reserved one, or a
 * free one. CREDIT_ROOT_SLOT: there is none. */
uint32_t slot_take(struct bpf_kernel *kernel, uint64_t id, const credit_word *ancestors, size_t nr);
/* Adds chunks where few slots are left, of which so many are taken. to_reserve: slots that are to be left to targets.
 * -errno of bpf(2), mmap(2): some could not be added, and are when this is called again. */
int slot_supply(struct bpf_kernel *kernel, uint32_t taken, uint32_t to_reserve);
/* The same where few cells are left of a CPU that has any. */
int slot_supply_cells(struct bpf_kernel *kernel);
/* Nobody asks for the cgroup: its counts go to the slot of an ancestor. False: there is no room for that. */
bool slot_alias(struct bpf_kernel *kernel, uint64_t id, uint32_t slot);
/* The cgroup's counts do not go to an ancestor's slot any more, but to one of its own. */
void slot_unalias(struct bpf_kernel *kernel, uint64_t id);
/* The slot can be given to another cgroup. No program uses it any more. */
void slot_free(struct bpf_kernel *kernel, uint32_t slot);
/* From now on no cgroup's counts go to the slot but its own. */
void slot_end_aliases(struct bpf_kernel *kernel, uint32_t slot);
