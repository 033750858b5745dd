/* SPDX-License-Identifier: MIT */

#include "profiler/stack/waiting.h"

#include "base/util/memory.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

TAILQ_HEAD(waiting_list, waiting_sample);

struct waiting {
	unsigned char *room;
	size_t bytes;	 /* of copies and registers that wait */
	size_t mappings; /* … and their mappings */
	struct waiting_sample *all;
	struct waiting_list samples; /* the oldest first */
	struct waiting_list unused;
};

static size_t whole_pages(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (size + page - 1) / page * page;
}

/* Bytes of a place: whole pages, which no other place is in. */
static size_t place_size(size_t copy_size)
{
	return whole_pages(offsetof(struct waiting_place, bytes) + copy_size);
}

static size_t room_size(void)
{
	return WAITING_MAX * place_size(WAITING_COPY_MAX);
}

int waiting_new(struct waiting **ret)
{
	_cleanup_(waiting_freep) struct waiting *waiting = calloc(1, sizeof(*waiting));

	if (!waiting)
		return -ENOMEM;
	TAILQ_INIT(&waiting->samples);
	TAILQ_INIT(&waiting->unused);
	waiting->all = calloc(WAITING_MAX, sizeof(*waiting->all));
	waiting->room = memory_map_secret(room_size());
	if (!waiting->room || !waiting->all)
		return -ENOMEM;
	for (size_t i = 0; i < WAITING_MAX; i++) {
		waiting->all[i].place = (struct waiting_place *)(waiting->room + i * place_size(WAITING_COPY_MAX));
		TAILQ_INSERT_TAIL(&waiting->unused, &waiting->all[i], in_all);
	}
	*ret = steal_ptr(waiting);
	return 0;
}

struct waiting *waiting_free(struct waiting *waiting)
{
	if (!waiting)
		return NULL;
	while (!TAILQ_EMPTY(&waiting->samples))
		waiting_remove(waiting, TAILQ_FIRST(&waiting->samples));
	memory_unmap(waiting->room, room_size());
	free(waiting->all);
	free(waiting);
	return NULL;
}

struct waiting_sample *waiting_first(const struct waiting *waiting)
{
	return TAILQ_FIRST(&waiting->samples);
}

size_t waiting_bytes(const struct waiting *waiting)
{
	return waiting->bytes;
}

static void copy_chain(unsigned char *to, const struct waiting_sample *from)
{
	bool is_user = false; /* the kernel's part comes first */

	for (uint64_t i = 0; i < from->chain.nr; i++) {
		uint64_t address = record_u64(&from->chain, i);

		if (is_user && !mappings_find(from->mappings, address))
			address = WAITING_NO_ADDRESS;
		is_user |= address == (uint64_t)PERF_CONTEXT_USER;
		memcpy(to + i * sizeof(address), &address, sizeof(address));
	}
}

/* The copy and the registers go into their place, and the chain is allocated. */
static int fill(struct waiting_sample *to, const struct waiting_sample *from)
{
	struct waiting_place *place = to->place;
	unsigned char *chain = malloc(from->chain.nr * sizeof(uint64_t) + 1);

	*to = *from;
	to->place = place;
	to->event = strdup(from->event);
	to->cgroup = strdup(from->cgroup);
	to->command = strdup(from->command);
	to->thread = from->thread ? strdup(from->thread) : NULL;
	to->mappings = mappings_ref(from->mappings);
	to->nr_mappings = mappings_nr(from->mappings);
	to->chain.at = chain;
	if (!chain || !to->event || !to->cgroup || !to->command || (from->thread && !to->thread))
		return -ENOMEM;
	copy_chain(chain, from);
	place->registers = *from->registers;
	memcpy(place->bytes, from->copy.bytes, from->copy.size);
	to->registers = &place->registers;
	to->copy.bytes = place->bytes;
	return 0;
}

int waiting_put(struct waiting *waiting, const struct waiting_sample *sample)
{
	struct waiting_sample *unused = TAILQ_FIRST(&waiting->unused);
	size_t size = place_size(sample->copy.size), nr_mappings = mappings_nr(sample->mappings);
	int r;

	if (!unused || sample->copy.size > WAITING_COPY_MAX || size > WAITING_BYTES - waiting->bytes ||
	    nr_mappings > WAITING_MAPPINGS - waiting->mappings)
		return -ENOBUFS;
	TAILQ_REMOVE(&waiting->unused, unused, in_all);
	r = fill(unused, sample);
	TAILQ_INSERT_TAIL(&waiting->samples, unused, in_all);
	waiting->bytes += size;
	waiting->mappings += nr_mappings;
	if (r < 0)
		waiting_remove(waiting, unused);
	return r;
}

void waiting_remove(struct waiting *waiting, struct waiting_sample *sample)
{
	size_t size = place_size(sample->copy.size);

	explicit_bzero(sample->place, offsetof(struct waiting_place, bytes) + sample->copy.size);
	(void)madvise(sample->place, size, MADV_DONTNEED);
	waiting->bytes -= size;
	waiting->mappings -= sample->nr_mappings;
	mappings_unref(sample->mappings);
	free(sample->event);
	free(sample->cgroup);
	free(sample->command);
	free(sample->thread);
	free((void *)sample->chain.at);
	TAILQ_REMOVE(&waiting->samples, sample, in_all);
	*sample = (struct waiting_sample){ .place = sample->place };
	TAILQ_INSERT_TAIL(&waiting->unused, sample, in_all);
}
