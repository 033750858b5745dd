/* SPDX-License-Identifier: MIT */

/* Which samples a question is about, by cgroup: those that a glob matches, and those below them. */

#include "profile/query.h"
#include "util/clock.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_below),
	};

	return cmocka_run_group_tests_name("selection", tests, NULL, NULL);
}
