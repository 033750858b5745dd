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

/* Slots or cells. */
struct kind {
	const char *name;
	size_t value_size, known_size; /* of one, in bytes */
	int protection;
	enum bpf_file table;
};

static struct kind kind_of(const struct bpf_sizes *sizes, enum bpf_file table)
{
	if (table == BPF_FILE_SLOTS)
		return (struct kind){ "slots", bpf_slot_size(sizes), sizeof(struct bpf_slot), PROT_READ | PROT_WRITE,
				      table };
	return (struct kind){ "cells", bpf_cell_words(sizes) * sizeof(uint64_t),
			      bpf_read_words(sizes) * sizeof(uint64_t), PROT_READ, table };
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

int chunks_create_like(const struct bpf_sizes *sizes, enum bpf_file table)
{
	const struct kind kind = kind_of(sizes, table);

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
	struct stored_id id = {};
	int r;

	if (memory == MAP_FAILED) {
		r = -errno;
		safe_close(fd);
		return r;
	}
	r = stored_identify(fd, &id);
	chunk->fd = fd;
	chunk->id = id.id;
	chunk->memory = memory;
	chunk->known = memory_map_own(CREDIT_CHUNK * kind->known_size);
	if (r == 0 && !chunk->known)
		r = -ENOMEM;
	if (r < 0)
		chunk_close(chunk, kind);
	return r;
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

/* The chunks of a CPU's cells, by number. */
static struct bpf_chunk *cell_chunks(const struct bpf_kernel *kernel, uint32_t cpu)
{
	return chunk_of_cell(kernel, cpu, 0);
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
	const struct kind slots = kind_of(&kernel->sizes, BPF_FILE_SLOTS);
	const struct kind cells = kind_of(&kernel->sizes, BPF_FILE_CELLS);

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

/* --- adding */

static int make(struct bpf_kernel *kernel, struct bpf_chunk *chunks, enum bpf_file table, uint32_t first, uint32_t nr,
		bool at_once)
{
	const struct kind kind = kind_of(&kernel->sizes, table);
	uint32_t end = nr < max_chunks(kernel) ? nr : max_chunks(kernel);
	int r = 0;

	for (uint32_t i = first; r == 0 && i < end; i++) {
		struct bpf_chunk *chunk = &chunks[i];

		if (!chunk->memory) {
			int fd = create_map(&kind);

			r = fd < 0 ? fd : chunk_open(chunk, &kind, fd);
			chunk->use_at = clock_monotonic_ns() + KEPT_AFTER_NS;
			kernel->nr_added += r == 0;
		}
		if (at_once)
			chunk->use_at = 0;
	}
	return r;
}

int chunks_make_slots(struct bpf_kernel *kernel, uint32_t nr, bool at_once)
{
	return make(kernel, kernel->slots, BPF_FILE_SLOTS, nr_slot_chunks(kernel), CREDIT_CHUNKS(nr), at_once);
}

int chunks_make_cells(struct bpf_kernel *kernel, uint32_t cpu, uint32_t nr, bool at_once)
{
	return make(kernel, cell_chunks(kernel, cpu), BPF_FILE_CELLS, nr_cell_chunks(kernel, cpu), CREDIT_CHUNKS(nr),
		    at_once);
}

/* Entries that are to be written to a table: chunks that were made and lack one. */
struct entries {
	struct bpf_chunk **chunks;
	uint32_t *numbers;
	int *fds;
	uint32_t nr;
};

/* The chunks of slots, or those of a CPU's cells: the first one has that number in the table. */
static void add_entries(struct entries *entries, struct bpf_chunk *chunks, uint32_t number, uint32_t used, uint32_t max)
{
	for (uint32_t i = used; i < max && chunks[i].memory; i++) {
		if (chunks[i].is_in_table)
			continue;
		entries->chunks[entries->nr] = &chunks[i];
		entries->numbers[entries->nr] = number + i;
		entries->fds[entries->nr++] = chunks[i].fd;
	}
}

/* After a call that writes to a map of maps, the kernel waits for all programs, which takes milliseconds: so all
 * entries are written by one call, where the kernel has it for such maps. */
static int write_entries(struct bpf_kernel *kernel, enum bpf_file table, struct entries *entries)
{
	LIBBPF_OPTS(bpf_map_batch_opts, options);
	uint32_t nr = entries->nr;
	bool is_written = nr > 1 &&
			  bpf_map_update_batch(kernel->fds[table], entries->numbers, entries->fds, &nr, &options) == 0;

	for (uint32_t i = 0; i < entries->nr; i++) {
		if (!is_written &&
		    bpf_map_update_elem(kernel->fds[table], &entries->numbers[i], &entries->fds[i], BPF_ANY) < 0)
			return -errno;
		entries->chunks[i]->is_in_table = true;
		kernel->nr_written++;
	}
	entries->nr = 0;
	return 0;
}

static int fill_tables(struct bpf_kernel *kernel, struct entries *entries)
{
	const uint32_t max = max_chunks(kernel);
	int r;

	add_entries(entries, kernel->slots, 0, nr_slot_chunks(kernel), max);
	r = write_entries(kernel, BPF_FILE_SLOTS, entries);
	for (uint32_t cpu = 0; r == 0 && cpu < kernel->sizes.cpus; cpu++)
		add_entries(entries, cell_chunks(kernel, cpu), cpu * max, nr_cell_chunks(kernel, cpu), max);
	return r < 0 ? r : write_entries(kernel, BPF_FILE_CELLS, entries);
}

static int add_to_tables(struct bpf_kernel *kernel)
{
	const uint64_t nr = kernel->nr_added - kernel->nr_written;
	_cleanup_(freep) struct bpf_chunk **chunks = calloc(nr + 1, sizeof(struct bpf_chunk *));
	_cleanup_(freep) uint32_t *numbers = calloc(nr + 1, sizeof(*numbers));
	_cleanup_(freep) int *fds = calloc(nr + 1, sizeof(*fds));
	struct entries entries = { chunks, numbers, fds, 0 };

	return chunks && numbers && fds ? fill_tables(kernel, &entries) : -ENOMEM;
}

/* Of these chunks, from that one on, those that are used from now on. */
static uint32_t count_usable(const struct bpf_chunk *chunks, uint32_t used, uint32_t max, uint64_t now)
{
	uint32_t nr = 0;

	while (used + nr < max && chunks[used + nr].is_in_table && chunks[used + nr].use_at <= now)
		nr++;
	return nr;
}

int chunks_use(struct bpf_kernel *kernel)
{
	uint64_t now = clock_monotonic_ns();
	uint32_t max = max_chunks(kernel), slots;
	int r = kernel->nr_added > kernel->nr_written ? add_to_tables(kernel) : 0;

	if (r < 0)
		return r;
	slots = (nr_slot_chunks(kernel) + count_usable(kernel->slots, nr_slot_chunks(kernel), max, now)) * CREDIT_CHUNK;
	kernel->config->nr_slots = slots < kernel->sizes.slots ? slots : kernel->sizes.slots;
	for (uint32_t cpu = 0; cpu < kernel->sizes.cpus; cpu++) {
		uint32_t nr = count_usable(cell_chunks(kernel, cpu), nr_cell_chunks(kernel, cpu), max, now);

		*(volatile credit_word *)&kernel->cpus[cpu].max_cells += (credit_word)nr * CREDIT_CHUNK;
	}
	return 0;
}

/* --- over a restart */

/* Those that are used, and the next one, if it is made. */
static void each_stored(const struct bpf_chunk *chunks, uint32_t max, stored_visitor each, void *userdata)
{
	for (uint32_t i = 0; i < max && chunks[i].memory; i++)
		each(userdata, chunks[i].fd, (struct stored_id){ STORED_BPF_MAP, chunks[i].id });
}

void chunks_each_stored(const struct bpf_kernel *kernel, stored_visitor each, void *userdata)
{
	each_stored(kernel->slots, max_chunks(kernel), each, userdata);
	for (uint32_t cpu = 0; cpu < kernel->sizes.cpus; cpu++)
		each_stored(cell_chunks(kernel, cpu), max_chunks(kernel), each, userdata);
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
		save_chunks(cell_chunks(kernel, cpu), nr_cell_chunks(kernel, cpu), out);
}

static int chunk_restore(struct bpf_chunk *chunk, const struct kind *kind, uint64_t id, struct stored_pool *stored)
{
	struct bpf_map_info info = {};
	uint32_t length = sizeof(info);
	int fd = stored_pool_take(stored, STORED_BPF_MAP, id);

	if (fd < 0)
		return -ENOENT;
	if (bpf_obj_get_info_by_fd(fd, &info, &length) < 0 || info.value_size != kind->value_size ||
	    info.max_entries != CREDIT_CHUNK) {
		safe_close(fd);
		return -ENOENT;
	}
	chunk->is_in_table = true;
	return chunk_open(chunk, kind, fd);
}

/* The chunks that are used, of which there are so many. */
static int take_chunks(struct bpf_chunk *chunks, uint32_t nr, const struct kind *kind, struct unpack *in,
		       struct stored_pool *stored)
{
	size_t told = unpack_nr(in, sizeof(uint64_t));
	int r = told < nr ? -ENOENT : told > nr ? -EBADMSG : 0;

	for (size_t i = 0; i < told; i++) {
		uint64_t id = unpack_u64(in);

		if (r == 0)
			r = chunk_restore(&chunks[i], kind, id, stored);
	}
	return in->bad ? -EBADMSG : r;
}

int chunks_restore(struct bpf_kernel *kernel, struct unpack *in, struct stored_pool *stored)
{
	const struct kind slots = kind_of(&kernel->sizes, BPF_FILE_SLOTS);
	const struct kind cells = kind_of(&kernel->sizes, BPF_FILE_CELLS);
	int r = -ENOENT;

	if (nr_slot_chunks(kernel) <= max_chunks(kernel))
		r = take_chunks(kernel->slots, nr_slot_chunks(kernel), &slots, in, stored);
	for (uint32_t cpu = 0; cpu < kernel->sizes.cpus && r == 0; cpu++) {
		uint32_t nr = nr_cell_chunks(kernel, cpu);

		r = -ENOENT;
		if (nr <= max_chunks(kernel))
			r = take_chunks(cell_chunks(kernel, cpu), nr, &cells, in, stored);
	}
	return r;
}
