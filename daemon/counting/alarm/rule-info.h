/* SPDX-License-Identifier: MIT */
#pragma once

/* A rule that may make captures, for users. */

#include <stdint.h>

/* All texts are borrowed. */
struct capture_rule_info {
	const char *name, *when;
	const char *problem; /* why it is not evaluated; "": it is */
	uint64_t captures;   /* made so far */
	/* Episodes in which it was so, and there was no capture: one was ordered shortly before, too many ran, or the
	 * order was refused or lost. */
	uint64_t passed_over;
};
