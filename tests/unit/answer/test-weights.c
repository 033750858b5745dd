/* SPDX-License-Identifier: MIT */

/* Weights that fit counts: sums, cgroups below others, and what is not covered. */

#include "base/util/clock.h"
#include "profiler/answer/query.h"

#include <math.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define EVENT "clock"
#define PERIOD 1000

static void add(struct archive *archive, const char *event, const char *cgroup, const char *command, uint64_t second)
{
	const struct archive_sample sample = {
		.time = second * NS_PER_S + NS_PER_S / 2,
		.event = event,
		.cgroup = cgroup,
		.command = command,
		.weight = PERIOD,
	};

	assert_int_equal(archive_add(archive, &sample), 0);
}

/* Three slots: from second 10 to 11, 12 and 14. The labels are sorted. */
static float of_root[] = { 1e6F, 1e6F, 1e6F }, of_a[] = { 5000, 7001, 1000 }, of_ab[] = { 1000, NAN, 500 },
	     of_ab_x[] = { 900, 900, 900 }, of_c[] = { NAN, 100, 100 };

static struct profile_count rows[] = {
	{ "/", of_root }, { "/a", of_a }, { "/a-x", of_ab_x }, { "/a/b", of_ab }, { "/c", of_c },
};

static const struct profile_counts counts = {
	.root_is_idle = true,
	.begin = UINT64_C(10) * NS_PER_S,
	.ends = { UINT64_C(11) * NS_PER_S, UINT64_C(12) * NS_PER_S, UINT64_C(14) * NS_PER_S },
	.nr_slots = 3,
	.cgroups = rows,
	.nr = ARRAY_SIZE(rows),
};

static struct profile *ask(const struct archive *archive, uint64_t from, uint64_t to, const char *cgroup,
			   const char *command)
{
	const struct profile_query query = {
		.from = from * NS_PER_S,
		.to = to * NS_PER_S + 1,
		.since = 1,
		.event = EVENT,
		.cgroup = cgroup,
		.command = command,
		.by = PROFILE_BY_CGROUP,
		.counts = &counts,
	};
	struct profile *profile;

	assert_int_equal(profile_new(&profile, archive, &query), 0);
	return profile;
}

static void expect(const struct archive *archive, uint64_t from, uint64_t to, const char *cgroup, const char *command,
		   uint64_t weight, const char *why)
{
	struct profile *profile = ask(archive, from, to, cgroup, command);

	assert_int_equal(profile->weight, weight);
	assert_int_equal(profile_node(profile, 1)->total, weight);
	assert_int_equal(profile->nr_uncounted, why ? 1 : 0);
	if (why) {
		assert_string_equal(archive_text(archive, profile->uncounted[0].cgroup), cgroup);
		assert_string_equal(profile->uncounted[0].why, why);
	}
	profile_free(profile);
}

static int setup(void **state)
{
	struct archive *archive;

	assert_int_equal(archive_new(&archive, ARCHIVE_LIMIT_MIN), 0);
	*state = archive;
	return 0;
}

static int teardown(void **state)
{
	archive_free(*state);
	return 0;
}

/* The samples of a cgroup weigh what it has counted itself: to the last unit, whatever the division leaves. */
static void test_sums(void **state)
{
	struct archive *archive = *state;

	for (int i = 0; i < 7; i++)
		add(archive, EVENT, "/a", i < 3 ? "x" : "y", 10 + (uint64_t)i % 2);
	add(archive, EVENT, "/a", "late", 14);
	add(archive, "other", "/a", "x", 10);
	/* 5000 + 7001 less 1000 of /a/b, which is known in the first slot. */
	expect(archive, 10, 12, "/a", NULL, 11001, NULL);
	expect(archive, 10, 12, "/a", "x", 11001 * 3 / 7, NULL);
	/* The stretch is narrowed to slots. */
	expect(archive, 9, 13, "/a", NULL, 11001, NULL);
	expect(archive, 10, 11, "/a", NULL, 4000, NULL);
}

static void test_below(void **state)
{
	struct archive *archive = *state;

	add(archive, EVENT, "/a", "x", 10);
	add(archive, EVENT, "/a/b", "x", 10);
	expect(archive, 10, 11, "/a", NULL, 4000, NULL);
	expect(archive, 10, 11, "/a/b", NULL, 1000, NULL);
	/* In the second slot the count of /a/b is not known, and it has a sample there. */
	add(archive, EVENT, "/a/b/c", "x", 11);
	expect(archive, 10, 12, "/a", NULL, PERIOD, "a cgroup below it is not counted all the time");
	expect(archive, 10, 12, "/a/b", NULL, PERIOD, "a cgroup below it is not counted all the time");
	expect(archive, 10, 12, "/a/b/c", NULL, PERIOD, "it is not counted");
}

static void test_not_covered(void **state)
{
	struct archive *archive = *state;
	struct profile *profile;

	add(archive, EVENT, "/", "x", 11);
	add(archive, EVENT, "/c", "x", 11);
	add(archive, EVENT, "/d", "x", 11);
	expect(archive, 11, 12, "/", NULL, PERIOD, "the root's counter goes on while CPUs are idle");
	expect(archive, 11, 12, "/d", NULL, PERIOD, "it is not counted");
	/* That it was not known before its first sample does not matter. */
	expect(archive, 10, 12, "/c", NULL, 100, NULL);
	add(archive, EVENT, "/c", "x", 10);
	expect(archive, 10, 12, "/c", NULL, 2 * PERIOD, "its counter does not cover the stretch");
	/* There is nothing to say of cgroups that are not asked for, and nothing between two readings. */
	expect(archive, 11, 12, "/none", NULL, 0, NULL);
	profile = ask(archive, 12, 13, "/c", NULL);
	assert_false(profile->counted);
	assert_non_null(strstr(profile->not_counted, "no two readings"));
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sums, setup, teardown),
		cmocka_unit_test_setup_teardown(test_below, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_covered, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
