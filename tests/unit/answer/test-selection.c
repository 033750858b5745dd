/* SPDX-License-Identifier: MIT */

/* Which samples a question is about: by cgroup, those that a glob matches, and those below them; and by time. */

#include "base/util/clock.h"
#include "profiler/answer/query.h"
#include "profiler/archive/extract.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Each has one sample. */
static const char *const cgroups[] = { "/", "/a", "/a/b", "/a/b/c", "/ab", "/ab/c", "/a[x]/b", "(hidden)" };

static struct archive *make_archive(void)
{
	struct archive *archive;

	assert_int_equal(archive_new(&archive, ARCHIVE_LIMIT_MIN), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cgroups); i++) {
		const struct archive_sample sample = {
			.time = NS_PER_S,
			.event = "e",
			.cgroup = cgroups[i],
			.command = "x",
			.weight = 1,
		};

		assert_int_equal(archive_add(archive, &sample), 0);
	}
	return archive;
}

static void test_below(void **state)
{
	static const struct {
		const char *cgroup;
		unsigned alone, below;
	} cases[] = {
		{ "/a", 1, 3 },	   { "/a/b", 1, 2 },	 { "/a/b/c", 1, 1 },  { "/ab", 1, 2 },
		{ "/none", 0, 0 }, { "/", 1, 7 },	 { "/*", 3, 7 },      { "/**", 7, 7 },
		{ "**", 8, 8 },	   { "/a/*", 1, 2 },	 { "/a[[]x]", 0, 1 }, { "/*/c", 1, 1 },
		{ "a", 0, 0 },	   { "(hidden)", 1, 1 }, { "/a*", 2, 6 },     { "/a/", 0, 0 },
	};
	struct archive *archive = make_archive();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (int below = 0; below < 2; below++) {
			const struct profile_query query = {
				.to = UINT64_MAX, .event = "e", .cgroup = cases[i].cgroup, .below = below
			};
			struct profile *profile;

			assert_int_equal(profile_new(&profile, archive, &query), 0);
			if (profile->samples != (below ? cases[i].below : cases[i].alone))
				fail_msg("%s, below: %d: %u", cases[i].cgroup, below, profile->samples);
			profile_free(profile);
		}
	archive_free(archive);
}

#define US UINT64_C(1000)

/* The samples of a stretch, as a tree and as slots; the end that is shown of it. */
static size_t ask(const struct archive *archive, uint64_t from, uint64_t to, uint64_t *ret_to)
{
	struct profile_query query = { .from = from, .to = to, .event = "e" };
	struct profile *tree, *slots;
	size_t samples;

	assert_int_equal(profile_new(&tree, archive, &query), 0);
	query.nr_slots = 7;
	assert_int_equal(profile_new(&slots, archive, &query), 0);
	samples = tree->samples;
	*ret_to = tree->to;
	assert_int_equal(slots->samples, samples);
	profile_free(tree);
	profile_free(slots);
	return samples;
}

/* Each sample is in one of the stretches into which time is cut, wherever they are cut, also if the beginning of one is
 * the end of the last as it is shown, with an error of some microseconds; and one that was copied is in one capture. */
static void test_neighbours(void **state)
{
	enum { SAMPLES = 1000 };
	struct archive *archive;
	const struct archive_sample last = {
		.time = 3 * NS_PER_S, .event = "e", .cgroup = "/", .command = "x", .weight = 1
	};

	(void)state;
	assert_int_equal(archive_new(&archive, ARCHIVE_LIMIT_MIN), 0);
	for (uint64_t i = 0; i < SAMPLES; i++) {
		struct archive_sample sample = last;

		sample.time = NS_PER_S + 300 * US * i + 123;
		assert_int_equal(archive_add(archive, &sample), 0);
	}
	for (uint64_t length = 1000 * US; length < 20000 * US; length += 333 * US) {
		size_t samples = 0, copied = 0;
		uint64_t shown = NS_PER_S / 2;

		for (uint64_t from = NS_PER_S / 2, to; from < NS_PER_S + NS_PER_S / 2; from = to) {
			struct extract extract = { .event = "e", .as = "e", .cgroup = "/", .from = from };
			struct archive *copy;

			to = from + length;
			samples += ask(archive, shown, to, &shown);
			shown += to % 2 ? 7 * US : -7 * US;
			extract.to = to;
			assert_int_equal(archive_new(&copy, ARCHIVE_LIMIT_MIN), 0);
			assert_int_equal(extract_copy(&extract, copy, archive, NS_PER_S), 0);
			copied += archive_stats(copy).samples;
			archive_free(copy);
		}
		assert_int_equal(samples, SAMPLES);
		assert_int_equal(copied, SAMPLES);
	}
	archive_free(archive);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_below),
		cmocka_unit_test(test_neighbours),
	};

	return cmocka_run_group_tests_name("selection", tests, NULL, NULL);
}
