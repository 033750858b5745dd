/* SPDX-License-Identifier: MIT */

/* Captures: a part of an archive as one of its own, with names that come later; bounds of number and memory. */

#include "profiler/capture/captures.h"

#include "base/util/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND ((uint64_t)NS_PER_S)
#define MS ((uint64_t)NS_PER_MS)
#define ALL_THE_TIME UINT64_C(1000000000000)

static const struct module_key key = { .build_id = "a", .build_id_size = 20 };

static struct archive *new_archive(size_t limit)
{
	struct archive *archive;

	assert_int_equal(archive_new(&archive, limit), 0);
	return archive;
}

static void add(struct archive *archive, const char *event, uint64_t ms, const char *cgroup, uint64_t offset)
{
	const struct archive_place places[] = {
		{ .key = &key, .path = "/a", .offset = offset },
		{ .key = &key, .path = "/a", .offset = 0x10, .name = "main", .naming = NAMING_NAMED },
	};
	const struct archive_sample sample = {
		.time = ms * MS,
		.event = event,
		.cgroup = cgroup,
		.command = "x\xff",
		.weight = 1000,
		.places = places,
		.nr = ARRAY_SIZE(places),
	};

	assert_int_equal(archive_add(archive, &sample), 0);
}

static void copy_all(struct extract *extract, struct archive *to, const struct archive *from)
{
	assert_int_equal(extract_copy(extract, to, from, ALL_THE_TIME), 0);
}

static struct profile *ask(const struct archive *archive, const char *event)
{
	const struct profile_query query = { .to = UINT64_MAX, .event = event, .by = PROFILE_BY_COMMAND };
	struct profile *profile;

	assert_int_equal(profile_new(&profile, archive, &query), 0);
	return profile;
}

static void test_below(void **state)
{
	(void)state;
	assert_true(extract_is_below("/a", "/a"));
	assert_true(extract_is_below("/a/b", "/a"));
	assert_false(extract_is_below("/ab", "/a"));
	assert_false(extract_is_below("/", "/a"));
	assert_true(extract_is_below("(hidden)", NULL));
	assert_true(extract_is_below("(unknown)", "/"));
	assert_true(extract_is_below("/a", "/."));
	assert_false(extract_is_below("(unknown)", "/."));
}

/* The cgroup and all below it, the event, the stretch; a few at a time, and each sample once. */
static void test_extract(void **state)
{
	struct archive *from = new_archive(1 << 20), *to = new_archive(1 << 20);
	struct extract extract = { .event = "e", .as = "copy", .cgroup = "/a", .from = 2000 * MS, .to = 5000 * MS };
	struct profile *profile;

	(void)state;
	add(from, "e", 1999, "/a", 0x100);
	add(from, "e", 2000, "/a", 0x100);
	add(from, "e", 2500, "/a/b", 0x100);
	add(from, "e", 2600, "/ab", 0x100);
	add(from, "other", 2700, "/a", 0x100);
	copy_all(&extract, to, from);
	assert_int_equal(archive_stats(to).nr, 2);
	copy_all(&extract, to, from);
	assert_int_equal(archive_stats(to).nr, 2);
	add(from, "e", 4999, "/a", 0x200);
	add(from, "e", 5000, "/a", 0x200);
	copy_all(&extract, to, from);
	assert_int_equal(archive_stats(to).nr, 3);
	archive_free(from);

	profile = ask(to, "copy");
	assert_int_equal(profile->samples, 3);
	assert_int_equal(profile->weight, 3000);
	/* all, the command as text that is valid, main, and two places. */
	assert_int_equal(profile_nr(profile), 5);
	assert_string_equal(archive_text(to, profile_node(profile, 2)->text), "x\xef\xbf\xbd"
									      "ff");
	assert_string_equal(archive_text(to, profile_node(profile, 3)->text), "main");
	profile_free(profile);
	archive_free(to);
}

/* Samples at a higher rate take the place of the others in their time. */
static void test_finer(void **state)
{
	struct archive *from = new_archive(1 << 20), *to = new_archive(1 << 20);
	struct extract extract = {
		.event = "e", .finer = "f", .finer_from = 3000 * MS, .finer_to = 4000 * MS, .as = "e", .to = UINT64_MAX
	};

	(void)state;
	for (uint64_t ms = 2000; ms < 5000; ms += 100)
		add(from, "e", ms, "/a", 0x100);
	for (uint64_t ms = 2900; ms < 4100; ms += 10)
		add(from, "f", ms, "/a", 0x100);
	copy_all(&extract, to, from);
	assert_int_equal(archive_stats(to).nr, 10 + 100 + 10);
	archive_free(from);
	archive_free(to);
}

static void test_names(void **state)
{
	struct archive *from = new_archive(1 << 20), *to = new_archive(1 << 20);
	struct extract extract = { .event = "e", .as = "e", .to = UINT64_MAX };
	struct archive_nameless found[8];
	uint32_t at = 0;
	struct profile *profile;

	(void)state;
	add(from, "e", 1000, "/a", 0x150);
	add(from, "e", 1001, "/a", 0x250);
	copy_all(&extract, to, from);
	assert_int_equal(extract_names(to, from), 2);
	assert_int_equal(archive_next_nameless(from, &at, found, ARRAY_SIZE(found)), 2);
	assert_int_equal(extract_names(to, from), 2);
	archive_name(from, found[0].frame, NAMING_NAMED, "named", "_Znamed", 0);
	assert_int_equal(extract_names(to, from), 1);
	archive_name(from, found[1].frame, NAMING_STRIPPED, NULL, NULL, 0x50);
	assert_int_equal(extract_names(to, from), 0);
	profile = ask(to, "e");
	assert_int_equal(profile->unnamed, 1000);
	for (uint32_t i = 1; i <= profile_nr(profile); i++) {
		const struct profile_node *node = profile_node(profile, i);

		if (node->kind == PROFILE_PLACE)
			assert_int_equal(node->offset, 0x200);
		else if (node->self) {
			assert_string_equal(archive_text(to, node->text), "named");
			assert_string_equal(archive_symbol(to, node->text), "_Znamed");
		}
	}
	profile_free(profile);
	archive_free(from);
	archive_free(to);
}

/* A small copy of much holds its bound, and has the latest of it; its entries are those of its samples. */
static void test_bound(void **state)
{
	struct archive *from = new_archive(16 << 20), *to = new_archive(ARCHIVE_LIMIT_MIN);
	struct extract extract = { .event = "e", .as = "e", .cgroup = "/0", .to = UINT64_MAX };
	struct profile *profile;
	unsigned seed = 7;
	int r;

	(void)state;
	for (uint64_t i = 0; i < 100000; i++) {
		char cgroup[32];

		(void)snprintf(cgroup, sizeof(cgroup), "/%d/%d", rand_r(&seed) % 2, rand_r(&seed) % 50);
		add(from, "e", 1000 + i, cgroup, 0x100 + (uint64_t)rand_r(&seed) % (i % 20000 < 15000 ? 100 : 20000));
		if (i % 1000)
			continue;
		/* With no time at all, it still goes on. */
		do
			r = extract_copy(&extract, to, from, 0);
		while (r > 0);
		assert_int_equal(r, 0);
		assert_true(archive_bytes(to) <= ARCHIVE_LIMIT_MIN);
		(void)extract_names(to, from);
		profile = ask(to, "e");
		assert_int_equal(profile->samples, archive_stats(to).nr);
		assert_true(i == 0 || profile->samples > 400);
		profile_free(profile);
	}
	assert_true(archive_stats(to).samples > archive_stats(to).nr);
	archive_free(from);
	archive_free(to);
}

/* --- captures */

static struct capture_cause cause_of(const char *rule)
{
	static const char *const events[] = { "cpu-clock", "faults", NULL };

	return (struct capture_cause){
		.rule = rule,
		.when = "task-clock@/a > 1",
		.cgroup = "/a",
		.counter = "task-clock",
		.unit = "seconds",
		.reason = "it was so",
		.value = 2,
		.threshold = 1,
		.time = 100 * SECOND,
		.clock = { .items[0].shown = UINT64_C(1700000000) * SECOND - 100 * SECOND, .nr = 1 },
		.from = 90 * SECOND,
		.to = 110 * SECOND,
		.measure = { .event = "cpu-clock", .events = events, .unit = "seconds", .scale = 1e-9, .period = 1000 },
		.key = "e",
	};
}

/* Under an id of its own. */
static struct capture *begin(struct captures *captures, const char *rule)
{
	const struct capture_cause cause = cause_of(rule);
	struct capture *capture = NULL;
	static unsigned number;
	char id[64];

	(void)snprintf(id, sizeof(id), "%s-%u", rule, ++number);
	assert_int_equal(captures_add(captures, id, &cause, &capture), 0);
	assert_string_equal(capture->id, id);
	return capture;
}

static void test_captures(void **state)
{
	struct archive *from = new_archive(1 << 20);
	struct profile_query query = { .to = UINT64_MAX, .event = "any", .from = 95 * SECOND };
	const struct capture_cause cause = cause_of("busy-one");
	struct profile_measure measure;
	struct captures captures;
	struct capture *capture, *other;
	struct profile *profile;

	(void)state;
	captures_init(&captures, 8 << 20);
	capture = begin(&captures, "busy-one");
	assert_ptr_equal(captures_find(&captures, capture->id), capture);
	assert_null(captures_find(&captures, "busy-one"));
	assert_int_equal(captures_add(&captures, capture->id, &cause, &other), -EEXIST);
	for (uint64_t ms = 80000; ms < 120000; ms += 1000)
		add(from, "e", ms, "/a", 0x100);
	copy_all(&capture->extract, capture->archive, from);
	captures_finish(&captures, capture);
	assert_int_equal(capture_samples(capture), 20);
	assert_int_equal(capture_samples_dropped(capture), 0);
	assert_int_equal(capture_ask(capture, &query, &profile, &measure), 0);
	assert_int_equal(profile->samples, 15);
	assert_int_equal(profile->to, 110 * SECOND);
	assert_int_equal(measure.since, 90 * SECOND);
	assert_int_equal(measure.period, 1000);
	profile_free(profile);
	/* The list of all events is the profiler's, and may be gone. */
	assert_null(measure.events);
	/* Where it is not, there is nothing. */
	query.from = 200 * SECOND;
	assert_int_equal(capture_ask(capture, &query, &profile, &measure), 0);
	assert_true(profile->from <= profile->to);
	assert_int_equal(profile->samples, 0);
	profile_free(profile);
	captures_release(&captures);
	archive_free(from);
}

/* Sampling began within the stretch: nothing before it is told to have been sampled. */
static void test_young(void **state)
{
	const struct profile_query query = { .to = UINT64_MAX };
	struct capture_cause cause = cause_of("a");
	struct profile_measure measure;
	struct captures captures;
	struct capture *capture;
	struct profile *profile;

	(void)state;
	cause.measure.since = 97 * SECOND;
	captures_init(&captures, 8 << 20);
	assert_int_equal(captures_add(&captures, "a-1", &cause, &capture), 0);
	assert_int_equal(capture_ask(capture, &query, &profile, &measure), 0);
	assert_int_equal(measure.since, 97 * SECOND);
	assert_int_equal(profile->from, 97 * SECOND);
	assert_int_equal(profile->to, 110 * SECOND);
	profile_free(profile);
	captures_release(&captures);
}

/* What is to be saved stays until it is, if its rule keeps no more; where memory is short, it goes last. */
static void test_to_be_saved(void **state)
{
	struct captures captures;
	struct capture *first, *second;

	(void)state;
	captures_init(&captures, 64 << 20);
	first = begin(&captures, "a");
	first->disk = CAPTURE_TO_BE_SAVED;
	captures_finish(&captures, first);
	second = begin(&captures, "a");
	captures_finish(&captures, second);
	captures_keep(&captures, "a", 1);
	assert_int_equal(captures.nr, 1);
	assert_ptr_equal(TAILQ_FIRST(&captures.all), first);
	second = begin(&captures, "a");
	captures_finish(&captures, second);
	captures_set_limit(&captures, capture_bytes(first));
	assert_ptr_equal(TAILQ_FIRST(&captures.all), first);
	assert_int_equal(captures.nr, 1);
	first->disk = CAPTURE_SAVED;
	captures_keep(&captures, "a", 0);
	assert_int_equal(captures.nr, 0);
	captures_release(&captures);
}

static void test_keep(void **state)
{
	struct captures captures;
	char first[64];

	(void)state;
	captures_init(&captures, 64 << 20);
	for (int i = 0; i < 6; i++) {
		struct capture *capture = begin(&captures, i % 2 ? "a" : "b");

		if (i == 1)
			(void)snprintf(first, sizeof(first), "%s", capture->id);
		captures_finish(&captures, capture);
	}
	captures_keep(&captures, "a", 2);
	assert_int_equal(captures.nr, 5);
	assert_int_equal(captures.dropped, 1);
	assert_null(captures_find(&captures, first));
	captures_keep(&captures, "a", 1);
	assert_int_equal(captures.nr, 4);
	captures_keep(&captures, "c", 1);
	assert_int_equal(captures.nr, 4);
	/* Without their rules, all stay. */
	captures_keep(&captures, NULL, UINT64_MAX);
	captures_finish(&captures, begin(&captures, "a"));
	captures_trim(&captures);
	assert_int_equal(captures.nr, 5);
	captures_release(&captures);
	assert_int_equal(captures.nr, 0);
}

/* The bound holds whatever is added; those that run are never dropped. */
static void test_memory(void **state)
{
	const struct capture_cause cause = cause_of("a");
	struct capture *running[CAPTURES_RUNNING_MAX], *capture;
	struct archive *from = new_archive(8 << 20);
	struct captures captures;

	(void)state;
	for (uint64_t i = 0; i < 30000; i++)
		add(from, "e", 90000 + i / 2, "/a", 0x100 + i % 7000);
	captures_init(&captures, 2 << 20);
	for (int i = 0; i < 50; i++) {
		capture = begin(&captures, "a");
		copy_all(&capture->extract, capture->archive, from);
		assert_true(captures_bytes(&captures) <= captures.limit);
		captures_finish(&captures, capture);
		assert_true(captures_bytes(&captures) <= captures.limit);
	}
	assert_true(captures.nr >= 4 && captures.nr < 50);
	assert_int_equal(captures.dropped, 50 - captures.nr);
	assert_ptr_equal(TAILQ_LAST(&captures.all, capture_list), capture);
	for (int i = 0; i < CAPTURES_RUNNING_MAX; i++)
		running[i] = begin(&captures, "b");
	assert_int_equal(captures_add(&captures, "a-1", &cause, &capture), -EBUSY);
	captures_keep(&captures, "b", 1);
	for (int i = 0; i < CAPTURES_RUNNING_MAX; i++)
		assert_ptr_equal(captures_find(&captures, running[i]->id), running[i]);
	captures_set_limit(&captures, 0);
	assert_int_equal(captures.nr, CAPTURES_RUNNING_MAX);
	captures_release(&captures);
	archive_free(from);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_below),	    cmocka_unit_test(test_extract), cmocka_unit_test(test_finer),
		cmocka_unit_test(test_names),	    cmocka_unit_test(test_bound),   cmocka_unit_test(test_captures),
		cmocka_unit_test(test_keep),	    cmocka_unit_test(test_memory),  cmocka_unit_test(test_young),
		cmocka_unit_test(test_to_be_saved),
	};

	return cmocka_run_group_tests_name("captures", tests, NULL, NULL);
}
