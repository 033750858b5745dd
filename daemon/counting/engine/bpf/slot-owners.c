/* SPDX-License-Identifier: MIT */

#include "counting/engine/bpf/slot-owners.h"

#include "counting/engine/bpf/chunks.h"
#include "counting/engine/bpf/slot-bits.h"

#include <assert.h>
#include <bpf/bpf.h>
#include <errno.h>

/* Slots that are reserved or made free at a reading. */
#define RESERVE_AT_ONCE 4096

/* Chunks are added when fewer slots are left than this, or fewer cells on a CPU, or on all CPUs: so many cgroups may
 * come to run before the next reading. */
#define SPARE_SLOTS 2000U
#define SPARE_CELLS 500U
#define SPARE_CELLS_IN_ALL 4000U
#define URGENT 256U

static void push_reserved(struct bpf_kernel *kernel, uint32_t slot)
{
	slot_at(kernel, slot)->ancestors[0] = kernel->config->reserved;
	kernel->config->reserved = slot;
	kernel->config->nr_reserved++;
}

/* CREDIT_ROOT_SLOT: there is none. */
static uint32_t pop_reserved(struct bpf_kernel *kernel)
{
	struct credit_config *config = kernel->config;
	uint32_t slot = config->reserved;

	if (config->nr_reserved == 0)
		return CREDIT_ROOT_SLOT;
	config->nr_reserved--;
	config->reserved = (uint32_t)slot_at(kernel, slot)->ancestors[0];
	return slot;
}

uint32_t slot_find(const struct bpf_kernel *kernel, uint64_t id)
{
	uint32_t slot;

	if (bpf_map_lookup_elem(kernel->fds[BPF_FILE_IDS], &id, &slot) < 0 || slot >= kernel->config->nr_slots)
		return CREDIT_ROOT_SLOT;
	return slot;
}

/* A slot of its own comes before that of an ancestor. */
static bool forget_id(struct bpf_kernel *kernel, uint64_t id)
{
	return bpf_map_delete_elem(kernel->fds[BPF_FILE_IDS], &id) == 0 || errno == ENOENT;
}

bool slot_forget(struct bpf_kernel *kernel, uint64_t id)
{
	slot_unalias(kernel, id);
	return forget_id(kernel, id);
}

static uint32_t pop_vacant(struct bpf_kernel *kernel)
{
	uint32_t slot;

	if (bpf_map_lookup_and_delete_elem(kernel->fds[BPF_FILE_VACANT], NULL, &slot) < 0 ||
	    slot >= kernel->config->nr_slots)
		return CREDIT_ROOT_SLOT;
	return slot;
}

static void push_vacant(struct bpf_kernel *kernel, uint32_t slot)
{
	(void)bpf_map_update_elem(kernel->fds[BPF_FILE_VACANT], NULL, &slot, BPF_ANY);
}

/* Has the chunks used that were made. Their slots are reserved at first; the last one is the first to be taken. */
static int use_chunks(struct bpf_kernel *kernel)
{
	uint32_t first = kernel->config->nr_slots;
	int r = chunks_use(kernel);

	for (uint32_t slot = first; slot < kernel->config->nr_slots; slot++)
		if (slot != CREDIT_ROOT_SLOT)
			push_reserved(kernel, slot);
	return r;
}

static int add_slot(struct bpf_kernel *kernel)
{
	int r = chunks_make_slots(kernel, kernel->config->nr_slots + 1, true);

	return r < 0 ? r : use_chunks(kernel);
}

/* A reserved one, if there is any. */
static uint32_t pop_free(struct bpf_kernel *kernel)
{
	uint32_t slot = pop_reserved(kernel);

	if (slot == CREDIT_ROOT_SLOT)
		slot = pop_vacant(kernel);
	if (slot == CREDIT_ROOT_SLOT && add_slot(kernel) == 0)
		slot = pop_reserved(kernel);
	return slot;
}

uint32_t slot_take(struct bpf_kernel *kernel, uint64_t id, const credit_word *ancestors, size_t nr)
{
	uint32_t slot = slot_find(kernel, id);
	struct credit_slot *owner;

	assert(nr <= CREDIT_DEPTH_MAX);
	if (slot != CREDIT_ROOT_SLOT)
		return slot;
	slot = pop_free(kernel);
	if (slot == CREDIT_ROOT_SLOT)
		return slot;
	owner = slot_at(kernel, slot);
	for (size_t i = 0; i < nr; i++)
		owner->ancestors[i] = ancestors[i];
	owner->nr_ancestors = nr;
	owner->id = id;
	slot_note_taken(kernel, slot);
	if (bpf_map_update_elem(kernel->fds[BPF_FILE_IDS], &id, &slot, BPF_NOEXIST) == 0)
		return slot;
	slot_free(kernel, slot);
	return slot_find(kernel, id);
}

bool slot_alias(struct bpf_kernel *kernel, uint64_t id, uint32_t slot)
{
	const struct credit_alias alias = { slot, (uint32_t)slot_at(kernel, slot)->generation };

	return bpf_map_update_elem(kernel->fds[BPF_FILE_ALIASES], &id, &alias, BPF_ANY) == 0 && forget_id(kernel, id);
}

void slot_unalias(struct bpf_kernel *kernel, uint64_t id)
{
	(void)bpf_map_delete_elem(kernel->fds[BPF_FILE_ALIASES], &id);
}

void slot_end_aliases(struct bpf_kernel *kernel, uint32_t slot)
{
	slot_at(kernel, slot)->generation++;
}

void slot_free(struct bpf_kernel *kernel, uint32_t slot)
{
	struct credit_slot *owner = slot_at(kernel, slot);
	struct bpf_slot *known = slot_known(kernel, slot);

	owner->id = owner->nr_ancestors = owner->lacks = 0;
	free(known->unclaimed);
	*known = (struct bpf_slot){};
	slot_note_free(kernel, slot);
	push_vacant(kernel, slot);
}

/* Reserves slots, or makes reserved ones free. The rest follows at the next call. */
static void reserve(struct bpf_kernel *kernel, uint32_t nr)
{
	for (int i = 0; i < RESERVE_AT_ONCE && kernel->config->nr_reserved != nr; i++) {
		bool reserves = kernel->config->nr_reserved < nr;
		uint32_t slot = reserves ? pop_vacant(kernel) : pop_reserved(kernel);

		if (slot == CREDIT_ROOT_SLOT)
			return;
		if (reserves)
			push_reserved(kernel, slot);
		else
			push_vacant(kernel, slot);
	}
}

/* Are chunks used at once, though no fd store has their files yet? If nobody makes images, too. */
static bool is_urgent(const struct bpf_kernel *kernel, uint64_t taken, uint64_t nr)
{
	return kernel->nr_images == 0 || nr < taken + URGENT;
}

int slot_supply(struct bpf_kernel *kernel, uint32_t taken, uint32_t to_reserve)
{
	const struct credit_config *config = kernel->config;
	/* Slots that can still be added are a part of the reserve. */
	uint32_t to_add = kernel->sizes.slots - config->nr_slots, left, lacking;
	int r;

	reserve(kernel, to_reserve > to_add ? to_reserve - to_add : 0);
	left = config->nr_slots - config->nr_reserved;
	lacking = taken + SPARE_SLOTS > left ? taken + SPARE_SLOTS - left : 0;
	if (lacking > to_add)
		lacking = to_add;
	if (to_add <= to_reserve || lacking == 0)
		return use_chunks(kernel);
	r = chunks_make_slots(kernel, config->nr_slots + lacking, is_urgent(kernel, taken, left));
	if (r == 0)
		r = use_chunks(kernel);
	to_add = kernel->sizes.slots - config->nr_slots;
	reserve(kernel, to_reserve > to_add ? to_reserve - to_add : 0);
	return r;
}

int slot_supply_cells(struct bpf_kernel *kernel)
{
	uint32_t nr = 0, spare;
	int r = 0;

	for (uint32_t cpu = 0; cpu < kernel->sizes.cpus; cpu++)
		nr += chunk_of_cell(kernel, cpu, 0)->memory != NULL;
	spare = nr * SPARE_CELLS < SPARE_CELLS_IN_ALL ? SPARE_CELLS_IN_ALL / (nr + (nr == 0)) : SPARE_CELLS;
	for (uint32_t cpu = 0; r == 0 && cpu < kernel->sizes.cpus; cpu++) {
		const struct credit_cpu *at = &kernel->cpus[cpu];

		if (chunk_of_cell(kernel, cpu, 0)->memory)
			r = chunks_make_cells(kernel, cpu, (uint32_t)at->nr_cells + spare,
					      is_urgent(kernel, at->nr_cells, at->max_cells));
	}
	return r < 0 ? r : use_chunks(kernel);
}
