/* SPDX-License-Identifier: MIT */

/* The routes of captures: the list, and one of them. */

#include "base/util/clock.h"
#include "setup/fake-source.h"
#include "web/api/route.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND ((uint64_t)NS_PER_S)

static void add_sample(struct archive *archive, uint64_t time, const char *function)
{
	const struct archive_place place = {
		.path = "/bin/x",
		.offset = strlen(function),
		.name = function,
		.naming = NAMING_NAMED,
	};
	const struct archive_sample sample = {
		.time = time,
		.event = "cpu-clock",
		.cgroup = "/a",
		.command = "x",
		.weight = 1000,
		.places = &place,
		.nr = 1,
	};

	assert_int_equal(archive_add(archive, &sample), 0);
}

/* A capture whose trigger was a minute ago, with samples 10 s before and after. */
static struct capture *add_capture(struct fake_source *fake, const char *id, const char *cgroup)
{
	uint64_t time = clock_monotonic_ns() - 60 * SECOND;
	const struct capture_cause cause = {
		.rule = "busy",
		.when = "task-clock@/a > 1",
		.cgroup = cgroup,
		.counter = "task-clock",
		.unit = "seconds",
		.reason = "it is \"so\"",
		.value = 1.5,
		.threshold = 1,
		.time = time,
		.clock = fake->clock,
		.from = time - 20 * SECOND,
		.to = time + 15 * SECOND,
		.measure = { .event = "cpu-clock", .unit = "seconds", .scale = 1e-9, .period = 1000 },
		.key = "cpu-clock",
	};
	struct capture *capture;

	assert_int_equal(captures_add(&fake->captures, id, &cause, &capture), 0);
	add_sample(capture->archive, time - 10 * SECOND, "before");
	add_sample(capture->archive, time + 10 * SECOND, "after");
	add_sample(capture->archive, time + 11 * SECOND, "after");
	return capture;
}

static int setup(void **state)
{
	*state = fake_source_new(NULL);
	return 0;
}

static int teardown(void **state)
{
	fake_source_free(*state);
	return 0;
}

static double number_of(const json_t *json, const char *name)
{
	return json_number_value(json_object_get(json, name));
}

static void test_list(void **state)
{
	static struct told_rule rules[] = {
		{ .name = "busy", .when = "w", .problem = "", .captures = 1 },
		{ .name = "b", .when = "w", .problem = "p", .passed_over = 2 },
	};
	static struct told_rate rates[] = { { SECOND, NAN }, { 1700000000 * SECOND + SECOND / 8, 0.1 } };
	static struct told_values values[] = { { "other", &rates[1], 1 }, { "busy-1", rates, 2 } };
	struct fake_source *fake = *state;
	struct capture *capture;
	json_t *json = ask_route_json(fake, "/api/v1/captures"), *one;

	assert_int_equal(json_array_size(json_object_get(json, "captures")), 0);
	assert_int_equal(json_array_size(json_object_get(json, "rules")), 0);
	json_decref(json);

	fake->told = (struct told_captures){ rules, ARRAY_SIZE(rules), values, ARRAY_SIZE(values) };
	capture = add_capture(fake, "busy-1", "/a");
	captures_finish(&fake->captures, capture);
	(void)add_capture(fake, "busy-2", NULL);
	json = ask_route_json(fake, "/api/v1/captures");
	assert_true(json_is_null(json_object_get(json_array_get(json_object_get(json, "rules"), 0), "problem")));
	assert_string_equal(
		json_string_value(json_object_get(json_array_get(json_object_get(json, "rules"), 1), "problem")), "p");
	one = json_array_get(json_object_get(json, "captures"), 0);
	assert_string_equal(json_string_value(json_object_get(one, "state")), "kept");
	assert_string_equal(json_string_value(json_object_get(one, "reason")), "it is \"so\"");
	assert_string_equal(json_string_value(json_object_get(one, "id")), capture->id);
	assert_true(fabs(number_of(one, "time") - (double)capture_shown(&capture->cause, capture->cause.time) / 1e9) <
		    0.01);
	assert_true(fabs(number_of(one, "to") - number_of(one, "from") - 35) < 0.01);
	assert_int_equal(number_of(one, "samples"), 3);
	assert_int_equal(json_array_size(json_object_get(one, "values")), 2);
	assert_true(json_is_null(json_object_get(json_array_get(json_object_get(one, "values"), 0), "rate")));
	assert_true(number_of(json_array_get(json_object_get(one, "values"), 1), "rate") == 0.1);
	assert_true(number_of(json_array_get(json_object_get(one, "values"), 1), "time") == 1700000000.125);
	assert_true(json_is_null(json_object_get(one, "raised_from")));
	one = json_array_get(json_object_get(json, "captures"), 1);
	assert_string_equal(json_string_value(json_object_get(one, "state")), "running");
	assert_true(json_is_null(json_object_get(one, "cgroup")));
	assert_int_equal(json_array_size(json_object_get(one, "values")), 0);
	json_decref(json);
}

static void test_one(void **state)
{
	struct fake_source *fake = *state;
	const struct capture *capture = add_capture(fake, "busy-1", "/a");
	static const struct {
		const char *query, *expected;
	} cases[] = {
		{ "", "/a;x;before 1\n/a;x;after 2\n" },
		{ "&by=", "before 1\nafter 2\n" },
		{ "&by=&to=-1min", "before 1\n" },
		{ "&by=&from=-1min", "after 2\n" },
		{ "&by=&cgroup=/b", "" },
		{ "&by=&command=x", "before 1\nafter 2\n" },
	};
	char target[256];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *body = NULL;

		(void)snprintf(target, sizeof(target), "/api/v1/captures/%s?format=folded%s", capture->id,
			       cases[i].query);
		body = ask_route(fake, target, 200, NULL);
		assert_string_equal(body, cases[i].expected);
	}
}

/* The clock was set after it: its times are those of the list all the same, in questions, too. */
static void test_clock_is_set(void **state)
{
	struct fake_source *fake = *state;
	struct capture *capture = add_capture(fake, "busy-1", "/a");
	_cleanup_(freep) char *body = NULL;
	json_t *list, *tree;
	char target[256];
	double time;

	capture->cause.clock.items[0].shown -= 3600 * SECOND;
	list = ask_route_json(fake, "/api/v1/captures");
	time = number_of(json_array_get(json_object_get(list, "captures"), 0), "time");
	(void)snprintf(target, sizeof(target), "/api/v1/captures/%s?from=%.3f", capture->id, time);
	tree = ask_route_json(fake, target);
	assert_true(fabs(number_of(tree, "from") - time) < 0.01);
	(void)snprintf(target, sizeof(target), "/api/v1/captures/%s?format=folded&by=&to=%.3f", capture->id, time);
	body = ask_route(fake, target, 200, NULL);
	assert_string_equal(body, "before 1\n");
	json_decref(list);
	json_decref(tree);
}

/* After a restart it is on disk alone. */
static void test_saved(void **state)
{
	struct fake_source *fake = *state;
	json_t *list = ask_route_json(fake, "/api/v1/captures"), *one;

	assert_int_equal(json_array_size(json_object_get(list, "files")), 0);
	json_decref(list);
	fake->saved = "busy-20261123T021155Z-1";
	list = ask_route_json(fake, "/api/v1/captures");
	one = json_array_get(json_object_get(list, "files"), 0);
	assert_string_equal(json_string_value(json_object_get(one, "id")), fake->saved);
	assert_int_equal(json_integer_value(json_object_get(one, "bytes")), 5);
	json_decref(list);
}

static void test_errors(void **state)
{
	struct fake_source *fake = *state;
	const struct capture *capture = add_capture(fake, "busy-1", "/a");
	static const struct {
		const char *query, *expected;
	} cases[] = {
		{ "?event=faults", "unknown query parameter 'event'" },
		{ "?weights=counted", "unknown query parameter 'weights'" },
		{ "?format=svg", "format 'svg'" },
		{ "?from=now&to=-1h", "from is later than to" },
	};
	_cleanup_(freep) char *none = ask_route(fake, "/api/v1/captures/none", 404, NULL);

	assert_non_null(strstr(none, "there is no such capture"));
	free(ask_route(fake, "/api/v1/captures/", 404, NULL));
	free(ask_route(fake, "/api/v1/captures/a/b", 404, NULL));
	free(ask_route(fake, "/api/v1/captures?format=folded", 400, NULL));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *body = NULL;
		char target[256];

		(void)snprintf(target, sizeof(target), "/api/v1/captures/%s%s", capture->id, cases[i].query);
		body = ask_route(fake, target, 400, NULL);
		if (!strstr(body, cases[i].expected))
			fail_msg("%s: %s", target, body);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_list, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one, setup, teardown),
		cmocka_unit_test_setup_teardown(test_clock_is_set, setup, teardown),
		cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
		cmocka_unit_test_setup_teardown(test_saved, setup, teardown),
	};

	return cmocka_run_group_tests_name("captures-route", tests, NULL, NULL);
}
