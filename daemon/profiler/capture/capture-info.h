/* SPDX-License-Identifier: MIT */
#pragma once

/* Rules that may make captures, and captures on disk, for users. */

#include <limits.h>
#include <stdint.h>

/* All texts are borrowed. */
struct capture_rule_info {
	const char *name, *when;
	const char *problem; /* why it is not evaluated; "": it is */
	uint64_t captures;   /* made so far */
	/* Episodes in which it was so, and there was no capture: one was made shortly before, or too many ran. */
	uint64_t passed_over;
};

/* A file. */
struct capture_saved {
	char id[NAME_MAX + 1];
	uint64_t bytes;
};
