/* SPDX-License-Identifier: MIT */
#pragma once

/* Help in a sentence about an unknown name: a list of the known ones, cut at a readable length, and the known name that
 * is spelt most like it. */

#include <stddef.h>

struct name_list {
	char text[144];
	size_t length;
	size_t left_out;
};

void name_list_add(struct name_list *list, const char *name);

/* "a, b, c" or "a, b and 17 more"; "none" for an empty list. To be called once, at the end. */
const char *name_list_text(struct name_list *list);

#define NEAREST_MAX 63

struct nearest {
	const char *sought;
	char name[NEAREST_MAX + 1]; /* the nearest so far; "": none is near enough */
	unsigned distance;	    /* edits to name; before there is one, the first number that is too many */
};

void nearest_init(struct nearest *nearest, const char *sought);
void nearest_offer(struct nearest *nearest, const char *name);
