/* SPDX-License-Identifier: MIT */

#include "base/util/rewrite.h"

#include "base/util/file.h"

#include <zlib.h>

void rewrite_release(struct rewrite *rewrite)
{
	buf_release(&rewrite->buf);
	free(rewrite->blocks);
	*rewrite = (struct rewrite){};
}

void rewrite_begin(struct rewrite *rewrite, size_t from)
{
	rewrite->buf.len = rewrite->noted = 0;
	rewrite->buf.failed = false;
	rewrite->from = from;
	rewrite->times++;
}

/* --- what has changed */

static size_t blocks_of(const struct rewrite *rewrite, size_t len)
{
	return len > rewrite->from ? (len - rewrite->from + REWRITE_BLOCK - 1) / REWRITE_BLOCK : 0;
}

/* Blocks beyond those of the last time are new anyway. */
static void note_changed(struct rewrite *rewrite, size_t at, size_t end)
{
	size_t first = at > rewrite->from ? (at - rewrite->from) / REWRITE_BLOCK : 0, nr = blocks_of(rewrite, end);

	for (size_t i = first; i < nr && i < rewrite->nr_blocks; i++)
		rewrite->blocks[i].changed = rewrite->times;
}

bool rewrite_is_same(const struct rewrite *rewrite, const struct rewrite_place *place)
{
	return place->of == rewrite && place->times + 1 == rewrite->times && place->at == rewrite->buf.len &&
	       place->at + place->length <= rewrite->before && !rewrite->buf.failed;
}

void rewrite_keep(struct rewrite *rewrite, size_t n)
{
	note_changed(rewrite, rewrite->noted, rewrite->buf.len);
	rewrite->buf.len += n;
	rewrite->noted = rewrite->buf.len;
}

void rewrite_note_place(const struct rewrite *rewrite, struct rewrite_place *place, size_t at)
{
	*place = (struct rewrite_place){ rewrite, rewrite->times, at, rewrite->buf.len - at };
}

size_t rewrite_begin_patch(struct rewrite *rewrite, size_t at)
{
	size_t end = rewrite->buf.len;

	rewrite->buf.len = at;
	return end;
}

void rewrite_end_patch(struct rewrite *rewrite, size_t at, size_t end)
{
	note_changed(rewrite, at, rewrite->buf.len);
	rewrite->buf.len = end;
}

void rewrite_add(struct rewrite *rewrite, const void *bytes, size_t n)
{
	struct buf *buf = &rewrite->buf;

	if (!buf->failed && buf->len + n <= rewrite->before && memcmp(buf->data + buf->len, bytes, n) == 0)
		rewrite_keep(rewrite, n);
	else
		buf_add(buf, bytes, n);
}

/* --- the checksum */

static size_t block_end(const struct rewrite *rewrite, size_t i)
{
	size_t end = rewrite->from + (i + 1) * REWRITE_BLOCK;

	return end < rewrite->buf.len ? end : rewrite->buf.len;
}

/* Another length: all blocks are new. */
static bool change_length(struct rewrite *rewrite)
{
	size_t nr = blocks_of(rewrite, rewrite->buf.len);
	struct rewrite_block *blocks = reallocarray(rewrite->blocks, nr + 1, sizeof(*blocks));

	if (!blocks)
		return false;
	for (size_t i = 0; i < nr; i++)
		blocks[i] = (struct rewrite_block){ .changed = rewrite->times };
	rewrite->blocks = blocks;
	rewrite->nr_blocks = nr;
	rewrite->checksum = 0;
	return true;
}

/* The checksum of all is the sum of those of the blocks, as they are with the bytes behind each. */
static void update_block(struct rewrite *rewrite, size_t i)
{
	struct rewrite_block *block = &rewrite->blocks[i];
	size_t at = rewrite->from + i * REWRITE_BLOCK, end = block_end(rewrite, i);
	uint32_t checksum = (uint32_t)crc32_z(0, (const unsigned char *)rewrite->buf.data + at, end - at);

	rewrite->checksum ^= (uint32_t)crc32_combine(block->checksum ^ checksum, 0, (z_off_t)(rewrite->buf.len - end));
	block->checksum = checksum;
}

bool rewrite_end(struct rewrite *rewrite)
{
	size_t len = rewrite->buf.len;
	bool done = !rewrite->buf.failed && (len == rewrite->before || change_length(rewrite));

	rewrite->before = done ? len : 0;
	if (!done)
		return false;
	note_changed(rewrite, rewrite->noted, len);
	for (size_t i = 0; i < rewrite->nr_blocks; i++)
		if (rewrite->blocks[i].changed == rewrite->times)
			update_block(rewrite, i);
	return true;
}

int rewrite_copy(const struct rewrite *rewrite, int fd, uint64_t since)
{
	const char *data = rewrite->buf.data;
	int r = write_all_at(fd, data, rewrite->from, 0);

	for (size_t i = 0, next; i < rewrite->nr_blocks && r == 0; i = next) {
		size_t at = rewrite->from + i * REWRITE_BLOCK;

		next = i + 1;
		if (rewrite->blocks[i].changed <= since)
			continue;
		while (next < rewrite->nr_blocks && rewrite->blocks[next].changed > since)
			next++;
		r = write_all_at(fd, data + at, block_end(rewrite, next - 1) - at, (off_t)at);
	}
	return r;
}
