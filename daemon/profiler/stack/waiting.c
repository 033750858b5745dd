/* SPDX-License-Identifier: MIT */

#include "profiler/stack/waiting.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROOM (WAITING_MAX * WAITING_COPY_MAX)

static size_t whole_pages(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (size + page - 1) / page * page;
}

int waiting_init(struct waiting *waiting)
{
	void *room = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	*waiting = (struct waiting){ .all = calloc(WAITING_MAX, sizeof(*waiting->all)) };
	TAILQ_INIT(&waiting->samples);
	TAILQ_INIT(&waiting->unused);
	if (room != MAP_FAILED)
		waiting->room = room;
	if (!waiting->room || !waiting->all || madvise(room, ROOM, MADV_DONTFORK) < 0 ||
	    madvise(room, ROOM, MADV_DONTDUMP) < 0) {
		waiting_release(waiting);
		return -ENOMEM;
	}
	for (size_t i = 0; i < WAITING_MAX; i++) {
		waiting->all[i].place = waiting->room + i * WAITING_COPY_MAX;
		TAILQ_INSERT_TAIL(&waiting->unused, &waiting->all[i], in_all);
	}
	return 0;
}

void waiting_release(struct waiting *waiting)
{
	while (waiting->all && !TAILQ_EMPTY(&waiting->samples))
		waiting_remove(waiting, TAILQ_FIRST(&waiting->samples));
	if (waiting->room)
		(void)munmap(waiting->room, ROOM);
	free(waiting->all);
	*waiting = (struct waiting){};
}

/* The copy goes into its place, and the chain is allocated. */
static int fill(struct waiting_sample *to, const struct waiting_sample *from)
{
	unsigned char *place = to->place, *chain = malloc(from->chain.nr * sizeof(uint64_t) + 1);

	*to = *from;
	to->place = place;
	to->event = strdup(from->event);
	to->cgroup = strdup(from->cgroup);
	to->command = strdup(from->command);
	to->mappings = mappings_ref(from->mappings);
	to->nr_mappings = mappings_nr(from->mappings);
	to->chain.at = chain;
	if (!chain || !to->event || !to->cgroup || !to->command)
		return -ENOMEM;
	memcpy(chain, from->chain.at, from->chain.nr * sizeof(uint64_t));
	memcpy(place, from->copy.bytes, from->copy.size);
	to->copy.bytes = place;
	return 0;
}

int waiting_put(struct waiting *waiting, const struct waiting_sample *sample)
{
	struct waiting_sample *unused = waiting->all ? TAILQ_FIRST(&waiting->unused) : NULL;
	size_t size = whole_pages(sample->copy.size), nr_mappings = mappings_nr(sample->mappings);
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
	size_t size = whole_pages(sample->copy.size);

	memset(sample->place, 0, sample->copy.size);
	(void)madvise(sample->place, size, MADV_DONTNEED);
	waiting->bytes -= size;
	waiting->mappings -= sample->nr_mappings;
	mappings_unref(sample->mappings);
	free(sample->event);
	free(sample->cgroup);
	free(sample->command);
	free((void *)sample->chain.at);
	TAILQ_REMOVE(&waiting->samples, sample, in_all);
	*sample = (struct waiting_sample){ .place = sample->place };
	TAILQ_INSERT_TAIL(&waiting->unused, sample, in_all);
}
