/* SPDX-License-Identifier: MIT */
#pragma once

/* gzip (RFC 1952) at zlib's fastest level: enough to make a tenth of text in which most lines resemble the line
 * before. */

#include "base/util/buf.h"

/* Appends the n bytes, compressed. -ENOMEM; out has the same bytes as before then. */
int gzip_add(struct buf *out, const char *data, size_t n);
