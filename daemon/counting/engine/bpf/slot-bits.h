/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which slots are taken, and which of these are settled: their cgroup is a target, and this is known, so that a reading
 * has to do nothing for them but to read the cells that were credited. Most slots are settled most of the time, and
 * what passes over slots passes over the others. All become unsettled when targets come or go.
 */

#include "counting/engine/bpf/kernel-part.h"

static inline bool slot_bit(const uint64_t *bits, uint32_t slot)
{
	return bits[slot / 64] >> slot % 64 & 1;
}

/* The first slot from that one on that has its bit set; config->nr_slots: there is none. */
static inline uint32_t slot_next(const struct bpf_kernel *kernel, const uint64_t *bits, uint32_t slot)
{
	const uint32_t nr = (uint32_t)kernel->config->nr_slots;

	for (; slot < nr; slot = (slot / 64 + 1) * 64) {
		uint64_t rest = bits[slot / 64] >> slot % 64;

		if (rest) {
			slot += (uint32_t)__builtin_ctzll(rest);
			break;
		}
	}
	return slot < nr ? slot : nr;
}

static inline uint32_t slot_count_taken(const struct bpf_kernel *kernel)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < CREDIT_MARK_WORDS(kernel->config->nr_slots); i++)
		nr += (uint32_t)__builtin_popcountll(kernel->taken[i]);
	return nr;
}

/* A cgroup has it, and there is more to do for it. */
static inline void slot_unsettle(struct bpf_kernel *kernel, uint32_t slot)
{
	const uint64_t bit = UINT64_C(1) << slot % 64;

	kernel->settled_changed |= !slot_bit(kernel->unsettled, slot);
	kernel->unsettled[slot / 64] |= bit;
	kernel->taken[slot / 64] |= bit;
}

static inline void slot_settle(struct bpf_kernel *kernel, uint32_t slot)
{
	kernel->settled_changed = true;
	kernel->unsettled[slot / 64] &= ~(UINT64_C(1) << slot % 64);
}

/* It was seen that a cgroup has it. */
static inline void slot_note_taken(struct bpf_kernel *kernel, uint32_t slot)
{
	if (!slot_bit(kernel->taken, slot))
		slot_unsettle(kernel, slot);
}

/* No cgroup has it. */
static inline void slot_note_free(struct bpf_kernel *kernel, uint32_t slot)
{
	const uint64_t bit = UINT64_C(1) << slot % 64;

	kernel->settled_changed |= !slot_bit(kernel->unsettled, slot);
	kernel->unsettled[slot / 64] &= ~bit;
	kernel->taken[slot / 64] &= ~bit;
}
