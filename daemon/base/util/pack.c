/* SPDX-License-Identifier: MIT */

#include "base/util/pack.h"

#define NO_TEXT UINT64_MAX

static size_t padding_of(size_t n)
{
	return (sizeof(uint64_t) - n % sizeof(uint64_t)) % sizeof(uint64_t);
}

void pack_u64(struct buf *b, uint64_t value)
{
	if (b->cap - b->len < sizeof(value) && !buf_reserve(b, sizeof(value)))
		return;
	memcpy(b->data + b->len, &value, sizeof(value));
	b->len += sizeof(value);
}

void pack_bytes(struct buf *b, const void *bytes, size_t n)
{
	static const char zeroes[sizeof(uint64_t)];

	pack_u64(b, n);
	buf_add(b, bytes, n);
	buf_add(b, zeroes, padding_of(n));
}

void pack_text(struct buf *b, const char *text)
{
	if (text)
		pack_bytes(b, text, strlen(text));
	else
		pack_u64(b, NO_TEXT);
}

static const unsigned char *take_bytes(struct unpack *u, size_t n)
{
	const unsigned char *at = u->at;

	if (u->bad || n > u->left) {
		u->bad = true;
		return NULL;
	}
	u->at += n;
	u->left -= n;
	return at;
}

uint64_t unpack_u64(struct unpack *u)
{
	const unsigned char *at = take_bytes(u, sizeof(uint64_t));
	uint64_t value = 0;

	if (at)
		memcpy(&value, at, sizeof(value));
	return value;
}

uint64_t unpack_at_most(struct unpack *u, uint64_t max)
{
	uint64_t value = unpack_u64(u);

	if (value <= max)
		return value;
	u->bad = true;
	return 0;
}

size_t unpack_nr(struct unpack *u, size_t size)
{
	uint64_t nr = unpack_u64(u);

	if (nr <= u->left / size)
		return (size_t)nr;
	u->bad = true;
	return 0;
}

/* The bytes behind a length of n. */
static const unsigned char *take_padded(struct unpack *u, uint64_t n)
{
	const unsigned char *at;

	if (n > u->left) {
		u->bad = true;
		return NULL;
	}
	at = take_bytes(u, (size_t)n);
	return take_bytes(u, padding_of((size_t)n)) ? at : NULL;
}

void unpack_bytes(struct unpack *u, void *bytes, size_t n)
{
	uint64_t length = unpack_u64(u);
	const unsigned char *at = take_padded(u, length);

	memset(bytes, 0, n);
	for (uint64_t i = n; at && i < length; i++)
		u->bad |= at[i] != 0;
	if (at && !u->bad)
		memcpy(bytes, at, length < n ? (size_t)length : n);
}

const unsigned char *unpack_view(struct unpack *u, size_t *ret_n)
{
	uint64_t length = unpack_u64(u);
	const unsigned char *at = take_padded(u, length);

	*ret_n = at ? (size_t)length : 0;
	return at;
}

char *unpack_text(struct unpack *u)
{
	uint64_t length = unpack_u64(u);
	const unsigned char *at;
	char *text;

	if (u->bad || length == NO_TEXT)
		return NULL;
	at = take_padded(u, length);
	/* A NUL inside would cut it short. */
	if (!at || memchr(at, 0, length)) {
		u->bad = true;
		return NULL;
	}
	text = strndup((const char *)at, length);
	if (!text)
		u->no_memory = u->bad = true;
	return text;
}
