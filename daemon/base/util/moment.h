/* SPDX-License-Identifier: MIT */
#pragma once

/* A moment as a user writes it: "now", "-5min" (before now; without a unit, seconds), or seconds since 1970, which
 * clock-steps.h finds. Pure. */

#include <stdint.h>

enum moment_kind {
	MOMENT_NONE, /* none was given */
	MOMENT_AGO,
	MOMENT_SINCE_EPOCH,
};

/* A zeroed one is none. */
struct moment {
	enum moment_kind kind;
	uint64_t ns; /* before now, or since the epoch; those that are too large are the largest */
};

/* -EINVAL. */
int moment_parse(struct moment *ret, const char *text);
