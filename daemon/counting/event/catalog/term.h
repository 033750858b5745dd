/* SPDX-License-Identifier: MIT */
#pragma once

/* The syntax of the terms between the slashes of pmu/…/ and in the event files of sysfs: "event=0x3c,umask=0x01,inv".
 * The PMU gives the names a meaning (pmu.h). */

#include "base/util/reason.h"

#include <stdbool.h>
#include <stddef.h>

struct term {
	char *name;
	char *value; /* NULL: a term without a value; single quotes around it are taken off */
};

struct term_list {
	struct term *terms;
	size_t nr;
	char *text; /* the terms point into it */
};

/* Can a term have this name? Letters, digits, '_', '-' and '.'. */
bool term_is_name(const char *name);

void term_list_release(struct term_list *list);

/* An empty text has no terms. -EINVAL with the sentence in why; -ENOMEM. */
int term_list_parse(struct term_list *ret, const char *text, struct reason *why);

/* The last term of that name which has a value, or NULL. */
const struct term *term_list_find(const struct term_list *list, const char *name);
