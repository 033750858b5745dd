/* SPDX-License-Identifier: MIT */

#include "expose/rendering.h"

#include "util/gzip.h"

#include <errno.h>

static int write_as(struct buf *out, const struct snapshot *snapshot, enum snapshot_format format)
{
	const struct expose_query all = { .now = count_now() };

	switch (format) {
	case SNAPSHOT_OPENMETRICS:
		return expose_openmetrics(out, snapshot);
	case SNAPSHOT_JSON:
		return expose_json_snapshot(out, snapshot, &all);
	default:
		return expose_prometheus(out, snapshot);
	}
}

/* Of the plain text where somebody has asked for that; it is not kept for this. */
static int compress(struct buf *out, struct snapshot *snapshot, enum snapshot_format format, bool *written)
{
	const struct blob *plain = snapshot->rendered[format][SNAPSHOT_PLAIN];
	_cleanup_(buf_release) struct buf text = {};
	int r;

	if (plain)
		return gzip_add(out, plain->data, plain->len);
	*written = true;
	r = write_as(&text, snapshot, format);
	return r < 0 ? r : gzip_add(out, text.data, text.len);
}

int rendering_get(struct blob **ret, struct snapshot *snapshot, enum snapshot_format format,
		  enum snapshot_coding coding, bool *written)
{
	struct blob **kept = &snapshot->rendered[format][coding];
	struct buf out = {};
	int r = 0;

	*written = false;
	if (!*kept && coding == SNAPSHOT_GZIP)
		r = compress(&out, snapshot, format, written);
	else if (!*kept) {
		*written = true;
		r = write_as(&out, snapshot, format);
	}
	if (r == 0 && !*kept)
		r = blob_new(kept, &out);
	if (r == 0)
		*ret = blob_ref(*kept);
	return r;
}
