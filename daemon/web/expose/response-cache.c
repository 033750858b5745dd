/* SPDX-License-Identifier: MIT */

#include "web/expose/response-cache.h"

#include "base/util/gzip.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

struct cached_response {
	char *key;
	enum response_coding coding;
	struct blob *blob;
};

struct cached_constant {
	const char *text; /* NULL: unused */
	struct blob *blob[_RESPONSE_CODING_MAX];
};

struct response_cache {
	struct snapshot *snapshot;			     /* a reference; NULL: nothing is cached */
	struct cached_response responses[RESPONSE_CACHE_NR]; /* the oldest first */
	size_t nr;
	struct cached_constant constants[RESPONSE_CACHE_CONSTANTS];
};

int response_cache_new(struct response_cache **ret)
{
	struct response_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return -ENOMEM;
	*ret = cache;
	return 0;
}

static void cached_release(struct cached_response *response)
{
	free(response->key);
	blob_unref(response->blob);
}

static void forget_all(struct response_cache *cache)
{
	for (; cache->nr > 0; cache->nr--)
		cached_release(&cache->responses[cache->nr - 1]);
	cache->snapshot = snapshot_unref(cache->snapshot);
}

struct response_cache *response_cache_free(struct response_cache *cache)
{
	if (!cache)
		return NULL;
	forget_all(cache);
	for (size_t i = 0; i < RESPONSE_CACHE_CONSTANTS; i++)
		for (int coding = 0; coding < _RESPONSE_CODING_MAX; coding++)
			blob_unref(cache->constants[i].blob[coding]);
	free(cache);
	return NULL;
}

bool response_cache_drop_stale(struct response_cache *cache)
{
	if (cache->snapshot && cache->snapshot->refs == 1)
		forget_all(cache);
	return cache->snapshot;
}

static void turn_to_snapshot(struct response_cache *cache, struct snapshot *snapshot)
{
	if (cache->snapshot == snapshot)
		return;
	forget_all(cache);
	cache->snapshot = snapshot_ref(snapshot);
}

/* --- responses */

struct blob *response_cache_find(struct response_cache *cache, struct snapshot *snapshot, const char *key,
				 enum response_coding coding)
{
	turn_to_snapshot(cache, snapshot);
	for (size_t i = 0; i < cache->nr; i++) {
		const struct cached_response *response = &cache->responses[i];

		if (response->coding == coding && strcmp(response->key, key) == 0)
			return blob_ref(response->blob);
	}
	return NULL;
}

static void forget_oldest(struct response_cache *cache)
{
	struct cached_response *oldest = cache->responses;

	cached_release(oldest);
	memmove(oldest, oldest + 1, --cache->nr * sizeof(*oldest));
}

static size_t cached_bytes(const struct response_cache *cache)
{
	size_t bytes = 0;

	for (size_t i = 0; i < cache->nr; i++)
		bytes += cache->responses[i].blob->len;
	return bytes;
}

void response_cache_add(struct response_cache *cache, const struct snapshot *snapshot, const char *key,
			enum response_coding coding, struct blob *blob)
{
	char *copy = cache->snapshot == snapshot ? strdup(key) : NULL;

	if (!copy)
		return;
	while (cache->nr == RESPONSE_CACHE_NR ||
	       (cache->nr > 0 && cached_bytes(cache) + blob->len > RESPONSE_CACHE_BYTES))
		forget_oldest(cache);
	cache->responses[cache->nr++] =
		(struct cached_response){ .key = copy, .coding = coding, .blob = blob_ref(blob) };
}

/* --- constants */

static struct cached_constant *constant_find(struct response_cache *cache, const char *text)
{
	size_t i = 0;

	while (cache->constants[i].text && cache->constants[i].text != text) {
		i++;
		assert(i < RESPONSE_CACHE_CONSTANTS);
	}
	cache->constants[i].text = text;
	return &cache->constants[i];
}

int response_cache_get_constant(struct response_cache *cache, const char *text, size_t size,
				enum response_coding coding, struct blob **ret)
{
	struct blob **cached = &constant_find(cache, text)->blob[coding];
	_cleanup_(buf_release) struct buf out = {};
	int r = 0;

	if (!*cached && coding == RESPONSE_GZIP)
		r = gzip_add(&out, text, size);
	else if (!*cached)
		buf_add(&out, text, size);
	if (!*cached && r == 0)
		r = blob_new(cached, &out);
	if (r == 0)
		*ret = blob_ref(*cached);
	return r;
}
