/* SPDX-License-Identifier: MIT */

/* What is written once for many; and blobs and gzip, that it is made of. */

#include "expose/rendering.h"

#include "made-snapshot.h"

#include "util/gzip.h"

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

/* What is in a gzip file, or a failed test. */
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
	assert_int_equal(blob_new(&blob, &b), 0);
	assert_int_equal(blob->len, 0);
	blob_unref(blob);
}

/* Each once, however often it is asked for; it outlives its snapshot where somebody still has it. */
static void test_once(void **state)
{
	struct snapshot *s = small_snapshot();
	struct blob *first[_SNAPSHOT_FORMAT_MAX][_SNAPSHOT_CODING_MAX], *again;
	bool written;

	(void)state;
	for (int format = 0; format < _SNAPSHOT_FORMAT_MAX; format++)
		for (int coding = 0; coding < _SNAPSHOT_CODING_MAX; coding++) {
			struct blob **blob = &first[format][coding];

			assert_int_equal(rendering_get(blob, s, format, coding, &written), 0);
			/* What is there in plain is compressed, and not written again. */
			assert_int_equal(written, coding == SNAPSHOT_PLAIN);
			for (int i = 0; i < 10; i++) {
				assert_int_equal(rendering_get(&again, s, format, coding, &written), 0);
				assert_ptr_equal(again, *blob);
				assert_false(written);
				blob_unref(again);
			}
			assert_int_equal((*blob)->refs, 2);
		}
	snapshot_unref(s);

	for (int format = 0; format < _SNAPSHOT_FORMAT_MAX; format++) {
		const struct blob *plain = first[format][SNAPSHOT_PLAIN], *gzip = first[format][SNAPSHOT_GZIP];
		size_t size;
		_cleanup_(freep) char *text = gunzip(gzip->data, gzip->len, &size);

		assert_int_equal(plain->refs, 1);
		assert_int_equal(size, plain->len);
		assert_memory_equal(text, plain->data, size);
		assert_non_null(memmem(text, size, "12345", 5));
		blob_unref(first[format][SNAPSHOT_PLAIN]);
		blob_unref(first[format][SNAPSHOT_GZIP]);
	}
}

/* Who wants it compressed does not leave the plain text behind. */
static void test_compressed_alone(void **state)
{
	struct snapshot *s = small_snapshot();
	struct blob *blob;
	bool written;

	(void)state;
	assert_int_equal(rendering_get(&blob, s, SNAPSHOT_OPENMETRICS, SNAPSHOT_GZIP, &written), 0);
	assert_true(written);
	assert_null(s->rendered[SNAPSHOT_OPENMETRICS][SNAPSHOT_PLAIN]);
	blob_unref(blob);
	snapshot_unref(s);
}

/* --- questions */

struct answer {
	size_t bytes;
	unsigned nr; /* times it was written */
	bool fails;
};

static int write_answer(struct buf *out, const struct snapshot *snapshot, const void *userdata)
{
	struct answer *answer = (struct answer *)(uintptr_t)userdata;

	(void)snapshot;
	answer->nr++;
	for (size_t i = 0; i < answer->bytes; i++)
		buf_char(out, 'x');
	if (answer->fails)
		buf_release(out);
	return answer->fails ? -ENOMEM : 0;
}

/* Of its length alone, and whether it was written for that. */
static size_t ask(struct snapshot *s, struct answer *answer, unsigned n, enum snapshot_coding coding, bool *written)
{
	char question[16];
	struct blob *blob;
	size_t len;

	(void)snprintf(question, sizeof(question), "%u", n);
	assert_int_equal(rendering_ask(&blob, s, question, coding, write_answer, answer, written), 0);
	len = blob->len;
	assert_true(blob->refs >= 2);
	blob_unref(blob);
	return len;
}

/* The last ones are kept, each in its coding; one compressed is made of the plain one that is there. */
static void test_questions(void **state)
{
	struct snapshot *s = small_snapshot();
	struct answer answer = { .bytes = 1000 };
	bool written;

	(void)state;
	for (unsigned i = 0; i < 3 * SNAPSHOT_ANSWERS; i++) {
		assert_int_equal(ask(s, &answer, i, SNAPSHOT_PLAIN, &written), 1000);
		assert_true(written);
		assert_int_equal(ask(s, &answer, i, SNAPSHOT_PLAIN, &written), 1000);
		assert_false(written);
	}
	assert_int_equal(answer.nr, 3 * SNAPSHOT_ANSWERS);
	for (unsigned i = 2 * SNAPSHOT_ANSWERS; i < 3 * SNAPSHOT_ANSWERS; i++)
		(void)ask(s, &answer, i, SNAPSHOT_PLAIN, &written);
	assert_int_equal(answer.nr, 3 * SNAPSHOT_ANSWERS);
	assert_in_range(ask(s, &answer, 3 * SNAPSHOT_ANSWERS - 1, SNAPSHOT_GZIP, &written), 1, 999);
	assert_false(written);
	(void)ask(s, &answer, 0, SNAPSHOT_GZIP, &written);
	assert_true(written);
	(void)ask(s, &answer, 0, SNAPSHOT_GZIP, &written);
	assert_int_equal(answer.nr, 3 * SNAPSHOT_ANSWERS + 1);
	snapshot_unref(s);
}

/* Large ones are forgotten sooner, but for the last. */
static void test_large_answers(void **state)
{
	struct snapshot *s = small_snapshot();
	struct answer answer = { .bytes = RENDERING_BYTES / 4 }, small = { .bytes = 1 };
	bool written;

	(void)state;
	for (unsigned i = 0; i < 5; i++)
		(void)ask(s, &answer, i, SNAPSHOT_PLAIN, &written);
	for (unsigned i = 4; i >= 1; i--)
		(void)ask(s, &answer, i, SNAPSHOT_PLAIN, &written);
	assert_int_equal(answer.nr, 5);
	answer = (struct answer){ .bytes = 2 * RENDERING_BYTES };
	for (unsigned i = 0; i < 5; i++)
		(void)ask(s, &answer, 9, SNAPSHOT_PLAIN, &written);
	assert_int_equal(answer.nr, 1);
	assert_int_equal(s->nr_answers, 1);
	(void)ask(s, &small, 10, SNAPSHOT_PLAIN, &written);
	assert_int_equal(s->nr_answers, 1);
	snapshot_unref(s);
}

static void test_no_answer(void **state)
{
	struct snapshot *s = small_snapshot();
	struct answer answer = { .bytes = 10, .fails = true };
	struct blob *blob = NULL;
	bool written;

	(void)state;
	for (int coding = 0; coding < _SNAPSHOT_CODING_MAX; coding++)
		assert_int_equal(rendering_ask(&blob, s, "?", coding, write_answer, &answer, &written), -ENOMEM);
	assert_null(blob);
	assert_int_equal(s->nr_answers, 0);
	snapshot_unref(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gzip),
		cmocka_unit_test(test_blob),
		cmocka_unit_test(test_once),
		cmocka_unit_test(test_compressed_alone),
		cmocka_unit_test(test_questions),
		cmocka_unit_test(test_large_answers),
		cmocka_unit_test(test_no_answer),
	};

	return cmocka_run_group_tests_name("rendering", tests, NULL, NULL);
}
