/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Writing protocol buffers (protobuf.dev, "Encoding"): fields of numbers, of texts, and of messages, which are written
 * into a buffer of their own first.
 */

#include "base/util/buf.h"

/* A field whose value is 0 is left out, as readers expect. */
void protobuf_u64(struct buf *out, unsigned field, uint64_t value);
void protobuf_double(struct buf *out, unsigned field, double value);
void protobuf_bytes(struct buf *out, unsigned field, const void *bytes, size_t n);
/* A message, which is empty afterwards and keeps its room. */
void protobuf_message(struct buf *out, unsigned field, struct buf *message);
/* The same as one of a stream of messages: behind its length ("delimited"). */
void protobuf_delimited(struct buf *out, struct buf *message);
/* Numbers one after the other ("packed"). */
void protobuf_packed(struct buf *out, unsigned field, const uint64_t *values, size_t nr);
