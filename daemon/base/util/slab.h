/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Memory for many things of one size that are written to all the time. They lie close together, apart from what is
 * allocated otherwise, and the process's children do not get them (memory_map_own()): after a fork, writing to them
 * copies nothing.
 *
 * What was taken stays where it is until it is given back. The memory of those that were given back is used again, and
 * goes when the slab does.
 */

#include <stddef.h>

struct slab {
	size_t size; /* of a thing */
	void *chunks, *first_free;
};

/* Takes no memory yet. */
void slab_init(struct slab *slab, size_t size);
/* All that was taken is gone. */
void slab_release(struct slab *slab);

/* One with zeros, aligned for any type. NULL: no memory. */
void *slab_take(struct slab *slab);
void slab_give(struct slab *slab, void *thing);
