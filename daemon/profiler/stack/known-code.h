/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Rules of frames (frame-table.h) for code that is known by its bytes, since its call-frame information is missing or
 * wrong:
 *
 * - The code to which a signal handler returns. musl, Go and the vdso of arm64 have no call-frame information for it.
 *   And a signal frame of arm64 has both the interrupted address and x30, for which call-frame information has one
 *   register.
 * - The code to which the function of makecontext(3) returns on x86-64. Nothing has called that code: the stack ends
 *   there.
 * - The code with which the dynamic linker of glibc begins on x86-64: the stack ends there, too.
 * - The stubs of the procedure linkage table: GNU ld describes them on x86-64, lld and mold do not, and no linker does
 *   on arm64.
 *
 * The file is foreign bytes: see elf-image.h.
 */

#include "base/elf/elf-image.h"
#include "profiler/stack/frame-builder.h"

/* To be called after the rules of the file itself were added: for stubs, they are preferred. Errors of
 * frame_builder_add(). */
int known_code_add(struct frame_builder *builder, const struct elf_image *image);
