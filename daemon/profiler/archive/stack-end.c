/* SPDX-License-Identifier: MIT */

#include "profiler/archive/stack-end.h"

static const char *const names[] = {
	[STACK_FRAME_POINTERS] = "frame_pointers",
	[STACK_WHOLE] = "whole",
	[STACK_CUT] = "cut",
	[STACK_NO_TABLE] = "no_table",
	[STACK_LOST] = "lost",
};

const char *stack_end_name(enum stack_end end)
{
	return names[end];
}
