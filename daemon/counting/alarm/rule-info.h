/* SPDX-License-Identifier: MIT */
#pragma once

/* A rule that may make captures, for users. */

#include <stdint.h>

/* All texts are borrowed. */
struct capture_rule_info {
	const char *name, *when;
	const char *problem; /* why it is not evaluated; "": it is */
	uint64_t captures;   /* made so far */
	/* Episodes in which it was so, and there was no capture: one was made shortly before, or too many ran. */
	uint64_t passed_over;
};
