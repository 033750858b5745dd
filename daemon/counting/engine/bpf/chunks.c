/* SPDX-License-Identifier: MIT */

#include "counting/engine/bpf/chunks.h"

#include "base/util/clock.h"
#include "base/util/memory.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* By then the fd store has the file of a chunk: a daemon that comes after a kill finds all that are used. */
#define KEPT_AFTER_NS 1000000000U

/* What distinguishes slots from cells. */
struct kind {
	const char *name;
	size_t value_size, known_size; /* of one, in bytes */
	int protection;
	enum bpf_file table;
};

static struct kind kind_of_slots(const struct bpf_sizes *sizes)
{
	return (struct kind){ "slots", bpf_slot_size(sizes), sizeof(struct bpf_slot), PROT_READ | PROT_WRITE,
			      BPF_FILE_SLOTS };
}

static struct kind kind_of_cells(const struct bpf_sizes *sizes)
{
	return (struct kind){ "cells", bpf_cell_words(sizes) * sizeof(uint64_t),
			      bpf_read_words(sizes) * sizeof(uint64_t), PROT_READ, BPF_FILE_CELLS };
}

static size_t mapped_size(const struct kind *kind)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (CREDIT_CHUNK * kind->value_size + page - 1) / page * page;
}

static int create_map(const struct kind *kind)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, kind->name, sizeof(uint32_t), (uint32_t)kind->value_size,
				CREDIT_CHUNK, &options);

	return fd < 0 ? -errno : fd;
}

int chunks_slots_like(const struct bpf_sizes *sizes)
{
	const struct kind kind = kind_of_slots(sizes);

	return create_map(&kind);
}

int chunks_cells_like(const struct bpf_sizes *sizes)
{
	const struct kind kind = kind_of_cells(sizes);

	return create_map(&kind);
}

/* --- one chunk */

static void chunk_close(struct bpf_chunk *chunk, const struct kind *kind)
{
	if (!chunk->memory)
		return;
	(void)munmap(chunk->memory, mapped_size(kind));
	memory_unmap(chunk->known, CREDIT_CHUNK * kind->known_size);
	safe_close(chunk->fd);
	*chunk = (struct bpf_chunk){};
}

/* Makes a chunk of the map, which is the chunk's then, and is closed on failure. */
static int chunk_open(struct bpf_chunk *chunk, const struct kind *kind, int fd)
{
	void *memory = mmap(NULL, mapped_size(kind), kind->protection, MAP_SHARED, fd, 0);
	struct kept_id id = {};
	int r;

	if (memory == MAP_FAILED) {
		r = -errno;
		safe_close(fd);
		return r;
	}
	r = kept_identify(fd, &id);
	*chunk = (struct bpf_chunk){
		.fd = fd,
		.id = id.id,
		.made_at = clock_monotonic_ns(),
		.memory = memory,
		.known = memory_map_own(CREDIT_CHUNK * kind->known_size),
	};
	if (r == 0 && !chunk->known)
		r = -ENOMEM;
	if (r < 0)
		chunk_close(chunk, kind);
	return r;
}

/* Makes the next chunk, if that was not done yet. Programs find it when it is in the table. -EAGAIN: it is to be used
 * later. */
static int chunk_add(struct bpf_kernel *kernel, struct bpf_chunk *chunk, const struct kind *kind, uint32_t number,
		     bool at_once)
{
	int fd, r;

	if (chunk->memory)
		return at_once || clock_monotonic_ns() - chunk->made_at > KEPT_AFTER_NS ? 0 : -EAGAIN;
	fd = create_map(kind);
	r = fd < 0 ? fd : chunk_open(chunk, kind, fd);
	if (r == 0 && bpf_map_update_elem(kernel->fds[kind->table], &number, &chunk->fd, BPF_ANY) < 0) {
		r = -errno;
		chunk_close(chunk, kind);
	}
	kernel->nr_added += r == 0;
	return r == 0 && !at_once ? -EAGAIN : r;
}

/* --- all of them */

static uint32_t max_chunks(const struct bpf_kernel *kernel)
{
	return CREDIT_CHUNKS(kernel->sizes.slots);
}

static uint32_t nr_slot_chunks(const struct bpf_kernel *kernel)
{
	return CREDIT_CHUNKS(kernel->config->nr_slots);
}

static uint32_t nr_cell_chunks(const struct bpf_kernel *kernel, uint32_t cpu)
{
	return (uint32_t)kernel->cpus[cpu].max_cells / CREDIT_CHUNK;
}

int chunks_open(struct bpf_kernel *kernel)
{
	kernel->slots = calloc(max_chunks(kernel), sizeof(*kernel->slots));
	kernel->cells = calloc((size_t)max_chunks(kernel) * kernel->sizes.cpus, sizeof(*kernel->cells));
	if (kernel->slots && kernel->cells)
		return 0;
	free(kernel->slots);
	kernel->slots = NULL;
	return -ENOMEM;
}

void chunks_close(struct bpf_kernel *kernel)
{
	const struct kind slots = kind_of_slots(&kernel->sizes), cells = kind_of_cells(&kernel->sizes);

	if (!kernel->slots || !kernel->cells)
		return;
	for (uint32_t slot = 0; slot < kernel->config->nr_slots; slot++)
		if (kernel->slots[slot / CREDIT_CHUNK].known)
			free(slot_known(kernel, slot)->unclaimed);
	for (uint32_t i = 0; i < max_chunks(kernel); i++)
		chunk_close(&kernel->slots[i], &slots);
	for (uint32_t i = 0; i < max_chunks(kernel) * kernel->sizes.cpus; i++)
		chunk_close(&kernel->cells[i], &cells);
	free(kernel->slots);
	free(kernel->cells);
}

int chunks_add_slots(struct bpf_kernel *kernel, bool at_once)
{
	const struct kind kind = kind_of_slots(&kernel->sizes);
	uint32_t number = nr_slot_chunks(kernel), left = kernel->sizes.slots - kernel->config->nr_slots;
	int r;

	if (left == 0)
		return -ENOSPC;
	r = chunk_add(kernel, &kernel->slots[number], &kind, number, at_once);
	if (r == 0)
		kernel->config->nr_slots += left < CREDIT_CHUNK ? left : CREDIT_CHUNK;
	return r;
}

int chunks_add_cells(struct bpf_kernel *kernel, uint32_t cpu, bool at_once)
{
	const struct kind kind = kind_of_cells(&kernel->sizes);
	uint32_t number = nr_cell_chunks(kernel, cpu);
	int r;

	if (number == max_chunks(kernel))
		return -ENOSPC;
	r = chunk_add(kernel, chunk_of_cell(kernel, cpu, number * CREDIT_CHUNK), &kind,
		      cpu * max_chunks(kernel) + number, at_once);
	if (r == 0)
		*(volatile credit_word *)&kernel->cpus[cpu].max_cells += CREDIT_CHUNK;
	return r;
}

/* --- over a restart */

/* Those that are used, and the next one, if it is made. */
static void each_kept(const struct bpf_chunk *chunks, uint32_t max, kept_visitor each, void *userdata)
{
	for (uint32_t i = 0; i < max && chunks[i].memory; i++)
		each(userdata, chunks[i].fd, (struct kept_id){ KEPT_BPF_MAP, chunks[i].id });
}

void chunks_each_kept(const struct bpf_kernel *kernel, kept_visitor each, void *userdata)
{
	each_kept(kernel->slots, max_chunks(kernel), each, userdata);
	for (uint32_t cpu = 0; cpu < kernel->sizes.cpus; cpu++)
		each_kept(chunk_of_cell(kernel, cpu, 0), max_chunks(kernel), each, userdata);
}

static void save_chunks(const struct bpf_chunk *chunks, uint32_t nr, struct buf *out)
{
	pack_u64(out, nr);
	for (uint32_t i = 0; i < nr; i++)
		pack_u64(out, chunks[i].id);
}

void chunks_save(const struct bpf_kernel *kernel, struct buf *out)
{
	save_chunks(kernel->slots, nr_slot_chunks(kernel), out);
	for (uint32_t cpu = 0; cpu < kernel->sizes.cpus; cpu++)
		save_chunks(chunk_of_cell(kernel, cpu, 0), nr_cell_chunks(kernel, cpu), out);
}

static int chunk_restore(struct bpf_chunk *chunk, const struct kind *kind, uint64_t id, struct kept_pool *kept)
{
	struct bpf_map_info info = {};
	uint32_t length = sizeof(info);
	int fd = kept_pool_take(kept, KEPT_BPF_MAP, id);

	if (fd < 0)
		return -ENOENT;
	if (bpf_obj_get_info_by_fd(fd, &info, &length) < 0 || info.value_size != kind->value_size ||
	    info.max_entries != CREDIT_CHUNK) {
		safe_close(fd);
		return -ENOENT;
	}
	return chunk_open(chunk, kind, fd);
}

/* The chunks that are used, of which there are so many. */
static int take_chunks(struct bpf_chunk *chunks, uint32_t nr, const struct kind *kind, struct unpack *in,
		       struct kept_pool *kept)
{
	size_t told = unpack_nr(in, sizeof(uint64_t));
	int r = told < nr ? -ENOENT : told > nr ? -EBADMSG : 0;

	for (size_t i = 0; i < told; i++) {
		uint64_t id = unpack_u64(in);

		if (r == 0)
			r = chunk_restore(&chunks[i], kind, id, kept);
	}
	return in->bad ? -EBADMSG : r;
}

int chunks_restore(struct bpf_kernel *kernel, struct unpack *in, struct kept_pool *kept)
{
	const struct kind slots = kind_of_slots(&kernel->sizes), cells = kind_of_cells(&kernel->sizes);
	int r = -ENOENT;

	if (nr_slot_chunks(kernel) <= max_chunks(kernel))
		r = take_chunks(kernel->slots, nr_slot_chunks(kernel), &slots, in, kept);
	for (uint32_t cpu = 0; cpu < kernel->sizes.cpus && r == 0; cpu++) {
		uint32_t nr = nr_cell_chunks(kernel, cpu);

		r = nr > max_chunks(kernel) ? -ENOENT :
					      take_chunks(chunk_of_cell(kernel, cpu, 0), nr, &cells, in, kept);
	}
	return r;
}
