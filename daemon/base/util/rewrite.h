/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Bytes that are written again and again, mostly the same ones at the same place: a part that has not changed is kept
 * without being written, or patched where it has. Blocks tell what has changed since a time, for copies elsewhere, and
 * the checksum of all is worked out of those that have.
 *
 * A writer appends to `buf`, as to any buffer. It may keep a part that it has written at the same place the last time
 * (rewrite_is_same()).
 */

#include "base/util/pack.h"

#define REWRITE_BLOCK 1024U

struct rewrite_block {
	uint64_t changed; /* the time (rewrite.times) at which it changed last */
	uint32_t checksum;
};

struct rewrite {
	struct buf buf;	   /* behind its `len`, up to `before`, are the bytes of the last time */
	uint64_t times;	   /* that they were written, with this one */
	size_t from;	   /* blocks and checksum are of what follows this many bytes */
	size_t before;	   /* bytes of the last time; 0: there was none, or it failed */
	size_t noted;	   /* what has changed is noted up to there */
	uint32_t checksum; /* CRC-32, as zlib has it */
	struct rewrite_block *blocks;
	size_t nr_blocks;
};

/* A part that was written. Zeroed: it was not. */
struct rewrite_place {
	const struct rewrite *of;
	uint64_t times;
	size_t at, length;
};

void rewrite_release(struct rewrite *rewrite);

/* Begins to write all again. */
void rewrite_begin(struct rewrite *rewrite, size_t from);

/* Was the part written the last time, just where the next byte goes? Then rewrite_keep() may take its bytes over. */
bool rewrite_is_same(const struct rewrite *rewrite, const struct rewrite_place *place);
void rewrite_keep(struct rewrite *rewrite, size_t n);
/* The part has been written, or kept, from there on. */
void rewrite_note_place(const struct rewrite *rewrite, struct rewrite_place *place, size_t at);

/* In a part that was kept: what is appended until the end of the patch goes to that place. */
size_t rewrite_begin_patch(struct rewrite *rewrite, size_t at);
void rewrite_end_patch(struct rewrite *rewrite, size_t at, size_t end);

/* Appends bytes, and notes no change if they are those of the last time. */
void rewrite_add(struct rewrite *rewrite, const void *bytes, size_t n);

/* All is written: works the checksum out. False: there was no memory for all. */
bool rewrite_end(struct rewrite *rewrite);

/* Writes into the file what has changed after that time; 0: all. -errno. */
int rewrite_copy(const struct rewrite *rewrite, int fd, uint64_t since);
