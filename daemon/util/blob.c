/* SPDX-License-Identifier: MIT */

#include "util/blob.h"

#include <assert.h>
#include <errno.h>

int blob_new(struct blob **ret, struct buf *b)
{
	struct blob *blob = b->failed ? NULL : calloc(1, sizeof(*blob));
	char *data;

	if (!blob)
		return -ENOMEM;
	/* It grows no more, and may be kept for a while: the rest of its room is given back. */
	data = realloc(b->data, b->len + 1);
	*blob = (struct blob){ .refs = 1, .data = data ? data : b->data, .len = b->len };
	*b = (struct buf){};
	*ret = blob;
	return 0;
}

struct blob *blob_ref(struct blob *blob)
{
	assert(blob->refs > 0);
	blob->refs++;
	return blob;
}

struct blob *blob_unref(struct blob *blob)
{
	if (!blob || --blob->refs)
		return NULL;
	free(blob->data);
	free(blob);
	return NULL;
}
