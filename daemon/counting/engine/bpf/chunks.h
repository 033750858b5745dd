/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Chunks of slots and of cells (layout.h). A chunk is a map of the kernel's, which is mapped here, and beside it stands
 * what the daemon knows of each of its slots or cells. Chunks are added while the programs run, and none is ever taken
 * away: so a pointer to a slot, or to what is known of it, stays good as long as the part in the kernel is there.
 */

#include "base/util/pack.h"
#include "counting/engine/bpf/kernel-part.h"
#include "counting/engine/kept.h"

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

/* The number of the slot's cell on a CPU; CREDIT_ROOT_CELL: another slot than the root's has none there. */
static inline uint32_t slot_cell(const struct bpf_kernel *kernel, uint32_t slot, uint32_t cpu)
{
	uint32_t cell = *(volatile unsigned *)&slot_at(kernel, slot)->cells[cpu];

	return cell < nr_cells(kernel, cpu) ? cell : CREDIT_ROOT_CELL;
}

/* Maps that are like those of the chunks: by them the kernel checks the programs. The file; -errno. */
int chunks_slots_like(const struct bpf_sizes *sizes);
int chunks_cells_like(const struct bpf_sizes *sizes);

/* Tables for as many chunks as there may be. -ENOMEM. */
int chunks_open(struct bpf_kernel *kernel);
void chunks_close(struct bpf_kernel *kernel);

/* Adds a chunk of slots, which nobody can have yet (slot-owners.h), or of cells on a CPU. It is used at once, or else
 * when this is called a second after it was made: a daemon that comes after a kill finds all that are used. -EAGAIN: it
 * is made. -ENOSPC: there are as many as there may be; or -errno of bpf(2), mmap(2). */
int chunks_add_slots(struct bpf_kernel *kernel, bool at_once);
int chunks_add_cells(struct bpf_kernel *kernel, uint32_t cpu, bool at_once);

/* The files of all, or the ids of those that are used, for an image. */
void chunks_each_kept(const struct bpf_kernel *kernel, kept_visitor each, void *userdata);
void chunks_save(const struct bpf_kernel *kernel, struct buf *out);
/* Takes their files out of the pool. The numbers of slots and cells stand in the kernel's memory, which is mapped.
 * -ENOENT: one is not there, or has another size; the rest of the image is not read then. -EBADMSG: chunks_save() can't
 * have written this; -ENOMEM. */
int chunks_restore(struct bpf_kernel *kernel, struct unpack *in, struct kept_pool *kept);
