/* SPDX-License-Identifier: MIT */

#include "util/blob.h"

#include <errno.h>

int blob_new(struct blob **ret, struct buf *b)
{
	_cleanup_(buf_release) struct buf taken = *b;
	struct blob *blob;
	char *data;

	*b = (struct buf){};
	blob = taken.failed ? NULL : calloc(1, sizeof(*blob));
	if (!blob)
		return -ENOMEM;
	/* It grows no more, and may be kept for a while. */
	data = realloc(taken.data, taken.len + 1);
	blob->refs = 1;
	blob->data = data ? data : taken.data;
	blob->len = taken.len;
	taken.data = NULL;
	*ret = blob;
	return 0;
}

struct blob *blob_ref(struct blob *blob)
{
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
