/* SPDX-License-Identifier: MIT */

#include "base/util/buf.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>

void buf_release(struct buf *b)
{
	free(b->data);
	*b = (struct buf){};
}

bool buf_reserve(struct buf *b, size_t n)
{
	size_t want, cap;
	char *data;

	if (b->failed)
		return false;
	if (b->cap - b->len >= n)
		return true;
	if (__builtin_add_overflow(b->len, n, &want) || want > SIZE_MAX / 2) {
		b->failed = true;
		return false;
	}
	if (b->max && want > b->max) {
		b->failed = b->is_full = true;
		return false;
	}

	cap = b->cap ? b->cap : 256;
	while (cap < want)
		cap *= 2;

	data = realloc(b->data, cap);
	if (!data) {
		b->failed = true;
		return false;
	}
	b->data = data;
	b->cap = cap;
	return true;
}

void buf_add(struct buf *b, const char *s, size_t n)
{
	if (n == 0 || !buf_reserve(b, n))
		return;
	memcpy(b->data + b->len, s, n);
	b->len += n;
}

void buf_printf(struct buf *b, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(NULL, 0, format, ap);
	va_end(ap);
	if (n < 0) {
		b->failed = true;
		return;
	}
	if (!buf_reserve(b, (size_t)n + 1))
		return;

	va_start(ap, format);
	(void)vsnprintf(b->data + b->len, (size_t)n + 1, format, ap);
	va_end(ap);
	b->len += (size_t)n;
}

void buf_u64(struct buf *b, uint64_t v)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	buf_add(b, digits + at, sizeof(digits) - at);
}

void buf_double(struct buf *b, double v)
{
	char text[32];

	if (isnan(v)) {
		buf_str(b, "NaN");
		return;
	}
	if (isinf(v)) {
		buf_str(b, v > 0 ? "+Inf" : "-Inf");
		return;
	}
	if (v >= 0 && v < 0x1p53 && v == (double)(uint64_t)v) {
		buf_u64(b, (uint64_t)v);
		return;
	}

	/* 15 digits read well and mostly suffice; 17 always read back. */
	for (int digits = 15; digits <= 17; digits++) {
		(void)snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	buf_str(b, text);
}

int buf_finish(struct buf *b, int r)
{
	if (r == 0 && b->failed)
		r = b->is_full ? -EFBIG : -ENOMEM;
	if (r < 0)
		buf_release(b);
	return r;
}

char *buf_steal(struct buf *b)
{
	char *data;

	buf_char(b, '\0');
	if (b->failed) {
		buf_release(b);
		return NULL;
	}
	data = b->data;
	*b = (struct buf){};
	return data;
}
