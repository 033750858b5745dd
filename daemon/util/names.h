/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a sentence about an unknown name offers instead: a list of what there is, cut at a length that
 * can be read, and the name that is nearest to what was written.
 */

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
	char name[NEAREST_MAX + 1]; /* the nearest so far; "" where nothing is near enough */
	unsigned distance; /* of name, or one more than what is near enough; 0: nothing is */
};

void nearest_init(struct nearest *nearest, const char *sought);
void nearest_offer(struct nearest *nearest, const char *name);
