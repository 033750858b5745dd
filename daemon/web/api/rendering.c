/* SPDX-License-Identifier: MIT */

#include "web/api/rendering.h"

#include "base/util/clock.h"
#include "base/util/gzip.h"

#include <errno.h>
#include <string.h>

#define SLACK (64 * 1024)

/* For so long the loop is held at a time. */
#define STEP_NS (4 * (uint64_t)NS_PER_MS)

bool rendering_equals(const struct rendering *a, const struct rendering *b)
{
	return a->key && b->key && a->coding == b->coding && strcmp(a->key, b->key) == 0;
}

int rendering_prepare(struct rendering *rendering)
{
	int r = rendering->past ? past_step(rendering->past, clock_monotonic_ns() + STEP_NS) : 0;

	rendering->error = r < 0 ? r : 0;
	return r;
}

static int write_body(struct buf *out, const struct rendering *rendering)
{
	if (rendering->past)
		return rendering->write_past(out, rendering->past);
	return rendering->write(out, rendering->snapshot, &rendering->query);
}

/* The plain text of a compressed response is not kept: most scrapers ask for the same coding every time. */
void rendering_run(struct rendering *rendering)
{
	/* Writers make room for a little more than they write. */
	_cleanup_(buf_release) struct buf text = { .max = RENDERING_MAX + SLACK }, compressed = {};
	const struct blob *plain = rendering->plain;
	bool compresses = rendering->coding == RESPONSE_GZIP;
	int r = 0;

	if (!plain)
		r = write_body(&text, rendering);
	if (r == 0 && text.len > RENDERING_MAX)
		r = -EFBIG;
	if (r == 0 && compresses)
		r = gzip_add(&compressed, plain ? plain->data : text.data, plain ? plain->len : text.len);
	if (r == 0)
		r = blob_new(&rendering->body, compresses ? &compressed : &text);
	rendering->error = r;
}

struct rendering *rendering_ref(struct rendering *rendering)
{
	rendering->refs++;
	return rendering;
}

struct rendering *rendering_unref(struct rendering *rendering)
{
	if (!rendering || --rendering->refs)
		return NULL;
	free(rendering->path);
	free(rendering->key);
	past_free(rendering->past);
	snapshot_unref(rendering->snapshot);
	blob_unref(rendering->plain);
	parameters_release(&rendering->parameters);
	blob_unref(rendering->body);
	free(rendering);
	return NULL;
}
