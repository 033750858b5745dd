/* SPDX-License-Identifier: MIT */

#include "counting/engine/bpf/slot-owners.h"

#include <assert.h>
#include <bpf/bpf.h>
#include <errno.h>

/* Slots that are reserved or made free at a reading. */
#define RESERVE_AT_ONCE 4096

static void push_reserved(struct bpf_kernel *kernel, uint32_t slot)
{
	kernel->slots[slot].ancestors[0] = kernel->config->reserved;
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
	if (slot == CREDIT_ROOT_SLOT)
		return kernel->sizes.slots - config->nr_untouched--;
	config->reserved = (uint32_t)kernel->slots[slot].ancestors[0];
	return slot;
}

uint32_t slot_find(const struct bpf_kernel *kernel, uint64_t id)
{
	uint32_t slot;

	if (bpf_map_lookup_elem(kernel->fds[BPF_FILE_IDS], &id, &slot) < 0 || slot >= kernel->sizes.slots)
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
	    slot >= kernel->sizes.slots)
		return CREDIT_ROOT_SLOT;
	return slot;
}

/* A reserved one, if there is any. */
static uint32_t pop_free(struct bpf_kernel *kernel)
{
	uint32_t slot = pop_reserved(kernel);

	return slot == CREDIT_ROOT_SLOT ? pop_vacant(kernel) : slot;
}

static void push_vacant(struct bpf_kernel *kernel, uint32_t slot)
{
	(void)bpf_map_update_elem(kernel->fds[BPF_FILE_VACANT], NULL, &slot, BPF_ANY);
}

uint32_t slot_take(struct bpf_kernel *kernel, uint64_t id, const credit_word *ancestors, size_t nr)
{
	uint32_t slot = slot_find(kernel, id);

	assert(nr <= CREDIT_DEPTH_MAX);
	if (slot != CREDIT_ROOT_SLOT)
		return slot;
	slot = pop_free(kernel);
	if (slot == CREDIT_ROOT_SLOT)
		return slot;
	for (size_t i = 0; i < nr; i++)
		kernel->slots[slot].ancestors[i] = ancestors[i];
	kernel->slots[slot].nr_ancestors = nr;
	kernel->slots[slot].id = id;
	if (bpf_map_update_elem(kernel->fds[BPF_FILE_IDS], &id, &slot, BPF_NOEXIST) == 0)
		return slot;
	slot_free(kernel, slot);
	return slot_find(kernel, id);
}

bool slot_alias(struct bpf_kernel *kernel, uint64_t id, uint32_t slot)
{
	const struct credit_alias alias = { slot, (uint32_t)kernel->slots[slot].generation };

	return bpf_map_update_elem(kernel->fds[BPF_FILE_ALIASES], &id, &alias, BPF_ANY) == 0 && forget_id(kernel, id);
}

void slot_unalias(struct bpf_kernel *kernel, uint64_t id)
{
	(void)bpf_map_delete_elem(kernel->fds[BPF_FILE_ALIASES], &id);
}

void slot_end_aliases(struct bpf_kernel *kernel, uint32_t slot)
{
	kernel->slots[slot].generation++;
}

void slot_free(struct bpf_kernel *kernel, uint32_t slot)
{
	kernel->slots[slot].id = 0;
	kernel->slots[slot].nr_ancestors = 0;
	free(kernel->known[slot].unclaimed);
	kernel->known[slot] = (struct bpf_slot){};
	push_vacant(kernel, slot);
}

void slot_reserve(struct bpf_kernel *kernel, uint32_t nr)
{
	/* The rest follows at the next call. Those that never were anybody's stay: their memory is not there yet. */
	for (int i = 0; i < RESERVE_AT_ONCE && kernel->config->nr_reserved != nr; i++) {
		bool reserves = kernel->config->nr_reserved < nr;
		uint32_t slot = CREDIT_ROOT_SLOT;

		if (reserves)
			slot = pop_vacant(kernel);
		else if (kernel->config->reserved != CREDIT_ROOT_SLOT)
			slot = pop_reserved(kernel);
		if (slot == CREDIT_ROOT_SLOT)
			return;
		if (reserves)
			push_reserved(kernel, slot);
		else
			push_vacant(kernel, slot);
	}
}
