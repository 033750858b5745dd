/* SPDX-License-Identifier: MIT */

#include "web/expose/response-cache.h"

#include "base/util/clock.h"
#include "base/util/gzip.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

struct cached_part {
	char *key;
	enum response_coding coding;
	struct blob *blob;
};

struct cached_constant {
	const char *text; /* NULL: unused */
	struct blob *blob[_RESPONSE_CODING_MAX];
};

struct response_cache {
	struct snapshot *snapshot; /* a reference; NULL: nothing is cached */
	struct blob *whole[_RESPONSE_FORMAT_MAX][_RESPONSE_CODING_MAX];
	struct cached_part parts[RESPONSE_CACHE_PARTS]; /* the oldest first */
	size_t nr_parts;
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

static void part_release(struct cached_part *part)
{
	free(part->key);
	blob_unref(part->blob);
}

static void forget_all(struct response_cache *cache)
{
	for (int format = 0; format < _RESPONSE_FORMAT_MAX; format++)
		for (int coding = 0; coding < _RESPONSE_CODING_MAX; coding++)
			cache->whole[format][coding] = blob_unref(cache->whole[format][coding]);
	for (; cache->nr_parts > 0; cache->nr_parts--)
		part_release(&cache->parts[cache->nr_parts - 1]);
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

/* --- making a response */

struct recipe {
	response_writer write;
	const void *userdata;
	enum response_coding coding;
	const struct blob *plain; /* the same response in plain, where that is cached: it only has to be compressed */
};

/* The plain text of a compressed response is not kept: most scrapers ask for the same coding every time. */
static int response_make(struct blob **ret, const struct recipe *recipe, const struct snapshot *snapshot,
			 bool *ret_written)
{
	_cleanup_(buf_release) struct buf text = {}, compressed = {};
	const struct blob *plain = recipe->plain;
	int r = 0;

	if (!plain)
		r = recipe->write(&text, snapshot, recipe->userdata);
	if (r == 0 && recipe->coding == RESPONSE_GZIP)
		r = gzip_add(&compressed, plain ? plain->data : text.data, plain ? plain->len : text.len);
	if (r == 0)
		r = blob_new(ret, recipe->coding == RESPONSE_GZIP ? &compressed : &text);
	if (r == 0)
		*ret_written = !plain;
	return r;
}

/* --- the whole snapshot */

static int write_whole(struct buf *out, const struct snapshot *snapshot, const void *userdata)
{
	const struct expose_query all = { .now = clock_monotonic_ns() };

	switch (*(const enum response_format *)userdata) {
	case RESPONSE_OPENMETRICS:
		return expose_openmetrics(out, snapshot, &all);
	case RESPONSE_JSON:
		return expose_json_snapshot(out, snapshot, &all);
	default:
		return expose_prometheus(out, snapshot, &all);
	}
}

int response_cache_get(struct response_cache *cache, struct snapshot *snapshot, enum response_format format,
		       enum response_coding coding, struct blob **ret, bool *ret_written)
{
	struct blob **cached = cache->whole[format];
	bool written = false;
	int r = 0;

	assert(format < _RESPONSE_FORMAT_MAX && coding < _RESPONSE_CODING_MAX);
	turn_to_snapshot(cache, snapshot);
	if (!cached[coding]) {
		const struct recipe recipe = {
			.write = write_whole,
			.userdata = &format,
			.coding = coding,
			.plain = cached[RESPONSE_PLAIN],
		};

		r = response_make(&cached[coding], &recipe, snapshot, &written);
	}
	if (r < 0)
		return r;
	*ret = blob_ref(cached[coding]);
	*ret_written = written;
	return 0;
}

/* --- parts */

static struct blob *part_find(const struct response_cache *cache, const char *key, enum response_coding coding)
{
	for (size_t i = 0; i < cache->nr_parts; i++) {
		const struct cached_part *part = &cache->parts[i];

		if (part->coding == coding && strcmp(part->key, key) == 0)
			return part->blob;
	}
	return NULL;
}

static void part_forget_oldest(struct response_cache *cache)
{
	struct cached_part *oldest = cache->parts;

	part_release(oldest);
	memmove(oldest, oldest + 1, --cache->nr_parts * sizeof(*oldest));
}

static size_t parts_bytes(const struct response_cache *cache)
{
	size_t bytes = 0;

	for (size_t i = 0; i < cache->nr_parts; i++)
		bytes += cache->parts[i].blob->len;
	return bytes;
}

static int part_add(struct response_cache *cache, const char *key, enum response_coding coding, struct blob *blob)
{
	char *copy = strdup(key);

	if (!copy)
		return -ENOMEM;
	while (cache->nr_parts == RESPONSE_CACHE_PARTS ||
	       (cache->nr_parts > 0 && parts_bytes(cache) + blob->len > RESPONSE_CACHE_BYTES))
		part_forget_oldest(cache);
	cache->parts[cache->nr_parts++] = (struct cached_part){ .key = copy, .coding = coding, .blob = blob_ref(blob) };
	return 0;
}

int response_cache_get_part(struct response_cache *cache, struct snapshot *snapshot, const char *key,
			    enum response_coding coding, response_writer write, const void *userdata, struct blob **ret,
			    bool *ret_written)
{
	_cleanup_(blob_unrefp) struct blob *blob = NULL;
	bool written = false;
	int r = 0;

	turn_to_snapshot(cache, snapshot);
	blob = part_find(cache, key, coding);
	if (blob) {
		blob_ref(blob);
	} else {
		const struct recipe recipe = {
			.write = write,
			.userdata = userdata,
			.coding = coding,
			.plain = part_find(cache, key, RESPONSE_PLAIN),
		};

		r = response_make(&blob, &recipe, snapshot, &written);
		if (r == 0)
			r = part_add(cache, key, coding, blob);
	}
	if (r < 0)
		return r;
	*ret = steal_ptr(blob);
	*ret_written = written;
	return 0;
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
