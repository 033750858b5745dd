/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Numbers as text, a hundred thousand of them an answer: no printf where a division will do.
 *
 * A total is a count times its event's scale. Most scales are 1, another whole number (64 bytes a count)
 * or a power of ten (ns to seconds), with which the product is exact in decimal and is written so, with
 * all digits of 64 bits. Only for the others it goes through a double.
 */

#include "util/buf.h"

enum scale_kind {
	SCALE_WHOLE,   /* × factor */
	SCALE_DECIMAL, /* × 10^-decimals */
	SCALE_REAL,    /* × real */
};

/* An event's scale, looked at once. */
struct scale {
	enum scale_kind kind;
	uint64_t factor;
	unsigned decimals;
	double real; /* always set */
};

#define SCALE_ONE ((struct scale){ .kind = SCALE_WHOLE, .factor = 1, .real = 1 })
#define SCALE_NS ((struct scale){ .kind = SCALE_DECIMAL, .decimals = 9, .real = 1e-9 })
#define SCALE_MS ((struct scale){ .kind = SCALE_DECIMAL, .decimals = 3, .real = 1e-3 })

struct scale scale_of(double scale);

/* Adds count × scale. Where the product is beyond a double's range, "+Inf": JSON has to ask first. */
void number_add(struct buf *out, uint64_t count, const struct scale *scale);
bool number_is_finite(uint64_t count, const struct scale *scale);

/*
 * Adds a rate, a share or a ratio: an estimate, of which nine significant digits are enough, or as many
 * as there are down to 10^-12. "null" where it is not finite: only JSON has such numbers.
 */
void measure_add(struct buf *out, double v);
