/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Values as bytes, to be read again by a program on the same machine: numbers of 64 bits in its byte order, and
 * texts with their length, padded to 8 bytes. Writing is appending to a struct buf, which says at the end whether it
 * has failed.
 *
 * What is read may be anything: the first value that is not there, or is out of its bounds, marks the reader as bad,
 * and everything read after it is 0 and empty. A number that says how many of something follow is held against the
 * bytes that are left, so that nobody reserves more memory than was written.
 */

#include "util/buf.h"

void pack_u64(struct buf *b, uint64_t value);
void pack_bytes(struct buf *b, const void *bytes, size_t n);
/* NULL is kept apart from "". */
void pack_text(struct buf *b, const char *text);

struct unpack {
	const unsigned char *at;
	size_t left;
	bool bad;
};

uint64_t unpack_u64(struct unpack *u);
/* At most max; more is bad. */
uint64_t unpack_at_most(struct unpack *u, uint64_t max);
/* How many things of at least `size` bytes follow. */
size_t unpack_nr(struct unpack *u, size_t size);
/* What was written by pack_bytes(), with zeroes up to n; what is not 0 beyond n is bad. */
void unpack_bytes(struct unpack *u, void *bytes, size_t n);
/* To be freed; NULL where that was written, where it is bad, and where there is no memory, which marks it as bad. */
char *unpack_text(struct unpack *u);
