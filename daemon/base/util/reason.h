/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A sentence for people, beside the negative errno for programs.
 *
 * Functions that can fail for a reason that a user must act on take a struct reason and fill it in on failure; the
 * rooms at the boundary (service, cli, web) log or show it. It may be NULL.
 */

#include "base/util/cleanup.h"

#include <stdarg.h>

#define REASON_MAX 512

#define ERRNO_MAX 4095 /* the kernel's MAX_ERRNO */

struct reason {
	char text[REASON_MAX];
};

/* Writes the sentence (cut at REASON_MAX) and returns r, so that callers can `return reason_set(…)`. */
int reason_set(struct reason *why, int r, const char *format, ...) _printf_(3, 4);

/* Puts the formatted text and ": " in front of the sentence in why, and returns r. */
int reason_prefix(struct reason *why, int r, const char *format, ...) _printf_(3, 4);
