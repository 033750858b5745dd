/* SPDX-License-Identifier: MIT */

#include "counting/engine/bpf/cell.h"

/* How often a CPU is looked at. */
#define LOOKS 100000

/* How often a cell is copied that is credited all the time. */
#define COPIES 100

bool cell_wait(const struct bpf_kernel *kernel, uint32_t cpu)
{
	for (int i = 0; i < LOOKS; i++)
		if (!cell_is_busy(kernel, cpu))
			return true;
	return false;
}

static bool is_remembered(const struct bpf_kernel *kernel, uint32_t cpu, uint32_t cell)
{
	return *(const volatile credit_word *)&kernel->cpus[cpu].cell == cell;
}

/* A program counts the credit before it adds anything: one that begins meanwhile is seen by that. One that has begun
 * before remembers the cell until all is added. */
bool cell_copy(const struct bpf_kernel *kernel, uint32_t cpu, uint32_t number)
{
	const volatile uint64_t *cell = cell_at(kernel, cpu, number);

	kernel->unsaved[bit_word(kernel, cpu, number)] |= UINT64_C(1) << number % 64;
	for (int i = 0; i < COPIES; i++) {
		uint64_t credits = cell[CREDIT_CELL_CREDITS];
		bool rests = !is_remembered(kernel, cpu, number) || cell_wait(kernel, cpu);

		for (size_t word = 0; word < bpf_cell_words(&kernel->sizes); word++)
			kernel->cell[word] = cell[word];
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (!rests)
			return false;
		if (cell[CREDIT_CELL_CREDITS] == credits)
			return true;
	}
	return false;
}
