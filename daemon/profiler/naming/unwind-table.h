/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Where functions begin and end, by the table that exceptions are unwound with (.eh_frame, found by .eh_frame_hdr): it
 * is there in stripped programs too, since they need it to run. It has no names. The form of it for debuggers
 * (.debug_frame) is read too.
 *
 * Foreign bytes: see elf-image.h.
 */

#include "base/elf/elf-image.h"

/* Call-frame information: that of .eh_frame, or of .debug_frame, which may be compressed. */
struct unwind_section {
	struct elf_bytes bytes;
	uint64_t address; /* of its first byte; 0: .debug_frame has none */
	uint64_t flags;	  /* SHF_COMPRESSED */
	bool is_debug;
};

/* Also without the table, and without sections where there is the table. False: there is none. */
bool unwind_section_find(const struct elf_image *image, bool is_debug, struct unwind_section *ret);

/* The addresses of the next function, or part of one, from an offset of the section on, which is moved behind it.
 * Nothing says that they are in the file. False: there are no more. */
bool unwind_section_next(const struct unwind_section *section, uint64_t *offset, uint64_t *ret_start,
			 uint64_t *ret_end);
