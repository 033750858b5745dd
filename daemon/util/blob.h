/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Bytes that several hold: made once, changed by nobody, freed with the last that holds them.
 */

#include "util/buf.h"

struct blob {
	unsigned refs;
	unsigned users; /* for whoever accounts for what is held: how many of its own do */
	char *data;
	size_t len;
};

/* Takes over what is in b, which is empty then, also where this fails. -ENOMEM, also where b has failed. */
int blob_new(struct blob **ret, struct buf *b);
struct blob *blob_ref(struct blob *blob);
struct blob *blob_unref(struct blob *blob);
DEFINE_CLEANUP(struct blob *, blob_unref)
