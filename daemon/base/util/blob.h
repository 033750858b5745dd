/* SPDX-License-Identifier: MIT */
#pragma once

/* Bytes with several holders: made once, immutable, freed with the last reference. */

#include "base/util/buf.h"

struct blob {
	unsigned refs;
	unsigned users; /* connections that are sending it (web/http/clients.c) */
	char *data;
	size_t len;
	bool mapped; /* munmap(2) instead of free(3) */
};

/* Takes the bytes of b, which is empty then. -ENOMEM, also if b has failed; b is the caller's then. */
int blob_new(struct blob **ret, struct buf *b);
/* The first len bytes of a file, mapped, which nobody must change or truncate any more; the fd may be closed. Negative
 * errno. */
int blob_new_mapped(struct blob **ret, int fd, size_t len);
struct blob *blob_ref(struct blob *blob);
struct blob *blob_unref(struct blob *blob);
DEFINE_CLEANUP(struct blob *, blob_unref)
