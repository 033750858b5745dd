/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Where functions begin and end, by the table that exceptions are unwound with (.eh_frame, found by .eh_frame_hdr): it
 * is there in stripped programs too, since they need it to run. It has no names.
 *
 * Foreign bytes: see elf-image.h.
 */

#include "base/elf/elf-image.h"

/* The addresses of the function, or of the part of one, that has this address in it. False: none is known. */
bool unwind_table_find(const struct elf_image *image, uint64_t address, uint64_t *ret_start, uint64_t *ret_end);
