/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Rules of frames (frame-table.h) for code that is known by its bytes, since its call-frame information is missing or
 * wrong:
 *
 * - The code to which a signal handler returns. musl, Go and the vdso of arm64 have none, and an arm64 signal frame has
 *   two registers, the address and x30, where call-frame information has one.
 * - The code to which the function of makecontext(3) returns: nothing has called it.
 * - The code with which the dynamic linker of glibc begins on x86-64: nothing has called it.
 * - The stubs of the procedure linkage table: GNU ld describes them on x86-64, lld and mold do not, and no linker does
 *   on arm64.
 *
 * The file is foreign bytes: see elf-image.h.
 */

#include "base/elf/elf-image.h"
#include "profiler/stack/frame-builder.h"

/* After the rules of the file itself, which are preferred for stubs. The errors of frame_builder_add(). */
int known_code_add(struct frame_builder *builder, const struct elf_image *image);
