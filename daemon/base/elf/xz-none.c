/* SPDX-License-Identifier: MIT */

/* In the place of xz.c, where there is no liblzma. */

#include "base/elf/xz.h"

#include "base/util/cleanup.h"

bool xz_is_built_in(void)
{
	return false;
}

size_t xz_decompress(_unused_ unsigned char *to, _unused_ size_t size, _unused_ const unsigned char *from,
		     _unused_ size_t from_size, _unused_ unsigned char memory[static XZ_MEMORY])
{
	return 0;
}
