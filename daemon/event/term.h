/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The terms between the slashes of pmu/…/ and in the event files of sysfs: "event=0x3c,umask=0x01,inv".
 * Only their shape; what a name means is the PMU's to say.
 */

#include "util/reason.h"

#include <stdbool.h>
#include <stddef.h>

struct term {
	char *name;
	char *value; /* NULL: a term without a value; single quotes around it are taken off */
};

struct term_list {
	struct term *terms;
	size_t nr;
	char *text; /* which the terms point into */
};

/* Can a term be called so? Letters, digits, '_', '-' and '.'. */
bool term_is_name(const char *name);

void term_list_release(struct term_list *list);

/* An empty text has no terms. -EINVAL with the sentence in why, -ENOMEM; *ret is untouched on failure. */
int term_list_parse(struct term_list *ret, const char *text, struct reason *why);

/* The last term of that name which has a value, or NULL. */
const struct term *term_list_find(const struct term_list *list, const char *name);
