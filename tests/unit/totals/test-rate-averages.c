/* SPDX-License-Identifier: MIT */

/* Averages and highest rates, with a clock and counts that the test plays. */

#include "counting/totals/rate-averages.h"
#include "counting/totals/reload.h"
#include "counting/totals/tick.h"

#include <errno.h>
#include <math.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND 1000000000ULL

/* A averages and its clock. */
struct played {
	struct rate_averages averages;
	uint64_t now;
};

static struct played play(void)
{
	struct played p = { .now = 1000 * SECOND };

	rate_averages_forget(&p.averages);
	return p;
}

static void advance(struct played *p, double seconds, double rate)
{
	uint64_t now = p->now + (uint64_t)(seconds * 1e9);
	struct rate_step step = rate_step_of(p->now, now);

	rate_averages_add(&p->averages, &step, rate);
	p->now = now;
}

static void advance_often(struct played *p, size_t times, double seconds, double rate)
{
	for (size_t i = 0; i < times; i++)
		advance(p, seconds, rate);
}

static void assert_near(double v, double expected)
{
	if (!(fabs(v - expected) <= 1e-3 * fmax(1, fabs(expected))))
		fail_msg("%g is not %g", v, expected);
}

static void assert_averages(const struct played *p, double one, double five)
{
	assert_near((double)p->averages.average[RATE_1M], one);
	assert_near((double)p->averages.average[RATE_5M], five);
}

static void assert_highest(const struct played *p, double expected)
{
	assert_near((double)rate_averages_highest(&p->averages), expected);
}

static void test_nothing_is_known(void **state)
{
	struct played p = play();
	struct rate_step none = rate_step_of(0, p.now), back = rate_step_of(p.now, p.now - 1);

	(void)state;
	assert_true(isnan(none.seconds) && isnan(back.seconds));
	rate_averages_add(&p.averages, &none, NAN);
	assert_true(isnan(p.averages.average[RATE_1M]) && isnan(p.averages.average[RATE_5M]));
	assert_true(isnan(rate_averages_highest(&p.averages)));
}

/* The first minutes are a plain mean: one busy second out of ten is a tenth, in both. */
static void test_a_beginning(void **state)
{
	struct played p = play();

	(void)state;
	advance(&p, 1, 1000);
	assert_averages(&p, 1000, 1000);
	advance_often(&p, 9, 1, 0);
	assert_averages(&p, 100, 100);
	advance_often(&p, 30, 1, 100);
	assert_averages(&p, 100, 100);
}

static void test_steady(void **state)
{
	struct played p = play();

	(void)state;
	advance_often(&p, 2000, 1, 42.5);
	assert_averages(&p, 42.5, 42.5);
	assert_highest(&p, 42.5);
}

/* A minute after a change, 1/e of what was before is left in the one average, and e^-1/5 in the other. */
static void test_damping(void **state)
{
	static const double intervals[] = { 0.01, 0.25, 1, 7.5, 60 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(intervals); i++) {
		struct played p = play();

		advance_often(&p, 60, 60, 1000);
		advance_often(&p, (size_t)(60 / intervals[i]), intervals[i], 0);
		assert_averages(&p, 1000 * exp(-1), 1000 * exp(-0.2));
	}
}

/* A process that was stopped for ten hours: one interval, by its real length. */
static void test_a_long_interval(void **state)
{
	struct played p = play();

	(void)state;
	advance_often(&p, 1000, 1, 1000);
	advance(&p, 36000, 5);
	assert_averages(&p, 5, 5);
	assert_highest(&p, 5);
	advance(&p, 1, 7);
	assert_highest(&p, 7);
}

/* A burst is seen for a minute, and not for much longer. */
static void test_highest(void **state)
{
	(void)state;
	for (unsigned phase = 0; phase < 12; phase++) {
		struct played p = play();

		p.now += phase * SECOND;
		advance_often(&p, 100, 1, 10);
		advance(&p, 1, 5000);
		advance_often(&p, 60, 1, 20);
		assert_highest(&p, 5000);
		advance_often(&p, 12, 1, 20);
		assert_highest(&p, 20);
	}
}

/* Intervals that are longer than a bin, and than all of them. */
static void test_highest_of_long_intervals(void **state)
{
	struct played p = play();

	(void)state;
	advance(&p, 30, 100);
	advance(&p, 30, 10);
	assert_highest(&p, 100);
	advance(&p, 30, 10);
	advance(&p, 30, 10);
	assert_highest(&p, 10);
	advance(&p, 600, 1);
	assert_highest(&p, 1);
}

/* What was not measured for a while begins anew; what was is still shown. */
static void test_not_measured(void **state)
{
	struct played p = play();

	(void)state;
	advance_often(&p, 100, 1, 50);
	advance(&p, 1, NAN);
	assert_true(isnan(p.averages.average[RATE_1M]) && isnan(p.averages.average[RATE_5M]));
	assert_highest(&p, 50);
	advance(&p, 1, 8);
	assert_averages(&p, 8, 8);
	advance_often(&p, 80, 1, NAN);
	assert_true(isnan(rate_averages_highest(&p.averages)));
}

/* --- in a totals */

static char name[] = "context_switches", text[] = "context-switches", pmu_name[] = "software";

static struct event software_event = { .metric = name, .text = text, .pmu = pmu_name, .scale = 1 };

static char group_name[] = "work";
static const struct group group = { .name = group_name };

/* A plan of one event per CPU, that counts nothing: on the PMU, where it is not exact. */
static struct plan *make_plan(bool exact)
{
	struct plan *plan = calloc(1, sizeof(*plan));
	struct scope_plan *scope;

	assert_non_null(plan);
	plan->refs = 1;
	scope = &plan->scope[SCOPE_CPU];
	scope->columns = calloc(1, sizeof(struct column));
	scope->sets = calloc(1, sizeof(struct set));
	assert_true(scope->columns && scope->sets);
	scope->columns[0] = (struct column){
		.scope = SCOPE_CPU,
		.group = &group,
		.event = &software_event,
		.set = 0,
	};
	scope->sets[0] = (struct set){ .group = &group, .exact = exact, .columns = calloc(1, sizeof(size_t)), .nr = 1 };
	assert_non_null(scope->sets[0].columns);
	scope->nr_columns = scope->nr_sets = 1;
	return plan;
}

static struct totals_row *take_cpu(struct totals *totals, int cpu)
{
	struct totals_row *row;

	assert_int_equal(totals_take(totals, SCOPE_CPU, cpu, NULL, &row), 0);
	row->cells[0].measured = true;
	return row;
}

/* The peak of the sum is not the sum of the peaks: one CPU was busy after the other. */
static void test_all_cpus_together(void **state)
{
	struct plan *plan = make_plan(true);
	_cleanup_(totals_freep) struct totals *totals = NULL, *next = NULL;
	struct cpulist cpus = {};
	struct totals_row *rows[2];

	(void)state;
	assert_int_equal(totals_new(&totals, plan, 1), 0);
	rows[0] = take_cpu(totals, 0);
	rows[1] = take_cpu(totals, 1);
	totals_tick(totals, 100 * SECOND);
	assert_true(isnan(rows[0]->rates[0].averages.average[RATE_1M]));
	for (unsigned i = 0; i < 2; i++) {
		totals_note_change(rows[i]);
		rows[i]->cells[0].total += 1000;
		totals_tick(totals, (102 + 2 * i) * SECOND);
	}
	assert_near((double)rate_averages_highest(&rows[0]->rates[0].averages), 500);
	assert_near((double)rate_averages_highest(&rows[1]->rates[0].averages), 500);
	assert_near((double)rows[0]->rates[0].averages.average[RATE_1M], 250);
	assert_near((double)rate_averages_highest(&totals->all_cpus[0].averages), 500);
	assert_near((double)totals->all_cpus[0].averages.average[RATE_5M], 500);

	/* A reload that counts the same goes on with all of it. */
	assert_int_equal(totals_new(&next, plan, 1), 0);
	rows[0] = take_cpu(next, 0);
	assert_int_equal(totals_carry(next, totals, false, &cpus, 104 * SECOND), 0);
	assert_near((double)rate_averages_highest(&rows[0]->rates[0].averages), 500);
	assert_near((double)rate_averages_highest(&next->all_cpus[0].averages), 500);
	totals_note_change(rows[0]);
	rows[0]->cells[0].total += 50;
	totals_tick(next, 105 * SECOND);
	assert_near(rows[0]->rates[0].rate, 50);
	assert_near((double)rows[0]->rates[0].averages.average[RATE_1M], 210);

	/* The event is the test's own. */
	totals = totals_free(totals);
	next = totals_free(next);
	plan_unref(plan);
}

/* A second of a row's set on one CPU. Without the PMU, covers is 0: counts come later, with all the seconds they are
 * of. */
static void run_set(struct totals_row *row, uint64_t covers, uint64_t counts)
{
	totals_note_change(row);
	row->times[0].enabled += SECOND;
	row->times[0].running += covers ? SECOND : 0;
	row->times[0].covered += covers * SECOND;
	row->cells[0].total += counts;
}

static void assert_all(const struct totals_row *row, double rate, double average, double highest)
{
	const struct totals_rate *is = &row->rates[0];

	assert_int_equal(isnan(is->rate), isnan(rate));
	if (!isnan(rate))
		assert_near(is->rate, rate);
	assert_near((double)is->averages.average[RATE_1M], average);
	assert_near((double)is->averages.average[RATE_5M], average);
	assert_int_equal(isnan(rate_averages_highest(&is->averages)), isnan(highest));
	if (!isnan(highest))
		assert_near((double)rate_averages_highest(&is->averages), highest);
}

/* A row in a totals that has just begun. */
static struct totals_row *begin_row(struct totals **ret, struct plan *plan, uint64_t now)
{
	struct totals_row *row;

	assert_int_equal(totals_new(ret, plan, 1), 0);
	row = take_cpu(*ret, 0);
	totals_tick(*ret, now);
	return row;
}

/* Another has the PMU for a while: what is counted in it, by estimate, comes at once when that is over. */
static void test_waiting(void **state)
{
	struct plan *plan = make_plan(false);
	_cleanup_(totals_freep) struct totals *totals = NULL;
	uint64_t now = 1000 * SECOND;
	struct totals_row *row = begin_row(&totals, plan, now);

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 30; i++) {
			run_set(row, 1, 100);
			totals_tick(totals, now += SECOND);
		}
		assert_all(row, 100, 100, 100);
		for (int i = 0; i < 90; i++) {
			run_set(row, 0, 0);
			totals_tick(totals, now += SECOND);
		}
		assert_all(row, NAN, 100, NAN);
		assert_true(isnan(rate_averages_highest(&totals->all_cpus[0].averages)));
		/* Where it is not enabled, nothing is waited for; counts come when it runs. */
		for (int i = 0; i < 2 * round; i++)
			totals_tick(totals, now += SECOND);
		if (round == 1)
			assert_near(row->rates[0].rate, 0);
		run_set(row, 91, (uint64_t)91 * 100);
		totals_tick(totals, now += SECOND);
		assert_near(row->rates[0].rate, 100);
		assert_near((double)rate_averages_highest(&row->rates[0].averages), 100);
		if (round == 0)
			assert_all(row, 100, 100, 100);
		assert_near((double)rate_averages_highest(&totals->all_cpus[0].averages), 100);
	}

	/* The averages know how long it was. */
	for (int i = 0; i < 60; i++) {
		run_set(row, 0, 0);
		totals_tick(totals, now += SECOND);
	}
	run_set(row, 61, 0);
	totals_tick(totals, now += SECOND);
	assert_true((double)row->rates[0].averages.average[RATE_1M] < 40);
	assert_true((double)totals->all_cpus[0].averages.average[RATE_1M] < 40);

	totals = totals_free(totals);
	plan_unref(plan);
}

/* Intervals of 20 ms, of which a share can be told for three together: the last rate stands until then, and averages
 * are of the whole. A longer wait is one. */
static void test_brief_intervals(void **state)
{
	struct plan *plan = make_plan(false);
	_cleanup_(totals_freep) struct totals *totals = NULL;
	const uint64_t step = SECOND / 50;
	uint64_t now = 1000 * SECOND;
	struct totals_row *row = begin_row(&totals, plan, now);

	(void)state;
	for (uint64_t i = 1; i <= 300; i++) {
		uint64_t counts = i <= 150 ? 6 : 12;

		row->times[0].enabled += step;
		row->times[0].running += step / 2;
		row->times[0].covered += i % 3 ? 0 : 3 * step;
		row->cells[0].total += i % 3 ? 0 : counts;
		totals_tick(totals, now += step);
		if (i < 3)
			assert_true(isnan(row->rates[0].rate));
		else
			assert_near(row->rates[0].rate, i < 153 ? 100 : 200);
	}
	assert_near((double)row->rates[0].averages.average[RATE_1M], 150);
	assert_near((double)totals->all_cpus[0].averages.average[RATE_1M], 150);
	assert_near((double)rate_averages_highest(&row->rates[0].averages), 200);
	for (uint64_t i = 1; i <= 6; i++) {
		row->times[0].enabled += step;
		totals_tick(totals, now += step);
		assert_int_equal(isnan(row->rates[0].rate), i >= 5);
	}
	totals = totals_free(totals);
	plan_unref(plan);
}

/* A row of two CPUs, of which one waits: the other stands for it, and what comes at last is no burst. */
static void test_waiting_on_one_cpu(void **state)
{
	struct plan *plan = make_plan(false);
	_cleanup_(totals_freep) struct totals *totals = NULL;
	uint64_t now = 1000 * SECOND;
	struct totals_row *row = begin_row(&totals, plan, now);

	(void)state;
	for (uint64_t i = 1; i <= 120; i++) {
		bool waits = i % 60 != 0;

		run_set(row, 1, 100);
		run_set(row, waits ? 0 : 60, waits ? 0 : 6000);
		totals_tick(totals, now += SECOND);
		assert_all(row, 200, 200, 200);
	}
	assert_int_equal(row->cells[0].total, 24000);
	totals = totals_free(totals);
	plan_unref(plan);
}

/* --- rows that are left alone */

static void assert_same(const struct totals_row *row, const struct totals_row *other)
{
	struct rate_zeros zeros = totals_zeros(row), others = totals_zeros(other);
	const struct rate_averages a = totals_averages(row, 0, &zeros), b = totals_averages(other, 0, &others);

	assert_int_equal(isnan(row->rates[0].rate), isnan(other->rates[0].rate));
	if (!isnan(row->rates[0].rate))
		assert_true(row->rates[0].rate == other->rates[0].rate);
	for (int i = 0; i < _RATE_MAX; i++) {
		assert_int_equal(isnan(a.average[i]), isnan(b.average[i]));
		if (!isnan(a.average[i]) &&
		    !(fabs((double)(a.average[i] - b.average[i])) <= fmax(1e-4 * (double)b.average[i], 1e-30)))
			fail_msg("%g is not %g", (double)a.average[i], (double)b.average[i]);
	}
	assert_int_equal(isnan(rate_averages_highest(&a)), isnan(rate_averages_highest(&b)));
	if (!isnan(rate_averages_highest(&a)))
		assert_true(rate_averages_highest(&a) == rate_averages_highest(&b));
}

/* Now and then rows run, end to be measured, or have a gap. One of two is looked at in each interval. */
static void play_rows(double interval, unsigned idle, bool exact)
{
	struct plan *plan = make_plan(exact);
	_cleanup_(totals_freep) struct totals *totals = NULL;
	uint64_t now = 1000 * SECOND;
	struct totals_row *row, *other;
	size_t left_alone = 0;

	assert_int_equal(totals_new(&totals, plan, 1), 0);
	row = take_cpu(totals, 0);
	other = take_cpu(totals, 1);
	for (unsigned i = 0; i < 4 * idle + 20; i++) {
		unsigned part = i / (idle + 5), at = i % (idle + 5);

		if (at < 5 && part != 3) {
			run_set(row, 1, 100 * at);
			run_set(other, 1, 100 * at);
		}
		for (int k = 0; k < 2; k++) {
			struct totals_row *each = k ? other : row;

			if (part == 1 && at == idle)
				totals_unmeasure(totals, each);
			if (part == 2 && at == 3)
				totals_decide(each, &plan->scope[SCOPE_CPU], 0, 1U << OBSERVED_RUNNING);
			if (part == 2 && at == idle)
				totals_note_gap(totals, each->cpu);
		}
		totals_note_change(other);
		totals_tick(totals, now += (uint64_t)(interval * 1e9));
		left_alone += row->ticked != now;
		assert_same(row, other);
	}
	assert_true(left_alone > 3 * (idle - 3));
	totals = totals_free(totals);
	plan_unref(plan);
}

static void test_left_alone(void **state)
{
	static const double intervals[] = { 0.1, 1, 7, 12, 60, 600 };

	(void)state;
	for (size_t i = 0; i < sizeof(intervals) / sizeof(*intervals); i++)
		for (unsigned idle = 5; idle <= 500; idle *= 10) {
			play_rows(intervals[i], idle, true);
			play_rows(intervals[i], idle, false);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_known),
		cmocka_unit_test(test_a_beginning),
		cmocka_unit_test(test_steady),
		cmocka_unit_test(test_damping),
		cmocka_unit_test(test_a_long_interval),
		cmocka_unit_test(test_highest),
		cmocka_unit_test(test_highest_of_long_intervals),
		cmocka_unit_test(test_not_measured),
		cmocka_unit_test(test_all_cpus_together),
		cmocka_unit_test(test_waiting),
		cmocka_unit_test(test_waiting_on_one_cpu),
		cmocka_unit_test(test_brief_intervals),
		cmocka_unit_test(test_left_alone),
	};

	return cmocka_run_group_tests_name("trend", tests, NULL, NULL);
}
