/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Places, texts and lists of a configuration. They own their strings; a zeroed one is empty.
 *
 * The functions copy their arguments. A new value replaces the old one. On failure (-ENOMEM, -E2BIG) nothing changes.
 */

#include <stdbool.h>
#include <stddef.h>

/* Entries of one list, and groups of one configuration: far above use, far below harm. */
#define CONFIG_MAX_ENTRIES 1000

/* Where a value was written; file is "built-in defaults" or "command line" if it was no file. */
struct config_place {
	char *file;
	unsigned line;
};

int config_place_set(struct config_place *ret, const char *file, unsigned line);
void config_place_release(struct config_place *place);

/* A plain text; "" is none. */
struct config_text {
	char *text;
	struct config_place place;
};

int config_text_set(struct config_text *ret, const char *text, const struct config_place *place);
void config_text_release(struct config_text *text);

struct config_list {
	char **items;
	struct config_place *places;
	size_t nr;
	bool is_default; /* the built-in default, which the first value given replaces */
};

/* Appends the first n bytes of text. -E2BIG beyond CONFIG_MAX_ENTRIES. */
int config_list_add(struct config_list *list, const char *text, size_t n, const struct config_place *place);
bool config_list_has(const struct config_list *list, const char *text, size_t n);
/* The same values in the same order, wherever they were written. */
bool config_list_equal(const struct config_list *a, const struct config_list *b);
/* Do they have a value in common? */
bool config_list_share(const struct config_list *a, const struct config_list *b);
int config_list_copy(struct config_list *ret, const struct config_list *list);
/* Empties it. */
void config_list_release(struct config_list *list);

/* Makes room for one more of `size` bytes in an array that has room for the power of two at or above nr; array is the
 * address of the pointer to it. False if there is no memory. */
bool config_array_grow(void *array, size_t nr, size_t size);
