/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Cells (layout.h), as they are read.
 *
 * A program may be at work in a cell just then. Half of what it adds, a time without the other one, would look like a
 * pause of the budget, and be scaled. So a cell is copied at a moment when no program is at work in it, and all that is
 * made of it is made of the copy.
 */

#include "counting/engine/bpf/chunks.h"

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
bool cell_copy(const struct bpf_kernel *kernel, uint32_t cpu, uint32_t cell);
