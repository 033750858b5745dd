/* SPDX-License-Identifier: MIT */

#include "profiler/sample/ring.h"

#include "base/util/memory.h"

#include <assert.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

int ring_map(struct ring *ret, int fd, size_t pages)
{
	size_t page = page_size();
	/* Writable: the kernel overwrites a ring that the reader can't answer for. */
	void *memory = mmap(NULL, (pages + 1) * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		return -errno;
	*ret = (struct ring){
		.page = memory,
		.data = (const unsigned char *)memory + page,
		.size = pages * page,
	};
	return 0;
}

void ring_leave(struct ring *ring)
{
	if (ring->copied)
		explicit_bzero(ring->copy, ring->copied);
	ring->copied = 0;
}

void ring_unmap(struct ring *ring)
{
	ring_leave(ring);
	if (ring->page)
		(void)munmap(ring->page, (size_t)ring->size + page_size());
	memory_unmap(ring->copy, RING_RECORD_MAX);
	*ring = (struct ring){};
}

void ring_look(struct ring *ring)
{
	ring->head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
}

static void move_tail(struct ring *ring, uint64_t tail)
{
	ring_leave(ring);
	ring->tail = tail;
	__atomic_store_n(&ring->page->data_tail, tail, __ATOMIC_RELEASE);
}

/* What was written last is in the ring's first bytes. */
static const void *copy_record(struct ring *ring, uint64_t at, size_t size)
{
	size_t first = (size_t)(ring->size - at);

	if (!ring->copy)
		ring->copy = memory_map_secret(RING_RECORD_MAX);
	if (!ring->copy)
		return NULL;
	memcpy(ring->copy, ring->data + at, first);
	memcpy(ring->copy + first, ring->data, size - first);
	ring->copied = size;
	return ring->copy;
}

static void drop_all(struct ring *ring)
{
	ring->broken++;
	move_tail(ring, ring->head);
}

const void *ring_peek(struct ring *ring, size_t *ret_size)
{
	while (ring->tail != ring->head) {
		uint64_t at = ring->tail & (ring->size - 1), left = ring->head - ring->tail;
		struct perf_event_header header;
		const void *record;

		/* Records are multiples of 8 bytes: a header never goes round the end. */
		if (left > ring->size || left < sizeof(header) || at % sizeof(header)) {
			drop_all(ring);
			return NULL;
		}
		memcpy(&header, ring->data + at, sizeof(header));
		if (header.size < sizeof(header) || header.size > left || header.size % sizeof(header)) {
			drop_all(ring);
			return NULL;
		}
		record = at + header.size <= ring->size ? ring->data + at : copy_record(ring, at, header.size);
		if (record) {
			*ret_size = header.size;
			return record;
		}
		ring->broken++;
		ring_take(ring, header.size);
	}
	return NULL;
}

void ring_take(struct ring *ring, size_t size)
{
	assert(size <= ring->head - ring->tail);
	move_tail(ring, ring->tail + size);
}
