/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Values as bytes, to be read again by a program on the same machine: numbers of 64 bits in its byte order, and texts
 * with their length, padded to 8 bytes. Writing appends to a struct buf, whose `failed` tells at the end whether there
 * was memory for all.
 *
 * Any bytes can be read: the first value that is missing or out of its bounds sets `bad`, and every value read after it
 * is 0 or empty. A number of things that follow is checked against the bytes that are left, so that no reader reserves
 * more memory than was written.
 */

#include "base/util/buf.h"

void pack_u64(struct buf *b, uint64_t value);
void pack_bytes(struct buf *b, const void *bytes, size_t n);
/* NULL and "" are different texts. */
void pack_text(struct buf *b, const char *text);

struct unpack {
	const unsigned char *at;
	size_t left;
	bool bad;
	bool no_memory; /* it is bad for want of memory alone: the bytes may be good */
};

uint64_t unpack_u64(struct unpack *u);
/* A larger number than max is bad. */
uint64_t unpack_at_most(struct unpack *u, uint64_t max);
/* The number of things that follow, each of at least `size` bytes. */
size_t unpack_nr(struct unpack *u, size_t size);
/* The bytes written by pack_bytes(), filled up with zeroes to n; bytes beyond n that are not 0 are bad. */
void unpack_bytes(struct unpack *u, void *bytes, size_t n);
/* The bytes written by pack_bytes(), where they stand, and their number; NULL if they are bad. */
const unsigned char *unpack_view(struct unpack *u, size_t *ret_n);
/* To be freed. NULL if NULL was written, if it is bad, and if there is no memory, which sets `bad` and `no_memory`. */
char *unpack_text(struct unpack *u);
