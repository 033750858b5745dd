/* SPDX-License-Identifier: MIT */

#include "base/util/number.h"

#include <math.h>

/* Room for any 64 bits in decimal, with a point. */
#define DIGITS_MAX 24

/* The largest power of ten that is below 2^64 and, like all smaller ones, exact as a double. */
#define MAX_DECIMALS 18

static uint64_t power_of_ten(unsigned i)
{
	static const uint64_t powers[MAX_DECIMALS + 1] = {
		1U,
		10U,
		100U,
		1000U,
		10000U,
		100000U,
		1000000U,
		10000000U,
		100000000U,
		1000000000U,
		10000000000U,
		100000000000U,
		1000000000000U,
		10000000000000U,
		100000000000000U,
		1000000000000000U,
		10000000000000000U,
		100000000000000000U,
		1000000000000000000U,
	};

	return powers[i];
}

struct scale scale_of(double scale)
{
	struct scale ret = { .kind = SCALE_REAL, .real = scale };

	if (scale >= 1 && scale < 0x1p53 && scale == floor(scale)) {
		ret.kind = SCALE_WHOLE;
		ret.factor = (uint64_t)scale;
		return ret;
	}
	/* Both the quotient and a literal such as 1e-9 are the double nearest to the power, so that they are equal. */
	for (unsigned i = 1; i <= MAX_DECIMALS; i++)
		if (scale == 1 / (double)power_of_ten(i)) {
			ret.kind = SCALE_DECIMAL;
			ret.decimals = i;
		}
	return ret;
}

/* Returns the end of the text. Two digits at a time halve the number of divisions. */
static char *put_u64(char *p, uint64_t v)
{
	static const char pairs[] = "00010203040506070809101112131415161718192021222324"
				    "25262728293031323334353637383940414243444546474849"
				    "50515253545556575859606162636465666768697071727374"
				    "75767778798081828384858687888990919293949596979899";
	char digits[20];
	size_t at = sizeof(digits);

	while (v >= 10) {
		at -= 2;
		memcpy(digits + at, pairs + 2 * (v % 100), 2);
		v /= 100;
	}
	/* A single digit may be left. If not, a pair such as 07 has left a zero in front. */
	if (v > 0 || at == sizeof(digits))
		digits[--at] = (char)('0' + v);
	else if (digits[at] == '0')
		at++;
	memcpy(p, digits + at, sizeof(digits) - at);
	return p + (sizeof(digits) - at);
}

/* v × 10^-decimals, without zeros at the end of the fraction. */
static char *put_decimal(char *p, uint64_t v, unsigned decimals)
{
	uint64_t fraction = v % power_of_ten(decimals);

	p = put_u64(p, v / power_of_ten(decimals));
	if (fraction == 0)
		return p;
	for (; fraction % 10 == 0; fraction /= 10)
		decimals--;
	*p = '.';
	for (unsigned i = decimals; i > 0; i--, fraction /= 10)
		p[i] = (char)('0' + fraction % 10);
	return p + 1 + decimals;
}

static void add_decimal(struct buf *out, uint64_t v, unsigned decimals)
{
	char *start;

	if (!buf_reserve(out, DIGITS_MAX))
		return;
	start = out->data + out->len;
	out->len += (size_t)(put_decimal(start, v, decimals) - start);
}

void number_add(struct buf *out, uint64_t count, const struct scale *scale)
{
	uint64_t product;

	if (scale->kind == SCALE_DECIMAL)
		add_decimal(out, count, scale->decimals);
	else if (scale->kind == SCALE_WHOLE && !__builtin_mul_overflow(count, scale->factor, &product))
		add_decimal(out, product, 0);
	else
		buf_double(out, (double)count * scale->real);
}

bool number_is_finite(uint64_t count, const struct scale *scale)
{
	return scale->kind != SCALE_REAL || isfinite((double)count * scale->real);
}

void measure_add(struct buf *out, double v)
{
	unsigned decimals;

	if (!isfinite(v)) {
		buf_str(out, "null");
		return;
	}
	/* v × 10^decimals stays below 2^53, so that nothing but the rounding is lost. Other values go through
	 * printf(). */
	if (v >= 1e12 || v < 0 || (v > 0 && v < 1e-9)) {
		buf_double(out, v);
		return;
	}
	decimals = v < 1 ? 12 : v < 1e6 ? 9 : 3;
	add_decimal(out, (uint64_t)(v * (double)power_of_ten(decimals) + 0.5), decimals);
}
