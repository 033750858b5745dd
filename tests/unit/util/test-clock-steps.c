/* SPDX-License-Identifier: MIT */

/* Wall times and moments, while the wall clock is set and the machine suspended: times are those that were shown then,
 * and a time that somebody names is found. */

#include "base/util/cleanup.h"
#include "base/util/clock-steps.h"

#include <errno.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND ((uint64_t)NS_PER_S)
#define HOUR (3600 * SECOND)

/* The clocks as a test begins: the machine was up for an hour, of which it slept for half, and it is noon. */
#define BOOT HOUR
#define SLEPT (HOUR / 2)
#define NOON (1700000000 * SECOND)

struct world {
	struct clock_times clocks;
	struct clock_steps steps;
};

/* The clock is set by so many seconds, then the machine sleeps, and then time passes until the next reading. */
struct happening {
	int64_t pass, sleep, set;
};

static void happen(struct world *w, const struct happening *happening)
{
	w->clocks.monotonic += (uint64_t)(happening->pass * (int64_t)SECOND);
	w->clocks.boottime += (uint64_t)((happening->pass + happening->sleep) * (int64_t)SECOND);
	w->clocks.realtime += (uint64_t)((happening->pass + happening->sleep + happening->set) * (int64_t)SECOND);
	clock_steps_note(&w->steps, &w->clocks);
}

static struct world world_begin(void)
{
	struct world w = { .clocks = { BOOT - SLEPT, BOOT, NOON } };

	clock_steps_note(&w.steps, &w.clocks);
	return w;
}

/* Each moment has the time that was shown, whatever happens later: forward and back, by seconds, hours and years. */
static void test_shown(void **state)
{
	static const struct happening happenings[] = {
		{ 60, 0, 0 },
		{ 1, 0, -3600 },
		{ 60, 0, 0 },
		{ 1, 0, 3600 },
		{ 1, 0, -5 },
		{ 1, 0, 5 },
		{ 1, 0, 20 * 365 * 86400 },
		{ 1, 0, -40 * 365 * 86400 },
		{ 1, 7200, 0 },
		{ 60, 0, 0 },
		{ 1, 86400, -7200 },
		{ 30, 0, 0 },
		{ 1, 0, -1000 * 86400 },
		{ 1, 0, 0 },
	};
	struct clock_times seen[ARRAY_SIZE(happenings)];
	struct world w = world_begin();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(happenings); i++) {
		happen(&w, &happenings[i]);
		seen[i] = w.clocks;
	}
	for (size_t i = 0; i < ARRAY_SIZE(seen); i++) {
		assert_int_equal(clock_steps_shown(&w.steps, seen[i].boottime), seen[i].realtime);
		assert_int_equal(clock_steps_moment(&w.steps, seen[i].monotonic), seen[i].boottime);
		assert_int_equal(clock_steps_monotonic(&w.steps, seen[i].boottime), seen[i].monotonic);
	}
}

/* While the machine sleeps, the monotonic time stands still. Nobody knows when the sleep began: right after the reading
 * before it. */
static void test_suspended(void **state)
{
	struct world w = world_begin();
	uint64_t before = w.clocks.boottime;

	(void)state;
	happen(&w, &(struct happening){ 1, 3600, 0 });
	assert_int_equal(clock_steps_monotonic(&w.steps, before + HOUR / 2), BOOT - SLEPT);
	assert_int_equal(clock_steps_monotonic(&w.steps, before - SECOND / 2), BOOT - SLEPT - SECOND / 2);
	assert_int_equal(clock_steps_monotonic(&w.steps, 0), 0);
	assert_int_equal(clock_steps_moment(&w.steps, w.clocks.monotonic - 1), w.clocks.boottime - 1);
	assert_int_equal(clock_steps_moment(&w.steps, BOOT - SLEPT), before);
}

/* A clock that is a little faster is no step: all times since the last one move with it. Ten milliseconds are the
 * bound. */
static void test_drift(void **state)
{
	struct world w = world_begin();

	(void)state;
	for (int i = 0; i < 100; i++) {
		w.clocks.realtime += i % 2 ? 10 * NS_PER_MS : -9 * (uint64_t)NS_PER_MS;
		happen(&w, &(struct happening){ 1, 0, 0 });
	}
	assert_int_equal(w.steps.nr, 1);
	assert_int_equal(clock_steps_shown(&w.steps, BOOT), NOON + 50 * NS_PER_MS);
	w.clocks.realtime -= 11 * NS_PER_MS;
	happen(&w, &(struct happening){ 1, 0, 0 });
	assert_int_equal(w.steps.nr, 2);
	assert_int_equal(clock_steps_shown(&w.steps, BOOT), NOON + 50 * NS_PER_MS);
}

/* Of more steps than can be remembered, the last ones are. */
static void test_many_steps(void **state)
{
	struct clock_times seen[CLOCK_STEPS_MAX + 10];
	struct world w = world_begin();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(seen); i++) {
		happen(&w, &(struct happening){ 10, 0, i % 2 ? 100 : -50 });
		seen[i] = w.clocks;
	}
	assert_int_equal(w.steps.nr, CLOCK_STEPS_MAX);
	for (size_t i = 10; i < ARRAY_SIZE(seen); i++)
		assert_int_equal(clock_steps_shown(&w.steps, seen[i].boottime), seen[i].realtime);
	assert_int_equal(clock_steps_shown(&w.steps, seen[0].boottime), seen[10].realtime - 100 * SECOND);
}

/* --- questions */

static struct moment at(int64_t seconds)
{
	return (struct moment){ MOMENT_SINCE_EPOCH, NOON + (uint64_t)(seconds * (int64_t)SECOND) };
}

static struct moment ago(uint64_t seconds)
{
	return (struct moment){ MOMENT_AGO, seconds * SECOND };
}

#define UNBOUNDED INT64_MAX
#define REFUSED INT64_MIN

/* Wall times and moments in seconds since the test's begin. */
static void check_stretch(const struct clock_steps *steps, struct moment from, struct moment to, int64_t first,
			  int64_t last)
{
	uint64_t ret_from, ret_to;
	int r = clock_steps_stretch(steps, &from, &to, &ret_from, &ret_to);

	assert_int_equal(r, first == REFUSED ? -EINVAL : 0);
	if (r < 0)
		return;
	assert_int_equal(ret_from, first == UNBOUNDED ? UINT64_MAX : BOOT + (uint64_t)first * SECOND);
	assert_int_equal(ret_to, last == UNBOUNDED ? UINT64_MAX : BOOT + (uint64_t)last * SECOND);
}

static const struct moment none = {};

/* Where nobody sets the clock, and for times before now. */
static void test_questions(void **state)
{
	struct world w = world_begin();
	struct clock_steps unknown = {};
	uint64_t from, to;

	(void)state;
	happen(&w, &(struct happening){ 600, 0, 0 });
	check_stretch(&w.steps, none, none, -3600, UNBOUNDED);
	check_stretch(&w.steps, at(100), at(200), 100, 200);
	check_stretch(&w.steps, at(200), at(200), 200, 200);
	check_stretch(&w.steps, at(200), at(100), REFUSED, 0);
	check_stretch(&w.steps, at(700), at(800), UNBOUNDED, UNBOUNDED);
	check_stretch(&w.steps, at(800), at(700), REFUSED, 0);
	check_stretch(&w.steps, at(-86400), at(0), -3600, 0);
	check_stretch(&w.steps, ago(500), ago(0), 100, 600);
	check_stretch(&w.steps, ago(100), ago(500), REFUSED, 0);
	check_stretch(&w.steps, ago(100), at(400), REFUSED, 0);
	check_stretch(&w.steps, ago(86400), none, -3600, UNBOUNDED);
	assert_int_equal(clock_steps_stretch(&unknown, &none, &none, &from, &to), 0);
}

/* For 600 s the clock showed what it should; then it was set back to the begin, and 300 s passed. */
static void test_questions_after_a_step_back(void **state)
{
	struct world w = world_begin();

	(void)state;
	happen(&w, &(struct happening){ 600, 0, 0 });
	happen(&w, &(struct happening){ 300, 0, -600 });
	/* Shown twice: the latest. Shown once: that moment, be it later than now. */
	check_stretch(&w.steps, at(100), none, 700, UNBOUNDED);
	check_stretch(&w.steps, at(100), at(200), 700, 800);
	check_stretch(&w.steps, at(400), at(500), 400, 500);
	check_stretch(&w.steps, at(400), none, 400, UNBOUNDED);
	/* It ends before its begin was shown again, and a time that the clock has not reached since. */
	check_stretch(&w.steps, at(400), at(200), 400, 800);
	check_stretch(&w.steps, at(100), at(400), 700, UNBOUNDED);
	check_stretch(&w.steps, at(200), at(100), REFUSED, 0);
	check_stretch(&w.steps, at(0), at(1000), 600, UNBOUNDED);
	check_stretch(&w.steps, ago(500), ago(100), 400, 800);
}

/* An hour was never shown: the step over it. It was shown before, if the clock was set back before that. */
static void test_questions_after_a_step_forward(void **state)
{
	struct world w = world_begin();

	(void)state;
	happen(&w, &(struct happening){ 600, 0, 0 });
	happen(&w, &(struct happening){ 300, 0, 3600 });
	check_stretch(&w.steps, at(100), at(4300), 100, 700);
	check_stretch(&w.steps, at(1000), none, 600, UNBOUNDED);
	check_stretch(&w.steps, at(100), at(1000), 100, 600);
	check_stretch(&w.steps, at(1000), at(2000), 600, 600);
	check_stretch(&w.steps, at(2000), at(1000), REFUSED, 0);
	check_stretch(&w.steps, at(4200), none, 600, UNBOUNDED);
	check_stretch(&w.steps, at(4500), none, 900, UNBOUNDED);
	check_stretch(&w.steps, at(4501), none, UNBOUNDED, UNBOUNDED);
	/* Back again: an hour is later than now, and was passed over once. */
	happen(&w, &(struct happening){ 100, 0, 0 });
	happen(&w, &(struct happening){ 100, 0, -3600 });
	check_stretch(&w.steps, at(1000), none, 1000, UNBOUNDED);
	check_stretch(&w.steps, at(2000), none, 600, UNBOUNDED);
	check_stretch(&w.steps, at(4300), none, 700, UNBOUNDED);
	check_stretch(&w.steps, at(700), none, 600, UNBOUNDED);
}

/* A time that the clock may have shown before the reading that saw the step is of the step, and not still to come. */
static void test_questions_about_the_reading_of_a_step(void **state)
{
	struct world w = world_begin();

	(void)state;
	happen(&w, &(struct happening){ 2000, 0, 0 });
	happen(&w, &(struct happening){ 100, 0, -1000 });
	check_stretch(&w.steps, at(1050), none, 2050, UNBOUNDED);
	check_stretch(&w.steps, at(500), at(2050), 500, 2000);
	check_stretch(&w.steps, at(500), at(2101), 500, UNBOUNDED);
	assert_int_equal(clock_steps_shown(&w.steps, BOOT + 2000 * SECOND), NOON + 2000 * SECOND);
	assert_int_equal(clock_steps_shown(&w.steps, BOOT + 2050 * SECOND), NOON + 1050 * SECOND);
}

/* A clock that begins in 1970 and is set then: no time is negative. */
static void test_a_clock_that_was_never_set(void **state)
{
	struct world w = { .clocks = { BOOT, BOOT, 10 * SECOND } };
	const struct moment from = { MOMENT_SINCE_EPOCH, 5 * SECOND };
	uint64_t first, last;

	(void)state;
	clock_steps_note(&w.steps, &w.clocks);
	happen(&w, &(struct happening){ 60, 0, 1700000000 });
	assert_int_equal(clock_steps_shown(&w.steps, BOOT), 10 * SECOND);
	assert_int_equal(clock_steps_stretch(&w.steps, &from, &none, &first, &last), 0);
	assert_int_equal(first, BOOT - 5 * SECOND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shown),
		cmocka_unit_test(test_suspended),
		cmocka_unit_test(test_drift),
		cmocka_unit_test(test_many_steps),
		cmocka_unit_test(test_questions),
		cmocka_unit_test(test_questions_after_a_step_back),
		cmocka_unit_test(test_questions_after_a_step_forward),
		cmocka_unit_test(test_questions_about_the_reading_of_a_step),
		cmocka_unit_test(test_a_clock_that_was_never_set),
	};

	return cmocka_run_group_tests_name("clock-steps", tests, NULL, NULL);
}
