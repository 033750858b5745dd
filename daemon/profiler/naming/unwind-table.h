/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Where functions begin and end, by the table that exceptions are unwound with (.eh_frame, found by .eh_frame_hdr): it
 * is there in stripped programs too, since they need it to run. It has no names. The table for debuggers (.debug_frame)
 * is read too.
 *
 * Foreign bytes: see elf-image.h.
 */

#include "base/elf/elf-image.h"

/* Call-frame information: the bytes of .eh_frame, or of .debug_frame, which may be compressed. */
struct unwind_section {
	struct elf_bytes bytes;
	uint64_t address; /* of its first byte; 0: .debug_frame has none */
	uint64_t flags;	  /* SHF_COMPRESSED */
	bool is_debug;
};

/* Finds the section by its name, or .eh_frame by .eh_frame_hdr if it has no section header. False: there is none. */
bool unwind_section_find(const struct elf_image *image, bool is_debug, struct unwind_section *ret);

/* The addresses of the next function, or of a part of it. *offset: where to go on in the section; it is moved. The
 * addresses may lie outside of the file. False: there are no more functions. */
bool unwind_section_next(const struct unwind_section *section, uint64_t *offset, uint64_t *ret_start,
			 uint64_t *ret_end);
