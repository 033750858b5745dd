/* SPDX-License-Identifier: MIT */

#include "base/util/gzip.h"

#include <errno.h>
#include <zlib.h>

/* zlib's largest window, and a gzip header around it. */
#define WINDOW_BITS (15 + 16)
#define MEMORY_LEVEL 8

/* Sizes of output room, and of input: avail_in is an unsigned int. */
#define ROOM (32U * 1024)
#define PIECE ((size_t)1 << 30)

/* Compresses until zlib has taken all of its input, and, with Z_FINISH, has given all of its output. */
static bool drain_stream(z_stream *stream, struct buf *out, int flush)
{
	int r;

	do {
		if (!buf_reserve(out, ROOM))
			return false;
		stream->next_out = (Bytef *)out->data + out->len;
		stream->avail_out = ROOM;
		r = deflate(stream, flush);
		out->len += ROOM - stream->avail_out;
	} while (r != Z_STREAM_ERROR && stream->avail_out == 0);
	return r != Z_STREAM_ERROR;
}

int gzip_add(struct buf *out, const char *data, size_t n)
{
	z_stream stream = {};
	size_t before = out->len;
	bool done = false;

	if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) == Z_OK) {
		do {
			size_t piece = n < PIECE ? n : PIECE;

			stream.next_in = (Bytef *)(uintptr_t)data;
			stream.avail_in = (uInt)piece;
			data += piece;
			n -= piece;
			done = drain_stream(&stream, out, n ? Z_NO_FLUSH : Z_FINISH);
		} while (done && n);
		(void)deflateEnd(&stream);
	}
	if (done)
		return 0;
	out->len = before;
	return -ENOMEM;
}
