/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Chunks of slots and of cells (layout.h). A chunk is a map of the kernel's, which is mapped here, and beside it stands
 * what the daemon knows of each of its slots or cells. Chunks are added while the programs run, and none is ever taken
 * away: so a pointer to a slot, or to what is known of it, stays good as long as the part in the kernel is there.
 */

#include "base/util/pack.h"
#include "counting/engine/bpf/kernel-part.h"
#include "counting/engine/stored.h"

static inline struct bpf_chunk *chunk_of_cell(const struct bpf_kernel *kernel, uint32_t cpu, uint32_t cell)
{
	return &kernel->cells[(size_t)cpu * CREDIT_CHUNKS(kernel->sizes.slots) + cell / CREDIT_CHUNK];
}

/* slot: below config->nr_slots. */
static inline struct credit_slot *slot_at(const struct bpf_kernel *kernel, uint32_t slot)
{
	return (struct credit_slot *)((char *)kernel->slots[slot / CREDIT_CHUNK].memory +
				      slot % CREDIT_CHUNK * bpf_slot_size(&kernel->sizes));
}

/* The daemon's knowledge of a slot. */
static inline struct bpf_slot *slot_known(const struct bpf_kernel *kernel, uint32_t slot)
{
	return (struct bpf_slot *)kernel->slots[slot / CREDIT_CHUNK].known + slot % CREDIT_CHUNK;
}

/* The cell as programs write it. cell: below the CPU's nr_cells. */
static inline const volatile uint64_t *cell_at(const struct bpf_kernel *kernel, uint32_t cpu, uint32_t cell)
{
	return (const volatile uint64_t *)chunk_of_cell(kernel, cpu, cell)->memory +
	       cell % CREDIT_CHUNK * bpf_cell_words(&kernel->sizes);
}

/* How far the cell has been read: bpf_read_words() words. */
static inline uint64_t *cell_read(const struct bpf_kernel *kernel, uint32_t cpu, uint32_t cell)
{
	return (uint64_t *)chunk_of_cell(kernel, cpu, cell)->known +
	       cell % CREDIT_CHUNK * bpf_read_words(&kernel->sizes);
}

/* Cells of a CPU that slots have, or had: programs write the number. */
static inline uint32_t nr_cells(const struct bpf_kernel *kernel, uint32_t cpu)
{
	const struct credit_cpu *at = &kernel->cpus[cpu];
	credit_word nr = *(const volatile credit_word *)&at->nr_cells;

	return (uint32_t)(nr < at->max_cells ? nr : at->max_cells);
}

/* In which word a cell has its bit, of marks and what is laid out like them. */
static inline size_t bit_word(const struct bpf_kernel *kernel, uint32_t cpu, uint32_t cell)
{
	return cpu * (size_t)CREDIT_MARK_WORDS(kernel->sizes.slots) + cell / 64;
}

/* The number of the slot's cell on a CPU; CREDIT_ROOT_CELL: another slot than the root's has none there. */
static inline uint32_t slot_cell(const struct bpf_kernel *kernel, uint32_t slot, uint32_t cpu)
{
	uint32_t cell = *(volatile unsigned *)&slot_at(kernel, slot)->cells[cpu];

	return cell < nr_cells(kernel, cpu) ? cell : CREDIT_ROOT_CELL;
}

/* A map that is like those of the chunks of slots or cells (BPF_FILE_SLOTS, BPF_FILE_CELLS): by it the kernel checks
 * the programs. The file; -errno. */
int chunks_create_like(const struct bpf_sizes *sizes, enum bpf_file table);

/* Tables for as many chunks as there may be. -ENOMEM. */
int chunks_open(struct bpf_kernel *kernel);
void chunks_close(struct bpf_kernel *kernel);

/* Makes chunks until there is room for so many slots, or cells on a CPU, or for as many as there may be. chunks_use()
 * has them used: at once, or else a second later, so that a daemon that comes after a kill finds all that are used.
 * -errno of bpf(2), mmap(2). */
int chunks_make_slots(struct bpf_kernel *kernel, uint32_t nr, bool at_once);
int chunks_make_cells(struct bpf_kernel *kernel, uint32_t cpu, uint32_t nr, bool at_once);
/* Gives what was made to the programs, and counts it in config->nr_slots and the CPUs' max_cells when it is to be used.
 * Nobody can have the slots yet (slot-owners.h). -errno of bpf(2); -ENOMEM. */
int chunks_use(struct bpf_kernel *kernel);

/* The files of all, or the ids of those that are used, for an image. */
void chunks_each_stored(const struct bpf_kernel *kernel, stored_visitor each, void *userdata);
void chunks_save(const struct bpf_kernel *kernel, struct buf *out);
/* Takes their files out of the pool. The numbers of slots and cells stand in the kernel's memory, which is mapped.
 * -ENOENT: one is not there, or has another size; the rest of the image is not read then. -EBADMSG: chunks_save() can't
 * have written this; -ENOMEM. */
int chunks_restore(struct bpf_kernel *kernel, struct unpack *in, struct stored_pool *stored);
