/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A growing byte buffer, for writers of text.
 *
 * Appending never returns an error: the first allocation that fails marks the buffer as failed, and everything appended
 * after it is dropped, so that a writer of a hundred thousand lines checks once, at the end. A zeroed struct buf is
 * empty and ready; buf_release() frees it. One with a bound fails in the same way where it would grow beyond that.
 */

#include "base/util/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct buf {
	char *data;
	size_t len;
	size_t cap;
	bool failed;
	size_t max;   /* bytes that there may be room for; 0: any number */
	bool is_full; /* it has failed at that */
};

void buf_release(struct buf *b);

/* Makes room for n more bytes; false (and b->failed) when there is no memory. */
bool buf_reserve(struct buf *b, size_t n);

void buf_add(struct buf *b, const char *s, size_t n);
void buf_printf(struct buf *b, const char *format, ...) _printf_(2, 3);
void buf_u64(struct buf *b, uint64_t v);

/* The shortest decimal that reads back as the same double; NaN and infinities as Prometheus has them. */
void buf_double(struct buf *b, double v);

static inline void buf_str(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

static inline void buf_char(struct buf *b, char c)
{
	if (b->len < b->cap || buf_reserve(b, 1))
		b->data[b->len++] = c;
}

/* The result of a writer whose result so far is r: r, or if the buffer has failed, -ENOMEM, and -EFBIG at its bound. On
 * an error it is released. */
int buf_finish(struct buf *b, int r);

/* Ends the text with a NUL (not counted in len) and hands it over; NULL when the buffer has failed. */
char *buf_steal(struct buf *b);
