/* SPDX-License-Identifier: MIT */

/* The estimator: every case of its table, then properties over random schedules of a simulated PMU. */

#include "base/util/cleanup.h"
#include "counting/totals/estimate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MAX UINT64_MAX

static void test_table(void **state)
{
	static const struct {
		const char *what;
		bool exact;
		uint64_t base_enabled, base_running, base_value;
		uint64_t enabled, running, value;
		enum estimate result;
		uint64_t delta;
		bool moves;    /* the baseline moves to the reading */
		uint64_t most; /* ns there were */
	} cases[] = {
		{ "nothing happened", false, 0, 0, 0, 0, 0, 0, ESTIMATE_COUNTED, 0, true, MAX },
		{ "all of the time", false, 0, 0, 0, 100, 100, 7, ESTIMATE_COUNTED, 7, true, MAX },
		{ "all of the time, later", false, 50, 50, 3, 150, 150, 10, ESTIMATE_COUNTED, 7, true, MAX },
		{ "half of the time", false, 0, 0, 0, 100, 50, 7, ESTIMATE_COUNTED, 14, true, MAX },
		{ "a third, rounded down", false, 0, 0, 0, 4, 3, 1, ESTIMATE_COUNTED, 1, true, MAX },
		{ "a third, rounded up", false, 0, 0, 0, 5, 3, 1, ESTIMATE_COUNTED, 2, true, MAX },
		{ "half a count rounds up", false, 0, 0, 0, 3, 2, 1, ESTIMATE_COUNTED, 2, true, MAX },
		{ "idle interval after a busy one", false, 100, 50, 7, 100, 50, 7, ESTIMATE_COUNTED, 0, true, MAX },
		{ "the interval's own share, not the life's", false, 1000, 100, 50, 1100, 200, 60, ESTIMATE_COUNTED, 10,
		  true, MAX },
		{ "did not run: kept for later", false, 0, 0, 0, 100, 0, 0, ESTIMATE_UNOBSERVED, 0, false, MAX },
		{ "did not run, later", false, 100, 100, 7, 200, 100, 7, ESTIMATE_UNOBSERVED, 0, false, MAX },
		{ "the kept time is covered", false, 100, 100, 7, 300, 200, 17, ESTIMATE_COUNTED, 20, true, MAX },
		{ "counted without any time", false, 0, 0, 0, 0, 0, 5, ESTIMATE_COUNTED, 5, true, MAX },
		{ "counted, never run: it is kept", false, 0, 0, 0, 9, 0, 5, ESTIMATE_UNOBSERVED, 0, false, MAX },
		{ "ran longer than enabled", false, 0, 0, 0, 100, 101, 7, ESTIMATE_COUNTED, 7, true, MAX },
		{ "ran without being enabled", false, 0, 0, 0, 0, 3, 7, ESTIMATE_COUNTED, 7, true, MAX },
		{ "value fell", false, 100, 100, 7, 200, 200, 6, ESTIMATE_BACKWARDS, 0, false, MAX },
		{ "enabled fell: plain", false, 100, 90, 7, 99, 95, 8, ESTIMATE_COUNTED, 1, true, MAX },
		{ "running fell: plain", false, 100, 100, 7, 200, 99, 8, ESTIMATE_COUNTED, 1, true, MAX },
		{ "longer than there was time: plain", false, 0, 0, 0, 1001, 500, 8, ESTIMATE_COUNTED, 8, true, 1000 },
		{ "as long as there was time", false, 0, 0, 0, 1000, 500, 8, ESTIMATE_COUNTED, 16, true, 1000 },
		{ "did not run, longer than that", false, 0, 0, 0, 1001, 0, 0, ESTIMATE_UNOBSERVED, 0, false, 1000 },

		/* 64 bits are not enough: at 3 GHz, 3 s and a quotient of times in ns. */
		{ "9e9 x 3e9", false, 0, 0, 0, 3000000000, 1500000000, 9000000000, ESTIMATE_COUNTED, 18000000000, true,
		  MAX },
		{ "all bits", false, 0, 0, 0, MAX, MAX, MAX, ESTIMATE_COUNTED, MAX, true, MAX },
		{ "all bits, one ns short", false, 0, 0, 0, MAX, MAX - 1, MAX - 1, ESTIMATE_COUNTED, MAX, true, MAX },
		{ "saturates", false, 0, 0, 0, MAX, 1, MAX, ESTIMATE_COUNTED, MAX, true, MAX },
		{ "saturates by little", false, 0, 0, 0, 4, 2, MAX / 2 + 1, ESTIMATE_COUNTED, MAX, true, MAX },
		{ "does not saturate", false, 0, 0, 0, 4, 2, MAX / 2, ESTIMATE_COUNTED, MAX - 1, true, MAX },

		{ "exact: plain", true, 0, 0, 5, 100, 100, 7, ESTIMATE_COUNTED, 2, true, MAX },
		{ "exact: times are not looked at", true, 0, 0, 5, 100, 1, 7, ESTIMATE_COUNTED, 2, true, MAX },
		{ "exact: no times at all", true, 0, 0, 0, 0, 0, 7, ESTIMATE_COUNTED, 7, true, MAX },
		{ "exact: enabled, not running", true, 0, 0, 0, 100, 0, 7, ESTIMATE_COUNTED, 7, true, MAX },
		{ "exact: times fell", true, 500, 500, 5, 100, 90, 7, ESTIMATE_COUNTED, 2, true, MAX },
		{ "exact: value fell", true, 0, 0, 5, 100, 100, 4, ESTIMATE_BACKWARDS, 0, false, MAX },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t base_value = cases[i].base_value, value = cases[i].value, delta = 0;
		struct baseline base = {
			.enabled = cases[i].base_enabled,
			.running = cases[i].base_running,
			.values = &base_value,
		};
		const struct reading now = {
			.enabled = cases[i].enabled,
			.running = cases[i].running,
			.values = &value,
			.most = cases[i].most,
		};
		enum estimate result = estimate(&base, &now, 1, cases[i].exact, &delta);

		if (result != cases[i].result || delta != cases[i].delta)
			fail_msg("%s: result %d, delta %llu", cases[i].what, result, (unsigned long long)delta);
		if (cases[i].moves) {
			assert_int_equal(base.enabled, cases[i].enabled);
			assert_int_equal(base.running, cases[i].running);
			assert_int_equal(base_value, cases[i].value);
		} else {
			assert_int_equal(base.enabled, cases[i].base_enabled);
			assert_int_equal(base.running, cases[i].base_running);
			assert_int_equal(base_value, cases[i].base_value);
		}
	}
}

/* Small numbers, all of them: against the same formula in plain integers. */
static void test_all_small(void **state)
{
	(void)state;
	for (uint64_t enabled = 0; enabled < 12; enabled++)
		for (uint64_t running = 0; running < 12; running++)
			for (uint64_t value = 0; value < 20; value++) {
				uint64_t base_value = 0, delta = 99;
				struct baseline base = { .values = &base_value };
				const struct reading now = {
					.enabled = enabled, .running = running, .values = &value, .most = MAX
				};
				enum estimate result = estimate(&base, &now, 1, false, &delta);

				if (running == 0 && enabled > 0) {
					assert_int_equal(result, ESTIMATE_UNOBSERVED);
					assert_int_equal(delta, 99);
				} else if (running >= enabled) {
					assert_int_equal(delta, value);
				} else {
					/* The nearest integer: at most half a count away. */
					uint64_t error = delta * running > value * enabled ?
								 delta * running - value * enabled :
								 value * enabled - delta * running;
					assert_true(2 * error <= running);
				}
			}
}

/* A member's values go with its leader's times; one that falls holds all of them back. */
static void test_members(void **state)
{
	uint64_t base_values[3] = { 10, 20, 30 }, values[3] = { 11, 22, 33 }, deltas[3] = {};
	struct baseline base = { .values = base_values };
	struct reading now = { .enabled = 200, .running = 100, .values = values, .most = MAX };

	(void)state;
	assert_int_equal(estimate(&base, &now, 3, false, deltas), ESTIMATE_COUNTED);
	assert_int_equal(deltas[0], 2);
	assert_int_equal(deltas[1], 4);
	assert_int_equal(deltas[2], 6);

	values[0] = 100;
	values[2] = 32;
	now.enabled = now.running = 300;
	deltas[0] = deltas[1] = deltas[2] = 0;
	assert_int_equal(estimate(&base, &now, 3, false, deltas), ESTIMATE_BACKWARDS);
	assert_int_equal(deltas[0], 0);
	assert_int_equal(base_values[0], 11);
	assert_int_equal(base.enabled, 200);
}

/* Of a part of the time, all but what readings have made is scaled: half a count each, and five; of 10 readings. */
static void test_costs_of_readings(void **state)
{
	uint64_t base_values[3] = { 10, 20, 30 }, values[3] = { 20, 30, 40 }, deltas[3] = {};
	const struct reading_cost costs[3] = { {}, { .counts = 3, .readings = 6 }, { .counts = 20, .readings = 4 } };
	struct baseline base = { .values = base_values, .readings = 7 };
	struct reading now = {
		.enabled = 200, .running = 100, .values = values, .readings = 17, .costs = costs, .most = MAX
	};

	(void)state;
	assert_int_equal(estimate(&base, &now, 3, false, deltas), ESTIMATE_COUNTED);
	assert_int_equal(deltas[0], 20);
	assert_int_equal(deltas[1], 2 * 5 + 5);
	assert_int_equal(deltas[2], 10);
	assert_int_equal(base_values[1], 30);
	assert_int_equal(base.readings, 17);
}

/* What falls and comes back is counted once. */
static void test_glitch_counts_once(void **state)
{
	uint64_t base_value = 0, delta, total = 0;
	static const uint64_t readings[] = { 100, 5, 40, 105, 110 };
	struct baseline base = { .values = &base_value };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(readings); i++) {
		const struct reading now = { .values = &readings[i] };

		if (estimate(&base, &now, 1, true, &delta) == ESTIMATE_COUNTED)
			total += delta;
	}
	assert_int_equal(total, 110);
}

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* A share is not taken of a brief time; the next reading is scaled over both. What ran all the time needs none. */
static void test_brief(void **state)
{
	uint64_t base_value = 0, value = 10, delta = 0;
	struct baseline base = { .values = &base_value };
	struct reading now = { .enabled = 100, .running = 50, .values = &value, .most = MAX, .brief = true };

	(void)state;
	assert_int_equal(estimate(&base, &now, 1, false, &delta), ESTIMATE_UNOBSERVED);
	value = 30;
	now.enabled = 200;
	now.brief = false;
	assert_int_equal(estimate(&base, &now, 1, false, &delta), ESTIMATE_COUNTED);
	assert_int_equal(delta, 120);
	value = 35;
	now.enabled = 210;
	now.running = 60;
	now.brief = true;
	assert_int_equal(estimate(&base, &now, 1, false, &delta), ESTIMATE_COUNTED);
	assert_int_equal(delta, 5);
	/* Nor do exact groups have shares. */
	value = 36;
	now.enabled = 300;
	assert_int_equal(estimate(&base, &now, 1, true, &delta), ESTIMATE_COUNTED);
	assert_int_equal(delta, 1);
}

/*
 * A PMU that runs the group in random slices while events happen at a steady rate: the total never goes
 * down, no interval is left out, and the estimate comes out near the truth.
 */
static void test_schedule(void **state)
{
	uint64_t seed = 0x9e3779b97f4a7c15;

	(void)state;
	for (int trial = 0; trial < 200; trial++) {
		uint64_t base_value = 0, value = 0, delta, total = 0;
		uint64_t per_us = 1 + next_random(&seed) % 5000, reads = 0, unobserved = 0;
		struct baseline base = { .values = &base_value };
		struct reading now = { .values = &value, .most = MAX };

		for (int slice = 0; slice < 2000; slice++) {
			uint64_t us = 500 + next_random(&seed) % 1000;

			now.enabled += us * 1000;
			if (next_random(&seed) % 10 < 4) {
				now.running += us * 1000;
				value += us * per_us;
			}
			if (next_random(&seed) % 3)
				continue;
			reads++;
			switch (estimate(&base, &now, 1, false, &delta)) {
			case ESTIMATE_COUNTED:
				total += delta;
				break;
			case ESTIMATE_UNOBSERVED:
				unobserved++;
				break;
			default:
				fail_msg("a schedule never goes backwards, and can be true");
			}
		}
		/* Steady events: scaled by each interval's own share they come out exact but for rounding, up
		 * to the enabled time that the baseline has reached. */
		uint64_t truth = base.enabled / 1000 * per_us;

		assert_true(unobserved > 0);
		assert_true(total <= truth + reads && total + reads >= truth);
	}
}

#define MS 1000000U

/* Groups with a clock of their own, from a baseline of 1 s each and a value of 100. */
static void test_clocked(void **state)
{
	static const struct {
		const char *what;
		uint64_t enabled, running, clock, value; /* ms, ms, ms, counts: more than the baseline's */
		bool brief, last;
		enum estimate result;
		uint64_t delta;
	} cases[] = {
		{ "ran always", 1000, 1000, 1000, 50, true, false, ESTIMATE_COUNTED, 50 },
		{ "the clock misses the switches", 1000, 1000, 930, 50, true, false, ESTIMATE_COUNTED, 50 },
		{ "… or has more of them", 1000, 1000, 1400, 50, true, false, ESTIMATE_COUNTED, 50 },
		{ "a fifth, the kernel is right", 1000, 200, 200, 50, false, false, ESTIMATE_COUNTED, 250 },
		{ "a fifth, the kernel says all", 1000, 1000, 200, 50, false, false, ESTIMATE_COUNTED, 250 },
		{ "four fifths, the kernel says all", 1000, 1000, 800, 40, false, false, ESTIMATE_COUNTED, 50 },
		{ "two thirds, the kernel is right", 1000, 666, 666, 333, false, false, ESTIMATE_COUNTED, 500 },
		{ "a fifth, the kernel says none", 1000, 0, 200, 50, false, false, ESTIMATE_COUNTED, 250 },
		{ "a fifth, the kernel says a twentieth", 1000, 50, 200, 50, false, false, ESTIMATE_COUNTED, 250 },
		{ "too brief", 100, 20, 20, 50, true, false, ESTIMATE_UNOBSERVED, 0 },
		{ "too brief, the last", 100, 20, 20, 50, true, true, ESTIMATE_UNOBSERVED, 0 },
		{ "did not run", 1000, 0, 0, 0, false, false, ESTIMATE_UNOBSERVED, 0 },
		{ "the kernel says it ran, and it counted", 1000, 900, 0, 9, false, false, ESTIMATE_UNOBSERVED, 0 },
		{ "counted without any time", 0, 0, 0, 9, false, false, ESTIMATE_UNOBSERVED, 0 },
		{ "enabled lags", 100, 100, 300, 50, false, false, ESTIMATE_LAGS, 0 },
		{ "enabled stands still", 0, 0, 300, 50, false, false, ESTIMATE_LAGS, 0 },
		{ "enabled lags, and there is no more", 100, 100, 300, 50, false, true, ESTIMATE_COUNTED, 50 },
		{ "longer than there was time", 5001, 5001, 5001, 50, false, false, ESTIMATE_WRONG_TIME, 0 },
		{ "as long as there was time", 5000, 2500, 2500, 50, false, false, ESTIMATE_COUNTED, 100 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t base_value = 100, value = 100 + cases[i].value, delta = 0;
		const struct baseline before = { 1000 * MS, 1000 * MS, 1000 * MS, &base_value, 0 };
		struct baseline base = before;
		const struct reading now = {
			.enabled = base.enabled + cases[i].enabled * MS,
			.running = base.running + cases[i].running * MS,
			.clock = base.clock + cases[i].clock * MS,
			.clocked = true,
			.doubtful = true,
			.values = &value,
			.most = 5000 * (uint64_t)MS,
			.brief = cases[i].brief,
			.last = cases[i].last,
		};
		enum estimate result = estimate(&base, &now, 1, false, &delta);

		if (result != cases[i].result || delta != cases[i].delta)
			fail_msg("%s: result %d, delta %llu", cases[i].what, result, (unsigned long long)delta);
		assert_int_equal(base.clock, result == ESTIMATE_COUNTED ? now.clock : before.clock);
		assert_int_equal(base_value, result == ESTIMATE_COUNTED ? value : 100);
	}
}

/* Until the kernel's times are found false, it is believed that a group ran always. */
static void test_clocked_and_believed(void **state)
{
	uint64_t base_value = 0, value = 10, delta = 0;
	struct baseline base = { .values = &base_value };
	struct reading now = { .clocked = true, .values = &value, .most = MAX };

	(void)state;
	now.enabled = 1000 * (uint64_t)MS;
	now.running = 500 * (uint64_t)MS;
	now.clock = 470 * (uint64_t)MS;
	assert_true(ran_always(1000, 1000, 500, false));
	assert_false(ran_always(1000, 1000, 499, false));
	assert_false(ran_always(1000, 999, 1000, false));
	assert_true(ran_always(1000, 1000, 900, true));
	assert_false(ran_always(1000, 1000, 899, true));
	assert_false(ran_always(1000 * MS, 1000 * MS, 1501 * MS, false));
	assert_true(ran_always(0, 0, 100, false));

	/* So is its share. */
	assert_int_equal(estimate(&base, &now, 1, false, &delta), ESTIMATE_COUNTED);
	assert_int_equal(delta, 20);
	value = 20;
	now.enabled = 2000 * MS;
	now.clock = 950 * MS;
	now.doubtful = true;
	assert_int_equal(estimate(&base, &now, 1, false, &delta), ESTIMATE_COUNTED);
	assert_int_equal(delta, 21);

	/* It says a tenth of the time more, or less, or half of its own. What is brief, or always, tells nothing. */
	assert_true(times_are_false(1000 * MS, 500 * MS, 601 * MS));
	assert_true(times_are_false(1000 * MS, 500 * MS, 399 * MS));
	assert_false(times_are_false(1000 * MS, 500 * MS, 599 * MS));
	assert_true(times_are_false(1000 * MS, 20 * MS, 41 * MS));
	assert_false(times_are_false(1000 * MS, 20 * MS, 39 * MS));
	assert_false(times_are_false(1000 * MS, 1000 * MS, 200 * MS));
	assert_false(times_are_false(19 * MS, 1 * MS, 19 * MS));
	assert_true(times_are_false(0, 0, 21 * MS));
	assert_false(times_are_false(0, 0, 19 * MS));
}

/* Times that go down are refused as well; the kernel's running time may do as it likes. */
static void test_clocked_times_fall(void **state)
{
	uint64_t base_value = 0, value = 7, delta = 0;
	struct baseline base = { 1000 * MS, 1000 * MS, 1000 * MS, &base_value, 0 };
	struct reading now = { .clocked = true, .values = &value, .most = MAX };

	(void)state;
	now.enabled = 999 * MS;
	now.clock = 1100 * MS;
	assert_int_equal(estimate(&base, &now, 1, false, &delta), ESTIMATE_WRONG_TIME);
	now.enabled = 1200 * MS;
	now.clock = 999 * MS;
	assert_int_equal(estimate(&base, &now, 1, false, &delta), ESTIMATE_WRONG_TIME);
	assert_int_equal(base_value, 0);
	now.clock = 1100 * MS;
	assert_int_equal(estimate(&base, &now, 1, false, &delta), ESTIMATE_COUNTED);
	assert_int_equal(delta, 14);
}

/* A count above its limit holds all of its group back; when it is true again, all that was held back is counted. */
static void test_limits(void **state)
{
	uint64_t base_values[2] = {}, values[2] = { 500, 50 }, deltas[2];
	uint64_t limits[2] = { 999, MAX };
	struct baseline base = { .values = base_values };
	struct reading now = { .enabled = 200, .running = 100, .values = values, .limits = limits, .most = MAX };

	(void)state;
	assert_int_equal(estimate(&base, &now, 2, false, deltas), ESTIMATE_TOO_MANY);
	assert_int_equal(deltas[0], 1000);
	assert_int_equal(base.enabled, 0);
	assert_int_equal(base_values[1], 0);
	now.enabled = 400;
	now.running = 300;
	values[0] = 600;
	assert_int_equal(estimate(&base, &now, 2, false, deltas), ESTIMATE_COUNTED);
	assert_int_equal(deltas[0], 800);
	assert_int_equal(deltas[1], 67);
}

/*
 * Five groups that take turns on a CPU under a kernel as of 6.2: a turn ends without the time being brought up to date,
 * so that running times are anything, and the enabled time lags while another group has its turn. By their clocks all
 * of them come out right, and none ever ahead of the truth by more than what a reading covers.
 */
static void test_turns_on_a_lying_kernel(void **state)
{
	enum { GROUPS = 5, TURN_US = 4000, PER_US = 3 };
	struct reading now[GROUPS] = {};
	struct baseline base[GROUPS] = {};
	uint64_t base_values[GROUPS] = {}, values[GROUPS] = {}, totals[GROUPS] = {}, base_at[GROUPS] = {};
	uint64_t seed = 0x9e3779b97f4a7c15, time = 0, updated = 0, lags = 0;

	(void)state;
	for (int turn = 0; turn < 20000; turn++) {
		int active = turn % GROUPS;

		time += TURN_US;
		now[active].clock += TURN_US * 1000U;
		values[active] += TURN_US * PER_US;
		if (next_random(&seed) % 40)
			continue;
		/* A reading: only the group that has its turn brings the time up to date, and gets all of it. */
		for (int i = 0; i < GROUPS; i++) {
			uint64_t delta;
			enum estimate r;

			if (i == active) {
				now[i].running += (time - updated) * 1000U;
				updated = time;
			}
			now[i].enabled = updated * 1000U;
			now[i].clocked = true;
			now[i].doubtful = lags > 0;
			now[i].values = &values[i];
			now[i].most = (time - base_at[i]) * 1000U + 1000U * MS;
			now[i].brief = now[i].clock - base[i].clock < 50 * MS;
			base[i].values = &base_values[i];
			r = estimate(&base[i], &now[i], 1, false, &delta);
			lags += r == ESTIMATE_LAGS;
			assert_true(r == ESTIMATE_COUNTED || r == ESTIMATE_LAGS || r == ESTIMATE_UNOBSERVED);
			if (r == ESTIMATE_COUNTED) {
				totals[i] += delta;
				base_at[i] = time;
			}
		}
	}
	assert_true(lags > 0);
	for (int i = 0; i < GROUPS; i++) {
		uint64_t truth = base[i].enabled / 1000U * PER_US;

		assert_true(totals[i] > truth - truth / 100 && totals[i] < truth + truth / 100);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_all_small),
		cmocka_unit_test(test_members),
		cmocka_unit_test(test_costs_of_readings),
		cmocka_unit_test(test_glitch_counts_once),
		cmocka_unit_test(test_brief),
		cmocka_unit_test(test_schedule),
		cmocka_unit_test(test_clocked_and_believed),
		cmocka_unit_test(test_clocked),
		cmocka_unit_test(test_clocked_times_fall),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_turns_on_a_lying_kernel),
	};

	return cmocka_run_group_tests_name("estimate", tests, NULL, NULL);
}
