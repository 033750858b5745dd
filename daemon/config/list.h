/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Places, texts and lists of a configuration: they own their strings.
 */

#include "config/config.h"

/* Entries of one list, and groups of one configuration: far above use, far below harm. */
#define CONFIG_MAX_ENTRIES 1000

/* Takes the place of what stands in *ret. -ENOMEM. */
int config_place_set(struct config_place *ret, const char *file, unsigned line);
void config_place_release(struct config_place *place);

/* Takes the place of what is in *ret. -ENOMEM. */
int config_text_set(struct config_text *ret, const char *text, const struct config_place *place);
void config_text_release(struct config_text *text);

/* Appends the first n bytes of text. -ENOMEM; -E2BIG beyond CONFIG_MAX_ENTRIES. */
int config_list_add(struct config_list *list, const char *text, size_t n, const struct config_place *place);
bool config_list_has(const struct config_list *list, const char *text, size_t n);
bool config_list_equal(const struct config_list *a, const struct config_list *b);
/* Do they have a value in common? */
bool config_list_share(const struct config_list *a, const struct config_list *b);
int config_list_copy(struct config_list *ret, const struct config_list *list);
/* Empties it. */
void config_list_release(struct config_list *list);

/* The group of that name, made where there is none; its place is set. -ENOMEM; -E2BIG. */
int config_take_group(struct config *config, const char *name, size_t n, const struct config_place *place,
		      struct config_group **ret);
int config_group_copy(struct config_group *ret, const struct config_group *group);
void config_group_release(struct config_group *group);
