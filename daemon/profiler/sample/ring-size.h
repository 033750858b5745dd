/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The sizes of rings and of the copies of stacks in their records. It is pure.
 *
 * A record takes the whole size of the copy that is asked for, however small the stack is. So a ring with copies holds
 * 400 ms of its event's rate, and RING_RECORDS_MIN records at least; and there are two of them (turned-ring.h). All
 * rings together take RINGS_BYTES_MAX at most, and the user may not lock more memory than the kernel allows: where that
 * does not suffice, the copies of all events are halved, together with their rings, until it does. Below RING_COPY_MIN
 * there are none. Rings without copies have a fixed size.
 */

#include "profiler/protocol.h"

#define RINGS_BYTES_MAX ((uint64_t)64 << 20)
#define RING_RECORDS_MIN 12
#define RING_COPY_MIN 4096

struct ring_size {
	size_t copy;	    /* bytes of the stack in each record; 0: none, and no registers */
	size_t record_max;  /* bytes of the largest record; there may be larger ones in rings without copies */
	size_t pages;	    /* of data, a power of two */
	uint32_t watermark; /* bytes: the reader is woken when more are there */
};

/* The copy that is left of stack_bytes after so many halvings. */
size_t ring_copy(uint64_t stack_bytes, unsigned halvings);

/* Of the event's ring, with such a copy. event: NULL for the side-band, which has none. */
struct ring_size ring_size_of(const struct sampled_event *event, size_t copy);

/* The largest copy of the events, after so many halvings; 0: none of them has one. */
size_t ring_copy_max(const struct sampled_event *events, size_t nr, unsigned halvings);

/* So many halvings it takes until the rings of so many CPUs take RINGS_BYTES_MAX at most, or no event has copies. */
unsigned ring_halvings(const struct sampled_event *events, size_t nr, size_t nr_cpus);
