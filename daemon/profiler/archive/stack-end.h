/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Where the stack of a sample ends, as far as it is known.
 */

enum stack_end {
	STACK_FRAME_POINTERS, /* not known: by frame pointers, since no copy was taken, or it had no room */
	STACK_WHOLE,	      /* at the entry of the program or of the thread */
	STACK_CUT,	      /* the copy ends before the stack, or there are too many frames */
	STACK_NO_TABLE,	      /* in code without a table, whose frame pointer leads nowhere */
	STACK_LOST,	      /* the way to the caller was wrong */
	_STACK_END_MAX,
};

/* As in labels: "whole", … */
const char *stack_end_name(enum stack_end end);
