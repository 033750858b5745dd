/* SPDX-License-Identifier: MIT */

/* When a rate is unusual for long enough: thresholds, durations, episodes, gaps. */

#include "counting/alarm/trigger.h"

#include "base/util/clock.h"

#include <math.h>
#include <stdio.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND ((uint64_t)NS_PER_S)

static struct trigger *new_trigger(bool below, double threshold, uint64_t seconds)
{
	const struct trigger_rule rule = { below, threshold, seconds * SECOND };
	struct trigger *trigger;

	assert_int_equal(trigger_new(&trigger, &rule), 0);
	return trigger;
}

/* A round at this second, which ends an interval of a second, with one target. */
static bool see(struct trigger *trigger, uint64_t second, double rate)
{
	bool due = trigger_see(trigger, "/a", rate, (second - 1) * SECOND, second * SECOND);

	trigger_end_round(trigger, second * SECOND);
	return due;
}

static void test_threshold(void **state)
{
	struct trigger *trigger = new_trigger(false, 5, 0);

	(void)state;
	assert_false(see(trigger, 10, 5));
	assert_false(see(trigger, 11, NAN));
	assert_true(trigger_is_idle(trigger));
	assert_true(see(trigger, 12, 5.1));
	assert_false(trigger_is_idle(trigger));
	trigger_free(trigger);

	trigger = new_trigger(true, 5, 0);
	assert_false(see(trigger, 10, 5));
	assert_false(see(trigger, 11, NAN));
	assert_true(see(trigger, 12, 0));
	trigger_free(trigger);
}

static void test_duration(void **state)
{
	struct trigger *trigger = new_trigger(false, 5, 3);

	(void)state;
	assert_false(see(trigger, 10, 6));
	assert_false(see(trigger, 11, 6));
	assert_true(see(trigger, 12, 6)); /* from 9 to 12 */
	assert_false(see(trigger, 13, 4));
	assert_false(see(trigger, 14, 6));
	assert_false(see(trigger, 15, 6));
	assert_true(see(trigger, 16, 6));
	trigger_free(trigger);
}

/* Once an episode, and again only when its end was seen. */
static void test_episodes(void **state)
{
	struct trigger *trigger = new_trigger(false, 5, 0);

	(void)state;
	assert_true(see(trigger, 10, 6));
	assert_true(trigger_pass_over(trigger, "/a"));
	assert_true(see(trigger, 11, 6));
	assert_false(trigger_pass_over(trigger, "/a"));
	trigger_take(trigger, "/a");
	for (uint64_t second = 12; second < 100; second++)
		assert_false(see(trigger, second, second % 3 ? 6 : NAN));
	assert_false(see(trigger, 100, 5));
	assert_true(see(trigger, 101, 6));
	trigger_free(trigger);
}

/* An interval of which nothing is known interrupts the time that counts, also where a whole round is missing. */
static void test_gaps(void **state)
{
	struct trigger *trigger = new_trigger(false, 5, 3);

	(void)state;
	assert_false(see(trigger, 10, 6));
	assert_false(see(trigger, 11, 6));
	assert_false(see(trigger, 12, NAN));
	assert_false(see(trigger, 13, 6));
	assert_false(see(trigger, 14, 6));
	trigger_end_round(trigger, 15 * SECOND);
	assert_false(see(trigger, 16, 6));
	assert_false(see(trigger, 17, 6));
	assert_true(see(trigger, 18, 6));
	/* A target that is gone is forgotten, and another of its name begins anew. */
	trigger_take(trigger, "/a");
	for (uint64_t second = 19; second < 80; second++)
		trigger_end_round(trigger, second * SECOND);
	assert_true(trigger_is_idle(trigger));
	assert_false(see(trigger, 80, 6));
	assert_false(see(trigger, 81, 6));
	assert_true(see(trigger, 82, 6));
	trigger_free(trigger);
}

static void test_bound(void **state)
{
	struct trigger *trigger = new_trigger(false, 5, 0);
	char name[32];

	(void)state;
	for (int i = 0; i < TRIGGER_TARGETS_MAX + 10; i++) {
		(void)snprintf(name, sizeof(name), "/%d", i);
		assert_int_equal(trigger_see(trigger, name, 6, SECOND, 2 * SECOND), i < TRIGGER_TARGETS_MAX);
	}
	/* Each by itself. */
	assert_false(trigger_see(trigger, "/1", 4, 2 * SECOND, 3 * SECOND));
	assert_true(trigger_see(trigger, name, 6, 2 * SECOND, 3 * SECOND));
	assert_true(trigger_see(trigger, "/2", 6, 2 * SECOND, 3 * SECOND));
	trigger_free(trigger);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threshold), cmocka_unit_test(test_duration), cmocka_unit_test(test_episodes),
		cmocka_unit_test(test_gaps),	  cmocka_unit_test(test_bound),
	};

	return cmocka_run_group_tests_name("trigger", tests, NULL, NULL);
}
