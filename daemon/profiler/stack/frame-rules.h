/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Rules of frames (frame-table.h) out of the call-frame information of a file: .eh_frame; and for functions that are
 * not in it the table of Go's runtime (go-rules.h), or else .debug_frame. libdw executes call-frame instructions
 * (frame-rules.c; without libdw: frame-rules-none.c). A rule that has none of the forms of frame-table.h becomes
 * FRAME_UNKNOWN or FRAME_UNDEFINED.
 *
 * The file is foreign bytes, also to libdw: only a sealed child calls this (frame-table-child.h).
 */

#include "base/elf/elf-image.h"
#include "profiler/stack/frame-builder.h"

/* Is libdw there? */
bool frame_rules_are_built_in(void);

/* -ENODATA: the file has no call-frame information, or is for a machine whose registers are not known; -EFBIG: it has
 * more than a table has room for, and the builder has the first part; -ENOMEM. */
int frame_rules_add(struct frame_builder *builder, const struct elf_image *image);
