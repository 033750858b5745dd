/* SPDX-License-Identifier: MIT */

#include "base/util/protobuf.h"

#include <string.h>

enum wire_type {
	WIRE_VARINT = 0,
	WIRE_64 = 1,
	WIRE_BYTES = 2,
};

static void append_varint(struct buf *out, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		buf_char(out, (char)(value | 0x80));
	buf_char(out, (char)value);
}

static size_t varint_size(uint64_t value)
{
	size_t n = 1;

	while (value >>= 7)
		n++;
	return n;
}

static void append_tag(struct buf *out, unsigned field, enum wire_type type)
{
	append_varint(out, (uint64_t)field << 3 | type);
}

void protobuf_u64(struct buf *out, unsigned field, uint64_t value)
{
	if (!value)
		return;
	append_tag(out, field, WIRE_VARINT);
	append_varint(out, value);
}

/* -0 is not 0. */
void protobuf_double(struct buf *out, unsigned field, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	if (!bits)
		return;
	append_tag(out, field, WIRE_64);
	for (unsigned i = 0; i < sizeof(bits); i++)
		buf_char(out, (char)(bits >> 8 * i));
}

void protobuf_bytes(struct buf *out, unsigned field, const void *bytes, size_t n)
{
	append_tag(out, field, WIRE_BYTES);
	append_varint(out, n);
	if (n)
		buf_add(out, bytes, n);
}

void protobuf_message(struct buf *out, unsigned field, struct buf *message)
{
	out->failed |= message->failed;
	protobuf_bytes(out, field, message->data, message->failed ? 0 : message->len);
	message->len = 0;
}

void protobuf_delimited(struct buf *out, struct buf *message)
{
	out->failed |= message->failed;
	append_varint(out, message->len);
	if (message->len)
		buf_add(out, message->data, message->len);
	message->len = 0;
}

void protobuf_packed(struct buf *out, unsigned field, const uint64_t *values, size_t nr)
{
	size_t size = 0;

	for (size_t i = 0; i < nr; i++)
		size += varint_size(values[i]);
	append_tag(out, field, WIRE_BYTES);
	append_varint(out, size);
	for (size_t i = 0; i < nr; i++)
		append_varint(out, values[i]);
}
