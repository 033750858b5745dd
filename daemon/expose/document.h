/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Answers of the API that are small, built with jansson. All of these return NULL for want of memory,
 * which json_pack() passes on: it is looked at once, at the end.
 */

#include "util/buf.h"

#include <jansson.h>

/* NULL becomes null. jansson takes no invalid UTF-8, which what someone has written into a file can be:
 * it is made valid as labels are. */
json_t *document_text(const char *text);
/* jansson's integers are signed: what is beyond them becomes a real. */
json_t *document_u64(uint64_t v);
/* "0x1b": JSON has no hexadecimal, and readers cut integers of 64 bits. */
json_t *document_hex(uint64_t v);
/* An integer where it is one; null where it is not finite. */
json_t *document_real(double v);
json_t *document_seconds(uint64_t ns);

/* Writes root, compact, with members in the order in which they were set, and drops it. -ENOMEM, with
 * out released; also where root is NULL. */
int document_write(struct buf *out, json_t *root);

static inline void json_decref_pointer(json_t **json)
{
	json_decref(*json);
}
