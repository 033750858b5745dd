/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The cache of responses written from a snapshot, so that clients that ask for the same at the same time share one.
 * Beside them it has constants of the program, which are of no snapshot.
 *
 * A cache is of one snapshot, to which it holds a reference. Asked with another snapshot, it forgets everything first:
 * no response outlives the snapshot that it was written from, and the reference keeps another snapshot from getting the
 * same address meanwhile. Callers hold references to the responses themselves, which the cache may forget.
 *
 * Memory is bounded: it has the latest responses, as many as RESPONSE_CACHE_NR and RESPONSE_CACHE_BYTES allow, but
 * always one.
 *
 * The age of a snapshot, in its JSON, is its age when that was written.
 */

#include "base/util/blob.h"
#include "counting/snapshot/snapshot.h"

#define RESPONSE_CACHE_NR 16
#define RESPONSE_CACHE_BYTES (32 * 1024 * 1024)
/* Different constants that it may be asked for. */
#define RESPONSE_CACHE_CONSTANTS 2

enum response_coding {
	RESPONSE_PLAIN,
	RESPONSE_GZIP,
	_RESPONSE_CODING_MAX,
};

struct response_cache;

/* -ENOMEM. */
int response_cache_new(struct response_cache **ret);
struct response_cache *response_cache_free(struct response_cache *cache);
DEFINE_CLEANUP(struct response_cache *, response_cache_free)

/* Forgets everything if nobody else holds the snapshot any more: it is no longer the current one, and no request
 * will come for it. To be called at times, so that memory is freed before the next request. True: something is still
 * cached. */
bool response_cache_drop_stale(struct response_cache *cache);

/* The response with that key and coding, written from the snapshot, with a reference for the caller; NULL: there is
 * none. */
struct blob *response_cache_find(struct response_cache *cache, struct snapshot *snapshot, const char *key,
				 enum response_coding coding);

/* Keeps a response, to which it takes a reference, unless it has been asked with another snapshot meanwhile. Responses
 * with the same key have to be the same. Without memory it is not kept. */
void response_cache_add(struct response_cache *cache, const struct snapshot *snapshot, const char *key,
			enum response_coding coding, struct blob *blob);

/* A text of the program that never changes, such as a page: kept as long as the cache. -ENOMEM. */
int response_cache_get_constant(struct response_cache *cache, const char *text, size_t size,
				enum response_coding coding, struct blob **ret);
