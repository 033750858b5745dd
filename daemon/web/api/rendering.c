/* SPDX-License-Identifier: MIT */

#include "web/api/rendering.h"

#include "base/util/gzip.h"

#include <string.h>

bool rendering_equals(const struct rendering *a, const struct rendering *b)
{
	return a->coding == b->coding && strcmp(a->key, b->key) == 0;
}

/* The plain text of a compressed response is not kept: most scrapers ask for the same coding every time. */
void rendering_run(struct rendering *rendering)
{
	_cleanup_(buf_release) struct buf text = {}, compressed = {};
	const struct blob *plain = rendering->plain;
	bool compresses = rendering->coding == RESPONSE_GZIP;
	int r = 0;

	if (!plain)
		r = rendering->write(&text, rendering->snapshot, &rendering->query);
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
	snapshot_unref(rendering->snapshot);
	blob_unref(rendering->plain);
	parameters_release(&rendering->parameters);
	blob_unref(rendering->body);
	free(rendering);
	return NULL;
}
