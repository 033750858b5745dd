/* SPDX-License-Identifier: MIT */

/* The cache of responses; and blobs and gzip, which it is made of. */

#include "web/expose/response-cache.h"

#include "setup/made-snapshot.h"

#include "base/util/gzip.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct made_event events[] = { { SCOPE_CPU, "g", "context-switches", .set = 0 }, {} };

static struct snapshot *small_snapshot(void)
{
	struct snapshot *s = made_snapshot(events);

	made_row(s, SCOPE_CPU, 0, NULL, 0);
	made_cell(s, SCOPE_CPU, 0, 0, 12345, 1);
	return s;
}

static struct response_cache *new_cache(void)
{
	struct response_cache *cache;

	assert_int_equal(response_cache_new(&cache), 0);
	return cache;
}

/* The content of a gzip file; fails the test if it is malformed. */
static char *gunzip(const char *data, size_t n, size_t *ret_size)
{
	z_stream stream = { .next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)n };
	struct buf out = {};
	int r = Z_OK;

	assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
	while (r == Z_OK) {
		assert_true(buf_reserve(&out, 1 << 16));
		stream.next_out = (Bytef *)out.data + out.len;
		stream.avail_out = 1 << 16;
		r = inflate(&stream, Z_NO_FLUSH);
		out.len += (1 << 16) - stream.avail_out;
	}
	assert_int_equal(r, Z_STREAM_END);
	assert_int_equal(stream.avail_in, 0);
	inflateEnd(&stream);
	*ret_size = out.len;
	return buf_steal(&out);
}

static void test_gzip(void **state)
{
	static const size_t sizes[] = { 0, 1, 1000, 32768, 1000003, 5000000 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		for (int noise = 0; noise < 2; noise++) {
			_cleanup_(freep) char *data = malloc(sizes[i] + 1), *again = NULL;
			_cleanup_(buf_release) struct buf out = {};
			uint32_t random = 1;
			size_t size;

			/* Text that is all alike, and such that nothing can be saved. */
			for (size_t k = 0; k < sizes[i]; k++) {
				random = random * 1664525 + 1013904223;
				data[k] = noise ? (char)(random >> 24) : "perf_cgroup_"[k % 12];
			}
			buf_char(&out, 'x');
			assert_int_equal(gzip_add(&out, data, sizes[i]), 0);
			assert_int_equal(out.data[0], 'x');
			again = gunzip(out.data + 1, out.len - 1, &size);
			assert_int_equal(size, sizes[i]);
			assert_memory_equal(again, data, size);
			assert_true(noise || sizes[i] < 10000 || out.len < sizes[i] / 10);
		}
}

static void test_blob(void **state)
{
	struct buf b = {}, failed = { .failed = true };
	struct blob *blob;

	(void)state;
	buf_str(&b, "hello");
	assert_int_equal(blob_new(&blob, &b), 0);
	assert_null(b.data);
	assert_int_equal(blob->len, 5);
	assert_memory_equal(blob->data, "hello", 5);
	assert_ptr_equal(blob_ref(blob), blob);
	assert_null(blob_unref(blob));
	assert_int_equal(blob->refs, 1);
	blob_unref(blob);
	assert_null(blob_unref(NULL));
	assert_int_equal(blob_new(&blob, &failed), -ENOMEM);
	assert_true(failed.failed);
	assert_int_equal(blob_new(&blob, &b), 0);
	assert_int_equal(blob->len, 0);
	blob_unref(blob);
}

/* Keeps a response of so many bytes as number n. */
static void add(struct response_cache *cache, const struct snapshot *s, unsigned n, size_t bytes)
{
	struct buf text = {};
	struct blob *blob;
	char key[16];

	(void)snprintf(key, sizeof(key), "%u", n);
	assert_true(buf_reserve(&text, bytes));
	memset(text.data, (int)('a' + n % 26), bytes);
	text.len = bytes;
	assert_int_equal(blob_new(&blob, &text), 0);
	response_cache_add(cache, s, key, RESPONSE_PLAIN, blob);
	blob_unref(blob);
}

/* Is number n there? */
static bool has(struct response_cache *cache, struct snapshot *s, unsigned n)
{
	struct blob *blob;
	char key[16];

	(void)snprintf(key, sizeof(key), "%u", n);
	blob = response_cache_find(cache, s, key, RESPONSE_PLAIN);
	if (!blob)
		return false;
	assert_int_equal(blob->refs, 2);
	assert_int_equal(blob->data[blob->len - 1], 'a' + n % 26);
	blob_unref(blob);
	return true;
}

/* The latest are kept, each with its key and coding. */
static void test_latest(void **state)
{
	struct snapshot *s = small_snapshot();
	struct response_cache *cache = new_cache();

	(void)state;
	assert_false(has(cache, s, 0));
	for (unsigned i = 0; i < 3 * RESPONSE_CACHE_NR; i++) {
		add(cache, s, i, 1000);
		assert_true(has(cache, s, i));
	}
	for (unsigned i = 0; i < 3 * RESPONSE_CACHE_NR; i++)
		assert_int_equal(has(cache, s, i), i >= 2 * RESPONSE_CACHE_NR);
	assert_null(response_cache_find(cache, s, "47", RESPONSE_GZIP));
	assert_null(response_cache_free(cache));
	assert_null(response_cache_free(NULL));
	assert_int_equal(s->refs, 1);
	snapshot_unref(s);
}

/* Large ones are forgotten sooner, except the latest. */
static void test_large(void **state)
{
	struct snapshot *s = small_snapshot();
	struct response_cache *cache = new_cache();

	(void)state;
	assert_false(has(cache, s, 0));
	for (unsigned i = 0; i < 5; i++)
		add(cache, s, i, RESPONSE_CACHE_BYTES / 4);
	assert_false(has(cache, s, 0));
	for (unsigned i = 1; i < 5; i++)
		assert_true(has(cache, s, i));
	add(cache, s, 9, 2 * RESPONSE_CACHE_BYTES);
	assert_true(has(cache, s, 9));
	assert_false(has(cache, s, 4));
	/* It is larger than all may be together: the next one takes its place. */
	add(cache, s, 10, 1);
	assert_true(has(cache, s, 10));
	assert_false(has(cache, s, 9));
	response_cache_free(cache);
	snapshot_unref(s);
}

/* A response is never one of another snapshot; the cache holds one snapshot at a time. */
static void test_one_snapshot_at_a_time(void **state)
{
	struct snapshot *s = small_snapshot(), *other = small_snapshot();
	struct response_cache *cache = new_cache();
	struct blob *first;

	(void)state;
	assert_null(response_cache_find(cache, s, "1", RESPONSE_PLAIN));
	add(cache, s, 1, 10);
	first = response_cache_find(cache, s, "1", RESPONSE_PLAIN);
	assert_non_null(first);
	assert_int_equal(s->refs, 2);
	assert_false(has(cache, other, 1));
	assert_int_equal(s->refs, 1);
	assert_int_equal(other->refs, 2);
	/* Its holder still has it. */
	assert_int_equal(first->refs, 1);
	blob_unref(first);
	/* It comes too late. */
	add(cache, s, 1, 10);
	assert_false(has(cache, other, 1));
	add(cache, other, 1, 10);
	assert_true(has(cache, other, 1));
	assert_false(has(cache, s, 1));
	assert_int_equal(other->refs, 1);
	response_cache_free(cache);
	assert_int_equal(s->refs, 1);
	snapshot_unref(other);
	snapshot_unref(s);
}

/* Responses go when nobody else holds their snapshot. */
static void test_stale(void **state)
{
	struct snapshot *s = small_snapshot();
	struct response_cache *cache = new_cache();
	struct blob *blob;

	(void)state;
	assert_false(response_cache_drop_stale(cache));
	assert_false(has(cache, s, 1));
	add(cache, s, 1, 10);
	assert_true(response_cache_drop_stale(cache));
	blob = response_cache_find(cache, s, "1", RESPONSE_PLAIN);
	assert_int_equal(blob->refs, 2);
	snapshot_unref(s);
	assert_false(response_cache_drop_stale(cache));
	assert_int_equal(blob->refs, 1);
	blob_unref(blob);
	response_cache_free(cache);
}

/* Made once for each coding, whatever the snapshot. */
static void test_constants(void **state)
{
	static const char first[] = "first", second[] = "second";
	struct snapshot *s = small_snapshot();
	struct response_cache *cache = new_cache();
	struct blob *blobs[4], *again;
	_cleanup_(freep) char *text = NULL;
	size_t size;

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(response_cache_get_constant(cache, i / 2 ? second : first,
							     i / 2 ? strlen(second) : strlen(first),
							     i % 2 ? RESPONSE_GZIP : RESPONSE_PLAIN, &blobs[i]),
				 0);
	assert_int_equal(blobs[0]->len, strlen(first));
	assert_memory_equal(blobs[2]->data, second, strlen(second));
	text = gunzip(blobs[3]->data, blobs[3]->len, &size);
	assert_int_equal(size, strlen(second));
	assert_memory_equal(text, second, size);
	assert_false(has(cache, s, 1));
	snapshot_unref(s);
	(void)response_cache_drop_stale(cache);
	assert_int_equal(response_cache_get_constant(cache, first, strlen(first), RESPONSE_GZIP, &again), 0);
	assert_ptr_equal(again, blobs[1]);
	response_cache_free(cache);
	assert_int_equal(again->refs, 2);
	blob_unref(again);
	for (int i = 0; i < 4; i++)
		blob_unref(blobs[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gzip),
		cmocka_unit_test(test_blob),
		cmocka_unit_test(test_latest),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_one_snapshot_at_a_time),
		cmocka_unit_test(test_stale),
		cmocka_unit_test(test_constants),
	};

	return cmocka_run_group_tests_name("response-cache", tests, NULL, NULL);
}
