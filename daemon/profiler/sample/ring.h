/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The ring buffer of an event: memory that the kernel writes records to, and that this process reads.
 *
 * The kernel moves data_head when a record is whole, the reader moves data_tail when it has used one, each with a
 * barrier (perf_event_open(2), "MMAP layout"). Positions count bytes since the ring was mapped. A record may go round
 * the end of the ring; it is copied then. While the ring is full the kernel drops records.
 *
 * A reader looks at the head once (ring_look()), and then takes the records up to it, so that a busy kernel can't keep
 * it for ever. The oldest record can be looked at without being taken: records of several rings are merged by time.
 *
 * The bytes of a record stay in the ring until others are written over them: the kernel does not let the reader write
 * to the data. The copy of a record that goes round the end is in memory that children and core dumps do not get
 * (memory.h), as the ring itself is, and is zeroed when the record is taken or left.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RING_RECORD_MAX 65536

struct ring {
	struct perf_event_mmap_page *page; /* NULL: not mapped */
	const unsigned char *data;
	uint64_t size;	     /* of the data: a power of two */
	uint64_t head, tail; /* as of the last look; what was taken */
	unsigned char *copy; /* RING_RECORD_MAX bytes of secret memory for a record that goes round the end, or NULL */
	size_t copied;	     /* bytes of it */
	uint64_t broken;     /* times that the records made no sense, and all were dropped */
};

/* Maps the ring of an event, with that many pages of data, a power of two. Negative errno of mmap(2): -EPERM, more
 * memory than this user may lock for perf (kernel.perf_event_mlock_kb and RLIMIT_MEMLOCK). */
int ring_map(struct ring *ret, int fd, size_t pages);
/* Any fd that is polled has to leave its poll before: without its ring it hangs up for ever. */
void ring_unmap(struct ring *ring);

/* Reads the kernel's head. */
void ring_look(struct ring *ring);

/* The oldest record up to the head, whole and in one piece, or NULL. It is valid until it is taken. A size that no
 * record can have drops everything up to the head. Without memory for a record that goes round, it is dropped too. */
const void *ring_peek(struct ring *ring, size_t *ret_size);
/* Leaves the record that was looked at for the next time: no copy of it stays in this process's memory. */
void ring_leave(struct ring *ring);
/* Gives the room of a record of that size back to the kernel. */
void ring_take(struct ring *ring, size_t size);
