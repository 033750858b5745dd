/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Makes a table of frames (frame-table.h), out of stretches of a file that have one rule each, in any order.
 *
 * Where stretches overlap, a place belongs to the stretch that begins first; of two that begin together, to the one
 * that was added first. Places between stretches are FRAME_UNKNOWN. A table that is full ends there.
 */

#include "profiler/stack/frame-table.h"

struct frame_builder;

int frame_builder_new(struct frame_builder **ret); /* -ENOMEM */
struct frame_builder *frame_builder_free(struct frame_builder *builder);
DEFINE_CLEANUP(struct frame_builder *, frame_builder_free)

/* Adds a rule for the offsets in the file from start to before end. -EFBIG: the table is full, or the offsets are
 * beyond 4 GiB; -ENOMEM. */
int frame_builder_add(struct frame_builder *builder, uint64_t start, uint64_t end, const struct frame_rule *rule);

/* Writes the table at the beginning of a file, the header last. -ENODATA: there is no rule other than FRAME_UNKNOWN;
 * -ENOMEM; negative errno of pwrite(2). Nothing may be added afterwards. */
int frame_builder_write(struct frame_builder *builder, int fd);
