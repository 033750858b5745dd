/* SPDX-License-Identifier: MIT */

/* Samples over a restart: an image of an archive answers as the archive did; other bytes are refused, or harmless. */

#include "base/util/clock.h"
#include "profiler/answer/query.h"
#include "profiler/archive/archive-image.h"
#include "profiler/archive/archive-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define EVENT "clock"
#define SECOND ((uint64_t)NS_PER_S)
#define MAX ((size_t)64 << 20)
/* Magic, version, size, checksum. */
#define HEADER 32
#define SIZE_AT 16
#define SUM_AT 24

static const struct archive_origin origin = { .boot_id = "boot", .visible = "+/**\n" };
static const struct module_key key_a = { .build_id = "a", .build_id_size = 20 };

static const struct archive_past story = {
	.since = 2 * SECOND,
	.drained = 30 * SECOND,
	.gaps = { .ns = 5 * SECOND, .nr = 2, .latest = { { 1 * SECOND, 2 * SECOND }, { 5 * SECOND, 9 * SECOND } } },
	.samples = 11,
	.lost = 12,
	.unfollowed = 13,
	.unsampled = 14,
	.throttled = 15,
};

static struct archive *new_archive(size_t limit)
{
	struct archive *archive;

	assert_int_equal(archive_new(&archive, limit), 0);
	return archive;
}

/* A stack of that seed: deep or not, some in the kernel, some without a name, some of them recursive. */
static void add_sample(struct archive *archive, uint64_t ms, unsigned seed)
{
	struct archive_place places[ARCHIVE_DEPTH_MAX] = {};
	char cgroup[32], command[32], name[32];
	struct archive_sample sample = {
		.time = ms * (uint64_t)NS_PER_MS,
		.event = seed % 5 ? EVENT : "faults",
		.cgroup = cgroup,
		.command = command,
		.weight = seed % 7 ? 1000 : UINT64_C(1) << 35,
		.places = places,
		.nr = seed % 11,
	};

	(void)snprintf(cgroup, sizeof(cgroup), "/cgroup%u", seed % 3);
	(void)snprintf(command, sizeof(command), "command \xc3\xa4%u", seed % 4);
	(void)snprintf(name, sizeof(name), "named%u", seed);
	for (unsigned i = 0; i < sample.nr; i++) {
		places[i].key = i % 4 ? &key_a : NULL;
		places[i].path = i % 4 ? "/a" : ARCHIVE_KERNEL;
		places[i].offset = 0x1000 * (seed % 13) + 16 * i;
	}
	if (sample.nr > 2)
		places[1].naming = NAMING_NO_SYMBOL;
	if (sample.nr > 3) {
		places[0].naming = NAMING_NAMED;
		places[0].name = name;
		places[0].offset = seed;
	}
	assert_int_equal(archive_add(archive, &sample), 0);
}

static struct archive *small_archive(void)
{
	struct archive *archive = new_archive(1 << 20);

	for (unsigned i = 0; i < 30; i++)
		add_sample(archive, 10000 + 100 * i, i);
	return archive;
}

static void write_image(struct buf *ret, const struct archive *archive)
{
	*ret = (struct buf){};
	assert_int_equal(archive_write(archive, &story, &origin, MAX, UINT64_MAX, ret), 0);
}

static struct archive *read_image(const struct buf *image, size_t limit)
{
	struct archive_past past;
	struct archive *archive = NULL;
	struct reason why = {};

	assert_int_equal(archive_read(&archive, &past, &origin, image->data, image->len, limit, &why), 0);
	assert_string_equal(why.text, "");
	assert_memory_equal(&past, &story, sizeof(past));
	return archive;
}

static int compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A node with all above it, as a line. */
static char *line_of(const struct profile *profile, uint32_t number)
{
	struct buf line = {};
	const struct profile_node *node = profile_node(profile, number);

	buf_printf(&line, "%u %u %llu %llu:", node->self_samples, node->samples, (unsigned long long)node->self,
		   (unsigned long long)node->total);
	for (; number; number = node->parent) {
		node = profile_node(profile, number);
		buf_printf(&line, " %u/%s/%s/%u/%llx", node->kind,
			   node->text ? archive_text(profile->archive, node->text) : "",
			   node->module ? archive_text(profile->archive,
						       archive_module(profile->archive, node->module)->path) :
					  "",
			   node->naming, (unsigned long long)node->offset);
	}
	return buf_steal(&line);
}

static char *answer_to(const struct archive *archive, const struct profile_query *query)
{
	struct buf answer = {};
	struct profile *profile;
	char **lines;

	assert_int_equal(profile_new(&profile, archive, query), 0);
	buf_printf(&answer, "%llu %llu %llu %u\n", (unsigned long long)profile->from, (unsigned long long)profile->to,
		   (unsigned long long)profile->weight, profile->samples);
	for (size_t i = 0; i < profile->nr_slots; i++)
		buf_printf(&answer, "%u %llu\n", profile->slots[i].samples,
			   (unsigned long long)profile->slots[i].weight);
	if (!profile->nr_slots) {
		lines = calloc(profile_nr(profile) + 1, sizeof(*lines));
		assert_non_null(lines);
		for (uint32_t i = 1; i <= profile_nr(profile); i++)
			lines[i - 1] = line_of(profile, i);
		qsort(lines, profile_nr(profile), sizeof(*lines), compare_lines);
		for (uint32_t i = 0; i < profile_nr(profile); i++) {
			buf_printf(&answer, "%s\n", lines[i]);
			free(lines[i]);
		}
		free(lines);
	}
	profile_free(profile);
	return buf_steal(&answer);
}

static const struct profile_query queries[] = {
	{ .to = 1000 * SECOND, .event = EVENT },
	{ .to = 1000 * SECOND, .event = "faults", .by = PROFILE_BY_CGROUP | PROFILE_BY_COMMAND },
	{ .from = 11 * SECOND, .to = 13 * SECOND, .event = EVENT, .by = PROFILE_BY_COMMAND },
	{ .to = 1000 * SECOND, .event = EVENT, .cgroup = "/cgroup1", .command = "*3", .by = PROFILE_BY_CGROUP },
	{ .from = 10 * SECOND, .to = 16 * SECOND, .event = EVENT, .nr_slots = 12 },
};

static void check_same_answers(const struct archive *a, const struct archive *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(queries); i++) {
		char *before = answer_to(a, &queries[i]), *after = answer_to(b, &queries[i]);

		assert_non_null(before);
		assert_string_equal(before, after);
		free(before);
		free(after);
	}
}

static void test_same_answers(void **state)
{
	struct archive *archive = small_archive(), *copy;
	struct buf image;

	(void)state;
	write_image(&image, archive);
	copy = read_image(&image, 1 << 20);
	check_same_answers(archive, copy);
	assert_int_equal(archive_oldest(archive), archive_oldest(copy));
	assert_int_equal(archive_stats(archive).samples, archive_stats(copy).samples);
	/* It goes on as any other. */
	for (unsigned i = 30; i < 100; i++) {
		add_sample(archive, 10000 + 100 * i, i);
		add_sample(copy, 10000 + 100 * i, i);
	}
	check_same_answers(archive, copy);
	archive_free(copy);
	archive_free(archive);
	buf_release(&image);
}

/* A name that was asked for has its symbol in the copy, too. */
static void test_symbols(void **state)
{
	struct archive *archive = small_archive(), *copy;
	struct archive_nameless found;
	uint32_t at = 0, text;
	struct buf image;

	(void)state;
	assert_int_equal(archive_next_nameless(archive, &at, &found, 1), 1);
	archive_name(archive, found.frame, NAMING_NAMED, "f(int)", "_Z1fi", 0);
	archive_name(archive, found.frame, NAMING_NAMED, "f(int)", "_Z1fi", 0);
	write_image(&image, archive);
	copy = read_image(&image, 1 << 20);
	text = archive_find_text(copy, "f(int)");
	assert_true(text > 0);
	assert_string_equal(archive_symbol(copy, text), "_Z1fi");
	assert_null(archive_symbol(copy, archive_find_text(copy, EVENT)));
	/* One name of two symbols has neither. */
	at = 0;
	assert_int_equal(archive_next_nameless(copy, &at, &found, 1), 1);
	archive_name(copy, found.frame, NAMING_NAMED, "f(int)", "_Z1fi.other", 0);
	assert_null(archive_symbol(copy, text));
	archive_free(copy);
	archive_free(archive);
	buf_release(&image);
}

static size_t nr_asked(struct archive *archive)
{
	struct archive_nameless found[256];
	uint32_t at = 0;
	size_t nr = archive_next_nameless(archive, &at, found, ARRAY_SIZE(found));

	assert_true(nr < ARRAY_SIZE(found));
	return nr;
}

/* Places whose names are asked for when the image is written are asked for again, and those of files that could not be
 * opened: the next profiler may see them. */
static void test_names_are_asked_for_again(void **state)
{
	struct archive *archive = small_archive(), *copy;
	struct archive_place hidden = { .path = "/hidden", .key = &key_a, .naming = NAMING_NO_FILE };
	const struct archive_sample sample = {
		.time = 20000 * (uint64_t)NS_PER_MS,
		.event = EVENT,
		.cgroup = "/",
		.command = "c",
		.weight = 1,
		.places = &hidden,
		.nr = 1,
	};
	size_t nr = nr_asked(archive) + 1;
	struct buf image;

	(void)state;
	assert_true(nr > 10);
	assert_int_equal(archive_add(archive, &sample), 0);
	write_image(&image, archive);
	copy = read_image(&image, 1 << 20);
	assert_int_equal(nr_asked(copy), nr);
	archive_free(copy);
	archive_free(archive);
	buf_release(&image);
}

static void test_empty(void **state)
{
	struct archive *archive = new_archive(1 << 20), *copy;
	struct buf image;

	(void)state;
	write_image(&image, archive);
	copy = read_image(&image, 1 << 20);
	assert_int_equal(archive_oldest(copy), 0);
	check_same_answers(archive, copy);
	add_sample(copy, 1000, 9);
	assert_int_equal(archive_oldest(copy), SECOND);
	archive_free(copy);
	archive_free(archive);
	buf_release(&image);
}

/* Full, with entries that were given up; in a smaller limit, the newest of it. */
static void test_full(void **state)
{
	struct archive *archive = new_archive(1 << 20), *copy, *less;
	struct buf image, again;

	(void)state;
	for (unsigned i = 0; i < 200000; i++)
		add_sample(archive, 10000 + i / 4, i % 5000);
	assert_true(archive_stats(archive).sweeps > 10);
	write_image(&image, archive);
	copy = read_image(&image, 1 << 20);
	/* Segments begin at other samples: a few of the oldest may have no room. */
	assert_true(archive_stats(copy).nr >= archive_stats(archive).nr * 9 / 10);
	assert_true(archive_bytes(copy) <= 1 << 20);
	archive_set_limit(archive, 4 << 20);
	less = read_image(&image, 4 << 20);
	check_same_answers(archive, less);
	assert_int_equal(archive_stats(less).nr, archive_stats(archive).nr);
	archive_free(less);

	less = read_image(&image, ARCHIVE_LIMIT_MIN);
	assert_true(archive_bytes(less) <= ARCHIVE_LIMIT_MIN);
	assert_true(archive_stats(less).nr > 100);
	assert_int_equal(TAILQ_LAST(&less->segments, segment_list)->last,
			 TAILQ_LAST(&archive->segments, segment_list)->last);
	write_image(&again, less);
	assert_true(again.len < image.len);
	archive_free(less);
	archive_free(copy);
	archive_free(archive);
	buf_release(&again);
	buf_release(&image);
}

static void test_bounds_of_writing(void **state)
{
	struct archive *archive = new_archive(1 << 20), *copy;
	_cleanup_(buf_release) struct buf none = {}, late = {}, part = {}, whole = {};
	size_t nr;

	(void)state;
	for (unsigned i = 0; i < 10000; i++)
		add_sample(archive, 10000 + i, i % 50);
	assert_int_equal(archive_write(archive, &story, &origin, 1000, UINT64_MAX, &none), -EFBIG);
	assert_int_equal(archive_write(archive, &story, &origin, MAX, 1, &late), -ETIME);
	assert_int_equal(archive_write(archive, &story, &origin, MAX, UINT64_MAX, &whole), 0);
	assert_int_equal(archive_write(archive, &story, &origin, whole.len * 2 / 3, UINT64_MAX, &part), 0);
	assert_true(part.len <= whole.len * 2 / 3);
	copy = read_image(&part, 1 << 20);
	nr = archive_stats(copy).nr;
	assert_true(nr > 1000 && nr < 10000);
	assert_int_equal(TAILQ_LAST(&copy->segments, segment_list)->last, 19999 * (uint64_t)NS_PER_MS);
	archive_free(copy);
	archive_free(archive);
}

static int try_read(const struct buf *image, struct archive **ret, struct reason *why)
{
	struct archive_past past;
	/* Of just its size, so that the sanitizer sees what is read behind it. */
	char *bytes = malloc(image->len ?: 1);
	int r;

	assert_non_null(bytes);
	memcpy(bytes, image->data, image->len);
	*ret = NULL;
	why->text[0] = '\0';
	r = archive_read(ret, &past, &origin, bytes, image->len, 1 << 20, why);
	free(bytes);
	assert_true((r == 0) == (*ret != NULL));
	assert_true((r == 0) == !why->text[0]);
	return r;
}

static void fix_header(struct buf *image)
{
	uint64_t size = image->len, sum = crc32_z(0, (void *)(image->data + HEADER), image->len - HEADER);

	memcpy(image->data + SIZE_AT, &size, sizeof(size));
	memcpy(image->data + SUM_AT, &sum, sizeof(sum));
}

/* Whatever was taken up can be asked, added to, written, and dropped. */
static void check_harmless(struct archive *archive)
{
	_cleanup_(buf_release) struct buf again = {};

	for (size_t i = 0; i < ARRAY_SIZE(queries); i++)
		free(answer_to(archive, &queries[i]));
	(void)nr_asked(archive);
	assert_int_equal(archive_write(archive, &story, &origin, MAX, UINT64_MAX, &again), 0);
	for (unsigned i = 0; i < 20; i++)
		add_sample(archive, 20000 + i, i);
	while (archive_drop_oldest(archive))
		;
}

/* Each byte changed by itself is found out by the checksum; with the right one the checks behind it find it, or it
 * makes no difference to anybody's safety. */
static void test_changed_bytes(void **state)
{
	static const unsigned char changes[] = { 0x01, 0x80, 0xff };
	struct archive *archive = small_archive(), *copy;
	struct buf image;
	struct reason why;
	size_t refused = 0, taken = 0;

	(void)state;
	write_image(&image, archive);
	for (size_t at = 0; at < image.len; at++) {
		image.data[at] ^= (char)changes[at % ARRAY_SIZE(changes)];
		assert_int_equal(try_read(&image, &copy, &why), -EPROTO);
		if (at >= HEADER) {
			fix_header(&image);
			refused += try_read(&image, &copy, &why) < 0;
			taken += copy != NULL;
			if (copy)
				check_harmless(copy);
			archive_free(copy);
		}
		image.data[at] ^= (char)changes[at % ARRAY_SIZE(changes)];
		fix_header(&image);
	}
	assert_int_equal(try_read(&image, &copy, &why), 0);
	check_same_answers(archive, copy);
	assert_true(refused > 0 && taken > 0);
	archive_free(copy);
	archive_free(archive);
	buf_release(&image);
}

/* Each number of 32 bits, as a small one, a large one, and another one nearby. */
static void test_changed_words(void **state)
{
	static const uint32_t values[] = { 0, 1, 30, 0xffffffff };
	struct archive *archive = small_archive(), *copy;
	struct buf image;
	struct reason why;

	(void)state;
	write_image(&image, archive);
	for (size_t at = HEADER; at + 4 <= image.len; at += 4)
		for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
			char before[4];

			memcpy(before, image.data + at, 4);
			memcpy(image.data + at, &values[i], 4);
			fix_header(&image);
			(void)try_read(&image, &copy, &why);
			if (copy)
				check_harmless(copy);
			archive_free(copy);
			memcpy(image.data + at, before, 4);
		}
	archive_free(archive);
	buf_release(&image);
}

static void test_cut(void **state)
{
	struct archive *archive = small_archive(), *copy;
	struct buf image, cut;
	struct reason why;

	(void)state;
	write_image(&image, archive);
	for (size_t len = 0; len < image.len; len++) {
		cut = (struct buf){ .data = image.data, .len = len };
		assert_int_equal(try_read(&cut, &copy, &why), -EPROTO);
		if (len < HEADER)
			continue;
		fix_header(&cut);
		assert_int_equal(try_read(&cut, &copy, &why), -EPROTO);
	}
	archive_free(archive);
	buf_release(&image);
}

static void check_refused(const struct buf *image, const struct archive_origin *by, int error, const char *says)
{
	struct archive_past past;
	struct archive *archive;
	struct reason why = {};

	assert_int_equal(archive_read(&archive, &past, by, image->data, image->len, 1 << 20, &why), error);
	assert_non_null(strstr(why.text, says));
}

static void test_origin(void **state)
{
	const struct archive_origin other_boot = { .boot_id = "other", .visible = origin.visible };
	const struct archive_origin other_cgroups = { .boot_id = origin.boot_id, .visible = "-/secret\n" };
	const struct archive_origin unknown = { .boot_id = "", .visible = origin.visible };
	struct archive *archive = small_archive();
	_cleanup_(buf_release) struct buf image, of_unknown = {};

	(void)state;
	write_image(&image, archive);
	check_refused(&image, &other_boot, -ESTALE, "before the machine was started");
	check_refused(&image, &other_cgroups, -ESTALE, "include or exclude");
	assert_int_equal(archive_write(archive, &story, &unknown, MAX, UINT64_MAX, &of_unknown), 0);
	check_refused(&of_unknown, &unknown, -ESTALE, "before the machine was started");
	image.data[8] ^= 2;
	check_refused(&image, &origin, -EPROTO, "another version");
	image.data[0] ^= 1;
	check_refused(&image, &origin, -EPROTO, "not written by perfmond");
	archive_free(archive);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_answers),
		cmocka_unit_test(test_symbols),
		cmocka_unit_test(test_names_are_asked_for_again),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_bounds_of_writing),
		cmocka_unit_test(test_changed_bytes),
		cmocka_unit_test(test_changed_words),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_origin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
