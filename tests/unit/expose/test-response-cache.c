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

/* Each is written once; a caller keeps it longer than the cache does. */
static void test_once(void **state)
{
	struct snapshot *s = small_snapshot();
	struct response_cache *cache = new_cache();
	struct blob *first[_RESPONSE_FORMAT_MAX][_RESPONSE_CODING_MAX], *again;
	bool written;

	(void)state;
	for (int format = 0; format < _RESPONSE_FORMAT_MAX; format++)
		for (int coding = 0; coding < _RESPONSE_CODING_MAX; coding++) {
			struct blob **blob = &first[format][coding];

			assert_int_equal(response_cache_get(cache, s, format, coding, blob, &written), 0);
			/* What is there in plain is compressed, and not written again. */
			assert_int_equal(written, coding == RESPONSE_PLAIN);
			for (int i = 0; i < 10; i++) {
				assert_int_equal(response_cache_get(cache, s, format, coding, &again, &written), 0);
				assert_ptr_equal(again, *blob);
				assert_false(written);
				blob_unref(again);
			}
			assert_int_equal((*blob)->refs, 2);
		}
	response_cache_free(cache);
	snapshot_unref(s);

	for (int format = 0; format < _RESPONSE_FORMAT_MAX; format++) {
		const struct blob *plain = first[format][RESPONSE_PLAIN], *gzip = first[format][RESPONSE_GZIP];
		size_t size;
		_cleanup_(freep) char *text = gunzip(gzip->data, gzip->len, &size);

		assert_int_equal(plain->refs, 1);
		assert_int_equal(size, plain->len);
		assert_memory_equal(text, plain->data, size);
		assert_non_null(memmem(text, size, "12345", 5));
		blob_unref(first[format][RESPONSE_PLAIN]);
		blob_unref(first[format][RESPONSE_GZIP]);
	}
}

/* A compressed response does not leave the plain one behind. */
static void test_compressed_alone(void **state)
{
	struct snapshot *s = small_snapshot();
	struct response_cache *cache = new_cache();
	struct blob *blob;
	bool written;

	(void)state;
	assert_int_equal(response_cache_get(cache, s, RESPONSE_OPENMETRICS, RESPONSE_GZIP, &blob, &written), 0);
	assert_true(written);
	blob_unref(blob);
	assert_int_equal(response_cache_get(cache, s, RESPONSE_OPENMETRICS, RESPONSE_PLAIN, &blob, &written), 0);
	assert_true(written);
	blob_unref(blob);
	response_cache_free(cache);
	snapshot_unref(s);
}

/* --- parts */

struct written {
	size_t bytes;
	unsigned nr; /* times it was written */
	bool fails;
};

static int write_part(struct buf *out, const struct snapshot *snapshot, const void *userdata)
{
	struct written *part = (struct written *)(uintptr_t)userdata;

	(void)snapshot;
	part->nr++;
	for (size_t i = 0; i < part->bytes; i++)
		buf_char(out, 'x');
	if (part->fails)
		buf_release(out);
	return part->fails ? -ENOMEM : 0;
}

/* The length of part number n, and whether it was written for this call. */
static size_t ask(struct response_cache *cache, struct snapshot *s, struct written *part, unsigned n,
		  enum response_coding coding, bool *written)
{
	char key[16];
	struct blob *blob;
	size_t len;

	(void)snprintf(key, sizeof(key), "%u", n);
	assert_int_equal(response_cache_get_part(cache, s, key, coding, write_part, part, &blob, written), 0);
	len = blob->len;
	assert_true(blob->refs >= 2);
	blob_unref(blob);
	return len;
}

/* The latest are kept, each in its coding; a compressed one is made from the plain one where that is kept. */
static void test_parts(void **state)
{
	struct snapshot *s = small_snapshot();
	struct response_cache *cache = new_cache();
	struct written part = { .bytes = 1000 };
	bool written;

	(void)state;
	for (unsigned i = 0; i < 3 * RESPONSE_CACHE_PARTS; i++) {
		assert_int_equal(ask(cache, s, &part, i, RESPONSE_PLAIN, &written), 1000);
		assert_true(written);
		assert_int_equal(ask(cache, s, &part, i, RESPONSE_PLAIN, &written), 1000);
		assert_false(written);
	}
	assert_int_equal(part.nr, 3 * RESPONSE_CACHE_PARTS);
	for (unsigned i = 2 * RESPONSE_CACHE_PARTS; i < 3 * RESPONSE_CACHE_PARTS; i++)
		(void)ask(cache, s, &part, i, RESPONSE_PLAIN, &written);
	assert_int_equal(part.nr, 3 * RESPONSE_CACHE_PARTS);
	assert_in_range(ask(cache, s, &part, 3 * RESPONSE_CACHE_PARTS - 1, RESPONSE_GZIP, &written), 1, 999);
	assert_false(written);
	(void)ask(cache, s, &part, 0, RESPONSE_GZIP, &written);
	assert_true(written);
	(void)ask(cache, s, &part, 0, RESPONSE_GZIP, &written);
	assert_int_equal(part.nr, 3 * RESPONSE_CACHE_PARTS + 1);
	response_cache_free(cache);
	snapshot_unref(s);
}

/* Large ones are forgotten sooner, except the latest. */
static void test_large_parts(void **state)
{
	struct snapshot *s = small_snapshot();
	struct response_cache *cache = new_cache();
	struct written part = { .bytes = RESPONSE_CACHE_BYTES / 4 }, small = { .bytes = 1 };
	bool written;

	(void)state;
	for (unsigned i = 0; i < 5; i++)
		(void)ask(cache, s, &part, i, RESPONSE_PLAIN, &written);
	for (unsigned i = 4; i >= 1; i--)
		(void)ask(cache, s, &part, i, RESPONSE_PLAIN, &written);
	assert_int_equal(part.nr, 5);
	part = (struct written){ .bytes = 2 * RESPONSE_CACHE_BYTES };
	for (unsigned i = 0; i < 5; i++)
		(void)ask(cache, s, &part, 9, RESPONSE_PLAIN, &written);
	assert_int_equal(part.nr, 1);
	/* It is larger than all parts may be together: the next one takes its place. */
	(void)ask(cache, s, &small, 10, RESPONSE_PLAIN, &written);
	(void)ask(cache, s, &part, 9, RESPONSE_PLAIN, &written);
	assert_int_equal(part.nr, 2);
	response_cache_free(cache);
	snapshot_unref(s);
}

static void test_failed_part(void **state)
{
	struct snapshot *s = small_snapshot();
	struct response_cache *cache = new_cache();
	struct written part = { .bytes = 10, .fails = true };
	struct blob *blob = NULL;
	bool written;

	(void)state;
	for (int coding = 0; coding < _RESPONSE_CODING_MAX; coding++)
		assert_int_equal(response_cache_get_part(cache, s, "?", coding, write_part, &part, &blob, &written),
				 -ENOMEM);
	assert_null(blob);
	/* Nothing is kept of it. */
	part.fails = false;
	(void)ask(cache, s, &part, 1, RESPONSE_PLAIN, &written);
	assert_int_equal(part.nr, 3);
	response_cache_free(cache);
	snapshot_unref(s);
}

/* A response is never one of another snapshot; the cache holds one snapshot at a time. */
static void test_one_snapshot_at_a_time(void **state)
{
	struct snapshot *s = small_snapshot(), *other = small_snapshot();
	struct response_cache *cache = new_cache();
	struct written part = { .bytes = 10 };
	struct blob *first, *again;
	bool written;

	(void)state;
	made_cell(other, SCOPE_CPU, 0, 0, 678, 1);
	assert_int_equal(response_cache_get(cache, s, RESPONSE_JSON, RESPONSE_PLAIN, &first, &written), 0);
	(void)ask(cache, s, &part, 1, RESPONSE_PLAIN, &written);
	assert_int_equal(s->refs, 2);
	assert_int_equal(response_cache_get(cache, other, RESPONSE_JSON, RESPONSE_PLAIN, &again, &written), 0);
	assert_true(written);
	assert_non_null(memmem(again->data, again->len, "678", 3));
	assert_null(memmem(again->data, again->len, "12345", 5));
	assert_int_equal(s->refs, 1);
	assert_int_equal(other->refs, 2);
	blob_unref(again);
	/* Its holder still has it. */
	assert_int_equal(first->refs, 1);
	assert_non_null(memmem(first->data, first->len, "12345", 5));
	blob_unref(first);

	(void)ask(cache, other, &part, 1, RESPONSE_PLAIN, &written);
	assert_int_equal(part.nr, 2);
	(void)ask(cache, s, &part, 1, RESPONSE_PLAIN, &written);
	assert_int_equal(part.nr, 3);
	assert_int_equal(other->refs, 1);
	assert_null(response_cache_free(cache));
	assert_null(response_cache_free(NULL));
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
	bool written;

	(void)state;
	assert_false(response_cache_drop_stale(cache));
	assert_int_equal(response_cache_get(cache, s, RESPONSE_JSON, RESPONSE_PLAIN, &blob, &written), 0);
	assert_true(response_cache_drop_stale(cache));
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
	struct blob *blobs[4], *again, *other;
	_cleanup_(freep) char *text = NULL;
	size_t size;
	bool written;

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
	assert_int_equal(response_cache_get(cache, s, RESPONSE_JSON, RESPONSE_PLAIN, &other, &written), 0);
	blob_unref(other);
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
		cmocka_unit_test(test_gzip),	    cmocka_unit_test(test_blob),
		cmocka_unit_test(test_once),	    cmocka_unit_test(test_compressed_alone),
		cmocka_unit_test(test_parts),	    cmocka_unit_test(test_large_parts),
		cmocka_unit_test(test_failed_part), cmocka_unit_test(test_one_snapshot_at_a_time),
		cmocka_unit_test(test_stale),	    cmocka_unit_test(test_constants),
	};

	return cmocka_run_group_tests_name("response-cache", tests, NULL, NULL);
}
