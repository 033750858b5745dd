/* SPDX-License-Identifier: MIT */

#include "base/util/blob.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

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

int blob_new_mapped(struct blob **ret, int fd, size_t len)
{
	_cleanup_(freep) struct blob *blob = calloc(1, sizeof(*blob));
	/* There is no mapping of 0 bytes. */
	void *data = blob ? mmap(NULL, len ? len : 1, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;

	if (!blob)
		return -ENOMEM;
	if (data == MAP_FAILED)
		return -errno;
	*blob = (struct blob){ .refs = 1, .data = data, .len = len, .mapped = true };
	*ret = steal_ptr(blob);
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
	if (blob->mapped)
		(void)munmap(blob->data, blob->len ? blob->len : 1);
	else
		free(blob->data);
	free(blob);
	return NULL;
}
