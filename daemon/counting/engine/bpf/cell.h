/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Cells (layout.h), as they are read.
 *
 * A program may be at work in a cell just then. Half of what it adds, a time without the other one, would look like a
 * pause of the budget, and be scaled. So a cell is copied at a moment when no program is at work in it, and all that is
 * made of it is made of the copy.
 */

#include "counting/engine/bpf/kernel.h"

static inline size_t cell_words(const struct bpf_kernel *kernel)
{
	return CREDIT_CELL_WORDS(kernel->sizes.sets, kernel->sizes.events);
}

/* Where it stands now. Who needs more than one word of it needs a copy. */
static inline const volatile uint64_t *cell_of(const struct bpf_kernel *kernel, uint32_t slot, uint32_t cpu)
{
	return kernel->cells + ((size_t)slot * kernel->sizes.cpus + cpu) * cell_words(kernel);
}

/* Is any program at work on the CPU? */
static inline bool cell_is_busy(const struct bpf_kernel *kernel, uint32_t cpu)
{
	return *(const volatile credit_word *)&kernel->cpus[cpu].busy;
}

/* Waits until no program is at work on the CPU, for up to some hundred microseconds: none takes that long, unless the
 * machine has stopped in the middle of it, as virtual ones are. False: one still is. */
bool cell_wait(const struct bpf_kernel *kernel, uint32_t cpu);

/* Copies the cell to kernel->cell. False: a program was at work in it all the while, and the copy may have one half of
 * what it adds. */
bool cell_copy(const struct bpf_kernel *kernel, uint32_t slot, uint32_t cpu);
