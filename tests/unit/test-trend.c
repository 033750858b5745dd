/* SPDX-License-Identifier: MIT */

/* Averages and highest rates, with a clock and counts that the test plays. */

#include "count/ledger.h"
#include "count/trend.h"

#include <errno.h>
#include <math.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND 1000000000ULL

/* A trend and its clock. */
struct played {
	struct trend trend;
	uint64_t now;
};

static struct played play(void)
{
	struct played p = { .now = 1000 * SECOND };

	trend_forget(&p.trend);
	return p;
}

static void advance(struct played *p, double seconds, double rate)
{
	uint64_t now = p->now + (uint64_t)(seconds * 1e9);
	struct trend_step step = trend_step_of(p->now, now);

	trend_add(&p->trend, &step, rate);
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
	assert_near((double)p->trend.average[TREND_1M], one);
	assert_near((double)p->trend.average[TREND_5M], five);
}

static void assert_highest(const struct played *p, double expected)
{
	assert_near((double)trend_highest(&p->trend), expected);
}

static void test_nothing_is_known(void **state)
{
	struct played p = play();
	struct trend_step none = trend_step_of(0, p.now), back = trend_step_of(p.now, p.now - 1);

	(void)state;
	assert_true(isnan(none.seconds) && isnan(back.seconds));
	trend_add(&p.trend, &none, NAN);
	assert_true(isnan(p.trend.average[TREND_1M]) && isnan(p.trend.average[TREND_5M]));
	assert_true(isnan(trend_highest(&p.trend)));
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
	assert_true(isnan(p.trend.average[TREND_1M]) && isnan(p.trend.average[TREND_5M]));
	assert_highest(&p, 50);
	advance(&p, 1, 8);
	assert_averages(&p, 8, 8);
	advance_often(&p, 80, 1, NAN);
	assert_true(isnan(trend_highest(&p.trend)));
}

/* --- in a ledger */

static char name[] = "context_switches", text[] = "context-switches", pmu_name[] = "software";

static struct event software_event = { .metric = name, .text = text, .pmu = pmu_name, .scale = 1 };

/* A plan of one event per CPU, that counts nothing. */
static struct plan *make_plan(void)
{
	struct plan *plan = calloc(1, sizeof(*plan));

	assert_non_null(plan);
	plan->refs = 1;
	plan->scope[SCOPE_CPU].columns = calloc(1, sizeof(struct column));
	assert_non_null(plan->scope[SCOPE_CPU].columns);
	plan->scope[SCOPE_CPU].columns[0] = (struct column){ .scope = SCOPE_CPU, .event = &software_event, .set = 0 };
	plan->scope[SCOPE_CPU].nr_columns = 1;
	return plan;
}

static struct row *take_cpu(struct ledger *ledger, int cpu)
{
	struct row *row;

	assert_int_equal(ledger_take(ledger, SCOPE_CPU, cpu, NULL, &row), 0);
	row->cells[0].measured = true;
	return row;
}

/* The peak of the sum is not the sum of the peaks: one CPU was busy after the other. */
static void test_all_cpus_together(void **state)
{
	struct plan *plan = make_plan();
	_cleanup_(ledger_freep) struct ledger *ledger = NULL, *next = NULL;
	struct cpulist cpus = {};
	struct row *rows[2];

	(void)state;
	assert_int_equal(ledger_new(&ledger, plan, 1), 0);
	rows[0] = take_cpu(ledger, 0);
	rows[1] = take_cpu(ledger, 1);
	ledger_tick(ledger, 100 * SECOND);
	assert_true(isnan(rows[0]->cells[0].trend.average[TREND_1M]));
	for (unsigned i = 0; i < 2; i++) {
		rows[i]->cells[0].total += 1000;
		ledger_tick(ledger, (102 + 2 * i) * SECOND);
	}
	assert_near((double)trend_highest(&rows[0]->cells[0].trend), 500);
	assert_near((double)trend_highest(&rows[1]->cells[0].trend), 500);
	assert_near((double)rows[0]->cells[0].trend.average[TREND_1M], 250);
	assert_near((double)trend_highest(&ledger->all_cpus[0]), 500);
	assert_near((double)ledger->all_cpus[0].average[TREND_5M], 500);

	/* A reload that counts the same goes on with all of it. */
	assert_int_equal(ledger_new(&next, plan, 1), 0);
	rows[0] = take_cpu(next, 0);
	assert_int_equal(ledger_carry(next, ledger, false, &cpus, 104 * SECOND), 0);
	assert_near((double)trend_highest(&rows[0]->cells[0].trend), 500);
	assert_near((double)trend_highest(&next->all_cpus[0]), 500);
	rows[0]->cells[0].total += 50;
	ledger_tick(next, 105 * SECOND);
	assert_near(rows[0]->cells[0].rate, 50);
	assert_near((double)rows[0]->cells[0].trend.average[TREND_1M], 210);

	/* The event is the test's own. */
	ledger = ledger_free(ledger);
	next = ledger_free(next);
	plan_unref(plan);
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
	};

	return cmocka_run_group_tests_name("trend", tests, NULL, NULL);
}
