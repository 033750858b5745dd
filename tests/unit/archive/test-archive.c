/* SPDX-License-Identifier: MIT */

/* Samples in memory, and questions to them: trees, tops, bounds, names. */

#include "base/util/clock.h"
#include "profiler/answer/query.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PERIOD 1000
#define EVENT "clock"

static const struct module_key key_a = { .build_id = "a", .build_id_size = 20 };

static struct archive *new_archive(size_t limit)
{
	struct archive *archive;

	assert_int_equal(archive_new(&archive, limit), 0);
	return archive;
}

/* Offsets in one file, the innermost first, up to a 0. */
static int add(struct archive *archive, uint64_t second, const char *cgroup, const char *command,
	       const uint64_t *offsets)
{
	struct archive_place places[ARCHIVE_DEPTH_MAX + 10] = {};
	struct archive_sample sample = {
		.time = second * NS_PER_S,
		.event = EVENT,
		.cgroup = cgroup,
		.command = command,
		.weight = PERIOD,
		.places = places,
	};

	while (offsets[sample.nr]) {
		places[sample.nr] = (struct archive_place){ .key = &key_a, .path = "/a", .offset = offsets[sample.nr] };
		sample.nr++;
	}
	return archive_add(archive, &sample);
}

#define ADD(archive, second, cgroup, command, ...)                                                                     \
	assert_int_equal(add(archive, second, cgroup, command, (const uint64_t[]){ __VA_ARGS__, 0 }), 0)

/* Names all that is asked for: offset 0x123 is in the function f1. */
static void name_all(struct archive *archive)
{
	struct archive_nameless found[8];
	uint32_t at = 0;
	size_t nr;

	do {
		nr = archive_next_nameless(archive, &at, found, ARRAY_SIZE(found));
		for (size_t i = 0; i < nr; i++) {
			char name[32];

			(void)snprintf(name, sizeof(name), "f%u", (unsigned)(found[i].offset >> 8));
			archive_name(archive, found[i].frame, NAMING_NAMED, name, NULL, 0);
		}
	} while (nr == ARRAY_SIZE(found));
	assert_false(archive_has_untried(archive));
}

static struct profile *ask(const struct archive *archive, uint64_t from, uint64_t to, unsigned by, const char *cgroup,
			   const char *command)
{
	const struct profile_query query = {
		.from = from * NS_PER_S,
		.to = to * NS_PER_S,
		.event = EVENT,
		.by = by,
		.cgroup = cgroup,
		.command = command,
	};
	struct profile *profile;

	assert_int_equal(profile_new(&profile, archive, &query), 0);
	return profile;
}

static const char *name_of(const struct profile *profile, const struct profile_node *node)
{
	static char text[64];

	if (node->kind == PROFILE_ROOT)
		return "all";
	if (node->kind == PROFILE_PLACE)
		(void)snprintf(text, sizeof(text), "+%x", (unsigned)node->offset);
	else
		(void)snprintf(text, sizeof(text), "%s", archive_text(profile->archive, node->text));
	return text;
}

/* "parent/child" of each node, with self and total in samples. */
static void check_node(const struct profile *profile, const char *path, unsigned self, unsigned total)
{
	for (uint32_t i = 1; i <= profile_nr(profile); i++) {
		const struct profile_node *node = profile_node(profile, i);
		char found[256] = "";

		for (uint32_t at = i; at; at = profile_node(profile, at)->parent) {
			char longer[512];

			(void)snprintf(longer, sizeof(longer), "%s%s%s", name_of(profile, profile_node(profile, at)),
				       found[0] ? "/" : "", found);
			(void)snprintf(found, sizeof(found), "%.255s", longer);
		}
		if (strcmp(found, path))
			continue;
		assert_int_equal(node->self_samples, self);
		assert_int_equal(node->samples, total);
		assert_int_equal(node->self, (uint64_t)self * PERIOD);
		assert_int_equal(node->total, (uint64_t)total * PERIOD);
		return;
	}
	fail_msg("no node %s", path);
}

static void fill_archive(struct archive *archive)
{
	ADD(archive, 10, "/a", "x", 0x150, 0x100);
	ADD(archive, 11, "/a", "x", 0x160, 0x100); /* the same function as that of 0x150 */
	ADD(archive, 12, "/a", "x", 0x210, 0x100);
	ADD(archive, 13, "/b", "x", 0x210, 0x100);
	ADD(archive, 14, "/b", "y", 0x210);
	ADD(archive, 15, "/b", "y", 0x210, 0x210, 0x300); /* it calls itself */
}

static void test_tree(void **state)
{
	struct archive *archive = new_archive(1 << 20);
	struct profile *profile;

	(void)state;
	fill_archive(archive);
	profile = ask(archive, 0, 100, PROFILE_BY_CGROUP | PROFILE_BY_COMMAND, NULL, NULL);
	check_node(profile, "all", 0, 6);
	check_node(profile, "all//a", 0, 3);
	check_node(profile, "all//b/y", 0, 2);
	check_node(profile, "all//a/x/+100/+150", 1, 1);
	check_node(profile, "all//a/x/+100/+160", 1, 1);
	assert_int_equal(profile->unnamed, 6 * PERIOD);
	assert_int_equal(profile->ends[STACK_FRAME_POINTERS], 6 * PERIOD);
	profile_free(profile);

	name_all(archive);
	profile = ask(archive, 0, 100, PROFILE_BY_CGROUP, NULL, NULL);
	check_node(profile, "all//a/f1/f1", 2, 2);
	check_node(profile, "all//b", 0, 3);
	check_node(profile, "all//b/f1/f2", 1, 1);
	check_node(profile, "all//b/f2", 1, 1);
	check_node(profile, "all//b/f3/f2/f2", 1, 1);
	assert_int_equal(profile->unnamed, 0);
	profile_free(profile);
	archive_free(archive);
}

static void test_filters(void **state)
{
	struct archive *archive = new_archive(1 << 20);
	struct profile *profile;

	(void)state;
	fill_archive(archive);
	name_all(archive);
	profile = ask(archive, 11, 14, 0, NULL, NULL);
	check_node(profile, "all", 0, 3);
	check_node(profile, "all/f1/f1", 1, 1);
	check_node(profile, "all/f1/f2", 2, 2);
	assert_int_equal(profile->from, 11 * (uint64_t)NS_PER_S);
	profile_free(profile);
	profile = ask(archive, 0, 100, 0, "/b*", NULL);
	check_node(profile, "all", 0, 3);
	profile_free(profile);
	profile = ask(archive, 0, 100, 0, "/b*", "[xz]");
	check_node(profile, "all", 0, 1);
	/* The samples go back to this. */
	assert_int_equal(profile->from, 10 * (uint64_t)NS_PER_S);
	profile_free(profile);
	profile = ask(archive, 50, 100, 0, NULL, NULL);
	check_node(profile, "all", 0, 0);
	assert_int_equal(profile->samples, 0);
	profile_free(profile);
	archive_free(archive);
}

static void check_top(const struct profile *profile, enum profile_top_by by, const char *expected)
{
	struct profile_row *rows;
	char text[256] = "";
	size_t nr;

	assert_int_equal(profile_top(&rows, &nr, profile, by), 0);
	for (size_t i = 0; i < nr; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s %u %u;",
			       name_of(profile, rows[i].node), (unsigned)(rows[i].self / PERIOD),
			       (unsigned)(rows[i].total / PERIOD));
	free(rows);
	assert_string_equal(text, expected);
}

static void test_top(void **state)
{
	struct archive *archive = new_archive(1 << 20);
	struct profile *profile;

	(void)state;
	fill_archive(archive);
	name_all(archive);
	profile = ask(archive, 0, 100, PROFILE_BY_CGROUP | PROFILE_BY_COMMAND, NULL, NULL);
	check_top(profile, PROFILE_TOP_FUNCTION, "f2 4 4;f1 2 4;f3 0 1;");
	check_top(profile, PROFILE_TOP_COMMAND, "x 4 4;y 2 2;");
	profile_free(profile);
	profile = ask(archive, 0, 13, PROFILE_BY_CGROUP, NULL, NULL);
	check_top(profile, PROFILE_TOP_CGROUP, "/a 3 3;");
	profile_free(profile);
	archive_free(archive);
	assert_true(fabs(profile_error(0.5, 100) - 0.098) < 0.001);
	assert_true(profile_error(0, 0) == 1);
}

/* Whatever comes, the memory holds, and the latest samples are there. */
static void test_bound(void **state)
{
	struct archive *archive = new_archive(ARCHIVE_LIMIT_MIN);
	unsigned seed = 3;
	uint64_t oldest = 0;

	(void)state;
	for (uint64_t second = 1; second < 60000; second++) {
		uint64_t offsets[20] = {};
		char cgroup[32];
		struct profile *profile;
		uint64_t kept;

		for (int i = 0; i < 1 + rand_r(&seed) % 18; i++)
			offsets[i] = 1 + (uint64_t)rand_r(&seed) % (second % 100 < 50 ? 40 : 100000);
		(void)snprintf(cgroup, sizeof(cgroup), "/group-%d", rand_r(&seed) % 1000);
		assert_int_equal(add(archive, second, cgroup, "worker", offsets), 0);
		if (second % 37 == 0)
			name_all(archive);
		assert_true(archive_bytes(archive) <= ARCHIVE_LIMIT_MIN);
		assert_true(archive_oldest(archive) >= oldest);
		oldest = archive_oldest(archive);
		if (second % 5000)
			continue;
		profile = ask(archive, second - 20, second + 1, PROFILE_BY_CGROUP, NULL, NULL);
		/* All that are not older than what is left. */
		kept = second + 1 - oldest / NS_PER_S;
		assert_int_equal(profile->samples, kept < 21 ? kept : 21);
		profile_free(profile);
	}
	assert_true(oldest > 0 && oldest < 59990 * (uint64_t)NS_PER_S);
	assert_int_equal(archive_stats(archive).dropped, 0);
	archive_set_limit(archive, ARCHIVE_LIMIT_MIN / 2);
	assert_true(archive_bytes(archive) <= ARCHIVE_LIMIT_MIN / 2);
	archive_free(archive);
}

/* The rate of a memory that is used up by samples alone: 16 bytes for each. */
static void test_dense(void **state)
{
	struct archive *archive = new_archive(1 << 20);
	struct profile *profile;

	(void)state;
	for (uint64_t i = 0; i < 200000; i++)
		ADD(archive, 1 + i / 10, "/a", "x", 0x150, 0x100);
	profile = ask(archive, 0, 1000000, 0, NULL, NULL);
	assert_true(profile->samples > 58000);
	profile_free(profile);
	archive_free(archive);
}

/* A time of many different stacks takes memory that is not for samples for ever. */
static void test_many_stacks(void **state)
{
	struct archive *archive = new_archive(1 << 20);
	struct profile *profile;
	unsigned seed = 9;

	(void)state;
	for (uint64_t i = 0; i < 5000; i++) {
		uint64_t offsets[20] = {};

		for (int k = 0; k < 19; k++)
			offsets[k] = 1 + (uint64_t)rand_r(&seed);
		assert_int_equal(add(archive, 1, "/a", "x", offsets), 0);
	}
	for (uint64_t i = 0; i < 100000; i++)
		ADD(archive, 2, "/a", "x", 0x150, 0x100);
	profile = ask(archive, 2, 3, 0, NULL, NULL);
	assert_true(profile->samples > 28000);
	profile_free(profile);
	archive_free(archive);
}

/* Places that have no name yet are asked for again, in parts too; files are known as long as they have frames. */
static void test_nameless(void **state)
{
	struct archive *archive = new_archive(1 << 20);
	struct archive_nameless found[4];
	uint32_t at = 0;

	(void)state;
	assert_false(archive_has_untried(archive));
	for (uint64_t i = 0; i < 6; i++)
		ADD(archive, 1, "/a", "x", 0x150 + i);
	assert_true(archive_has_untried(archive));
	assert_int_equal(archive_next_nameless(archive, &at, found, 4), 4);
	assert_int_equal(archive_next_nameless(archive, &at, found, 4), 2);
	assert_false(archive_has_untried(archive));
	archive_name(archive, found[0].frame, NAMING_NO_FILE, NULL, NULL, 0);
	archive_name(archive, found[1].frame, NAMING_NAMED, "f", NULL, 0);
	at = 0;
	assert_int_equal(archive_next_nameless(archive, &at, found, 4), 4);
	assert_int_equal(archive_next_nameless(archive, &at, found, 4), 0);
	assert_int_equal(found[0].offset, 0x150);
	assert_true(archive_has_module(archive, &key_a, "/a"));
	assert_false(archive_has_module(archive, &key_a, "/other"));
	archive_set_limit(archive, 0);
	assert_false(archive_has_module(archive, &key_a, "/a"));
	archive_free(archive);
}

static void test_kernel(void **state)
{
	const struct archive_place places[] = {
		{ .path = ARCHIVE_KERNEL, .offset = 0xffffffff81000010 },
		{ .path = ARCHIVE_KERNEL, .offset = 0xffffffff81000000, .naming = NAMING_NAMED, .name = "do_it" },
		{ .path = ARCHIVE_UNKNOWN, .naming = NAMING_NO_MAPPING },
	};
	const struct archive_sample sample = { .time = NS_PER_S,
					       .event = EVENT,
					       .cgroup = "/",
					       .command = "x\xff",
					       .weight = PERIOD,
					       .places = places,
					       .nr = 3 };
	struct archive *archive = new_archive(1 << 20);
	struct archive_nameless found[8];
	uint32_t at = 0;
	struct profile *profile;

	(void)state;
	assert_int_equal(archive_add(archive, &sample), 0);
	profile = ask(archive, 0, 10, PROFILE_BY_COMMAND, NULL, NULL);
	/* No address, and valid UTF-8. */
	check_node(profile,
		   "all/x\xef\xbf\xbd"
		   "ff/+0/do_it/+0",
		   1, 1);
	profile_free(profile);
	assert_int_equal(archive_next_nameless(archive, &at, found, 8), 1);
	assert_int_equal(found[0].offset, 0xffffffff81000010);
	archive_free(archive);
}

static void test_depth(void **state)
{
	struct archive *archive = new_archive(1 << 20);
	uint64_t offsets[ARCHIVE_DEPTH_MAX + 9] = {};
	struct profile *profile;

	(void)state;
	for (size_t i = 0; i < ARCHIVE_DEPTH_MAX + 8; i++)
		offsets[i] = i + 1;
	assert_int_equal(add(archive, 1, "/a", "x", offsets), 0);
	profile = ask(archive, 0, 10, 0, NULL, NULL);
	assert_int_equal(profile_nr(profile), ARCHIVE_DEPTH_MAX + 1);
	assert_int_equal(profile_node(profile, profile_nr(profile))->offset, 1);
	profile_free(profile);
	archive_free(archive);
}

static void test_cut(void **state)
{
	struct archive *archive = new_archive(32 << 20);
	struct profile *profile;

	(void)state;
	for (uint64_t i = 0; i < PROFILE_NODES_MAX + 500; i++)
		ADD(archive, 1 + i / 1000, "/a", "x", 1 + i);
	profile = ask(archive, 0, 1000, 0, NULL, NULL);
	assert_true(profile->cut);
	assert_int_equal(profile_nr(profile), PROFILE_NODES_MAX);
	/* Nothing is lost by it. */
	assert_int_equal(profile_node(profile, 1)->samples, PROFILE_NODES_MAX + 500);
	profile_free(profile);
	archive_free(archive);
}

/* The stretch in slots: each sample is in one of them; one at the end is of the next stretch. */
static void test_slots(void **state)
{
	static const struct {
		uint64_t from, to;
		const char *cgroup;
		uint32_t expected[6];
	} cases[] = {
		{ 10, 16, NULL, { 1, 1, 1, 1, 1, 1 } },
		{ 10, 15, NULL, { 1, 1, 1, 1, 1 } },
		{ 0, 60, NULL, { 0, 6 } },
		{ 0, 60, "/b", { 0, 3 } },
		{ 13, 13, NULL, {} },
		{ 20, 30, NULL, {} },
		{ 4, 10, NULL, {} },
		{ 4, 11, NULL, { 0, 0, 0, 0, 0, 1 } },
	};
	struct archive *archive = new_archive(ARCHIVE_LIMIT_MIN);

	(void)state;
	fill_archive(archive);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct profile_query query = {
			.from = cases[i].from * NS_PER_S,
			.to = cases[i].to * NS_PER_S,
			.event = EVENT,
			.cgroup = cases[i].cgroup,
			.nr_slots = ARRAY_SIZE(cases[i].expected),
		};
		struct profile *profile;
		uint32_t sum = 0;

		assert_int_equal(profile_new(&profile, archive, &query), 0);
		assert_int_equal(profile->from, query.from);
		assert_int_equal(profile->reach, UINT64_C(10) * NS_PER_S);
		assert_int_equal(profile->nr_slots, query.nr_slots);
		for (size_t slot = 0; slot < query.nr_slots; slot++) {
			assert_int_equal(profile->slots[slot].samples, cases[i].expected[slot]);
			assert_int_equal(profile->slots[slot].weight, (uint64_t)cases[i].expected[slot] * PERIOD);
			sum += profile->slots[slot].samples;
		}
		assert_int_equal(profile->samples, sum);
		assert_int_equal(profile->weight, (uint64_t)sum * PERIOD);
		profile_free(profile);
	}
	archive_free(archive);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tree),	 cmocka_unit_test(test_filters), cmocka_unit_test(test_top),
		cmocka_unit_test(test_bound),	 cmocka_unit_test(test_dense),	 cmocka_unit_test(test_many_stacks),
		cmocka_unit_test(test_nameless), cmocka_unit_test(test_kernel),	 cmocka_unit_test(test_depth),
		cmocka_unit_test(test_cut),	 cmocka_unit_test(test_slots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
