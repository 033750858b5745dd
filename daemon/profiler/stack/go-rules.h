/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Rules of frames (frame-table.h) for programs in Go, from the table of Go's runtime (go-functions.h). Go's linker
 * makes .debug_frame from that table, so it says the same; but stripped programs have only the table.
 *
 * The file is foreign bytes: see elf-image.h.
 */

#include "base/elf/elf-image.h"
#include "profiler/stack/frame-builder.h"

/* -ENODATA: the program has no such table, or the table has no rule, or it is for a machine whose registers are not
 * known; else the errors of frame_builder_add(). */
int go_rules_add(struct frame_builder *builder, const struct elf_image *image);
