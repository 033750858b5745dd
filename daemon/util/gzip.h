/* SPDX-License-Identifier: MIT */
#pragma once

/* RFC 1952, at zlib's fastest: text of which most is like the line above it becomes a tenth all the same. */

#include "util/buf.h"

/* Adds what n bytes are compressed. -ENOMEM, with out released. */
int gzip_add(struct buf *out, const char *data, size_t n);
