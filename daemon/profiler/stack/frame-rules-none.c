/* SPDX-License-Identifier: MIT */

/* Takes the place of frame-rules.c where there is no libdw. */

#include "profiler/stack/frame-rules.h"

#include <errno.h>

bool frame_rules_are_built_in(void)
{
	return false;
}

int frame_rules_add(_unused_ struct frame_builder *builder, _unused_ const struct elf_image *image)
{
	return -ENODATA;
}
