/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Numbers as text. A response has a hundred thousand of them, so that printf() is avoided.
 *
 * A total is a count times the scale of its event. Most scales are 1, another whole number (64 bytes a count) or a
 * power of ten (ns to seconds): with these the product is exact in decimal and is written exactly, with all digits of
 * 64 bits. Other scales go through a double.
 */

#include "base/util/buf.h"

enum scale_kind {
	SCALE_WHOLE,   /* × factor */
	SCALE_DECIMAL, /* × 10^-decimals */
	SCALE_REAL,    /* × real */
};

/* The scale of an event, classified once. */
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

/* Adds count × scale; "+Inf" if that is beyond the range of a double. */
void number_add(struct buf *out, uint64_t count, const struct scale *scale);
/* False: number_add() would add "+Inf", which JSON does not have. */
bool number_is_finite(uint64_t count, const struct scale *scale);

/*
 * Adds a rate, a share or a ratio. These are estimates: nine significant digits are enough, or as many as there are
 * down to 10^-12. Adds "null" if v is not finite, which only JSON has.
 */
void measure_add(struct buf *out, double v);
