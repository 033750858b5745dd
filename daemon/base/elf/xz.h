/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Decompresses xz, with liblzma where perfmond is built with it (xz.c, or else xz-none.c). It makes no system call: all
 * memory is the caller's.
 */

#include <stdbool.h>
#include <stddef.h>

/* Memory for the decompressor: a dictionary of 64 MiB, the largest that xz's presets have, and more. */
#define XZ_MEMORY ((size_t)80 << 20)

bool xz_is_built_in(void);

/* Returns the number of bytes written to `to`. 0: they are malformed, are more than `size`, need more memory than there
 * is, or xz is not built in. */
size_t xz_decompress(unsigned char *to, size_t size, const unsigned char *from, size_t from_size,
		     unsigned char memory[static XZ_MEMORY]);
