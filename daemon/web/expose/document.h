/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Small documents of the API, built with jansson. Functions here return NULL when out of memory. json_pack() returns
 * NULL for a NULL value, so that callers only check at the end.
 */

#include "base/util/buf.h"
#include "base/util/cpulist.h"

#include <jansson.h>

/* A string; null for NULL. jansson refuses invalid UTF-8, which foreign text can contain: invalid bytes are replaced as
 * in labels. */
json_t *document_text(const char *text);
/* An integer; a real above INT64_MAX, since jansson's integers are signed. */
json_t *document_u64(uint64_t v);
/* The string "0x1b". JSON has no hexadecimal numbers, and many readers keep only 53 bits of an integer. */
json_t *document_hex(uint64_t v);
/* An integer if the value is one; null if it is not finite. */
json_t *document_real(double v);
json_t *document_seconds(uint64_t ns);
/* The list as text: "0-3,8". */
json_t *document_cpus(const struct cpulist *cpus);

/* Writes root in compact form, members in the order in which they were set, and releases root in every case. As
 * buf_finish(); -ENOMEM also if root is NULL. */
int document_write(struct buf *out, json_t *root);

static inline void json_decref_pointer(json_t **json)
{
	json_decref(*json);
}
