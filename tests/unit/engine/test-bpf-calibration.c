/* SPDX-License-Identifier: MIT */

/* engine/bpf/calibration: what estimates get of the difference to what their CPU has counted, and when nothing, with
 * CPUs whose counts the test writes. */

#include "counting/engine/bpf/calibration.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define NS_PER_S 1000000000U

static struct credit_cpu cpus[2];
static struct bpf_calibration calibrations[2 * 3];
static struct bpf_kernel kernel = {
	.sizes = { .cpus = 2, .slots = 1, .events = 3, .sets = 2 },
	.cpus = cpus,
	.calibrations = calibrations,
};
static struct set planned[1] = { { .nr = 2 } };
static struct plan plan = { .scope[SCOPE_CGROUP] = { .sets = planned, .nr_sets = 1 } };
static struct bpf_set sets[1];
static struct bpf_engine engine;
static struct set_health health;

static int setup(void **state)
{
	(void)state;
	memset(cpus, 0, sizeof(cpus));
	health = (struct set_health){};
	memset(calibrations, 0, sizeof(calibrations));
	/* Not the first numbers. */
	sets[0] = (struct bpf_set){ .used = true, .number = 1, .first_event = 1 };
	engine = (struct bpf_engine){
		.engine.env = { .plan = &plan, .health[SCOPE_CGROUP] = &health },
		.kernel = &kernel,
		.sets = sets,
	};
	return 0;
}

/* So many seconds have passed, in which the CPU has counted so much, and ten times as much of the second event. */
static void pass(uint32_t cpu, double seconds, uint64_t counted)
{
	uint64_t ns = (uint64_t)(seconds * NS_PER_S);

	cpus[cpu].elapsed += ns;
	cpus[cpu].enabled[1] += ns;
	cpus[cpu].running[1] += ns;
	cpus[cpu].counted[1] += counted;
	cpus[cpu].counted[2] += 10 * counted;
}

/* In a part of that time it was not credited. */
static void pass_with_a_pause(uint32_t cpu, double seconds, uint64_t counted)
{
	pass(cpu, seconds, counted);
	cpus[cpu].nr_pauses++;
}

enum kind { COUNTED, ESTIMATED, PENDING };

/* A cgroup has so much coming. An estimate's doubt is as large as it is. */
static void add(uint32_t cpu, uint64_t count, double seconds, enum kind kind)
{
	const uint64_t counts[] = { count, 10 * count };
	const double doubts[] = { (double)count, 10 * (double)count };

	calibration_add(&engine, cpu, 0,
			&(struct bpf_coming){
				.counts = counts,
				.doubts = kind == COUNTED ? NULL : doubts,
				.covered = (uint64_t)(seconds * NS_PER_S),
				.pending = kind == PENDING,
			});
}

/* Gives it. Returns what has become of it; the second event's is as much. */
static uint64_t give(uint32_t cpu, uint64_t count, double seconds, enum kind kind)
{
	uint64_t counts[] = { count, 10 * count };
	const double doubts[] = { (double)count, 10 * (double)count };

	calibration_apply(&engine, cpu, 0, counts, kind == COUNTED ? NULL : doubts, (uint64_t)(seconds * NS_PER_S));
	assert_int_equal(counts[1], 10 * counts[0]);
	return counts[0];
}

/* The same of the first event alone, which is doubted so much. */
static void add_doubted(uint64_t count, double doubt, double seconds)
{
	calibration_add(&engine, 0, 0,
			&(struct bpf_coming){
				.counts = (uint64_t[]){ count, 0 },
				.doubts = (double[]){ doubt, 0 },
				.covered = (uint64_t)(seconds * NS_PER_S),
			});
}

static uint64_t give_doubted(uint64_t count, double doubt, double seconds)
{
	uint64_t counts[] = { count, 0 };

	calibration_apply(&engine, 0, 0, counts, (double[]){ doubt, 0 }, (uint64_t)(seconds * NS_PER_S));
	assert_int_equal(counts[1], 0);
	return counts[0];
}

/* Balances begin here: nothing is to be compared. */
static void begin_anew(uint32_t cpu)
{
	assert_false(calibration_begin(&engine, cpu, 0));
}

static void begin(uint32_t cpu)
{
	assert_true(calibration_begin(&engine, cpu, 0));
}

/* A reading of one estimate, which covers so much time. Returns what has become of it. */
static uint64_t read_one(uint32_t cpu, uint64_t estimate, double seconds)
{
	begin(cpu);
	add(cpu, estimate, seconds, ESTIMATED);
	calibration_end(&engine, cpu, 0);
	return give(cpu, estimate, seconds, ESTIMATED);
}

/* Exact counts stay, and estimates share the rest. */
static void test_adds_up(void **state)
{
	(void)state;
	cpus[0].counted[1] = 12345;
	cpus[0].counted[2] = 123450;
	begin_anew(0);
	assert_false(health.spared);
	pass_with_a_pause(0, 1, 1000);
	begin(0);
	assert_true(health.spared);
	add(0, 300, 0.3, COUNTED);
	add(0, 200, 0.3, ESTIMATED);
	add(0, 300, 0.4, ESTIMATED);
	calibration_end(&engine, 0, 0);
	assert_int_equal(give(0, 300, 0.3, COUNTED), 300);
	assert_int_equal(give(0, 200, 0.3, ESTIMATED), 280);
	assert_int_equal(give(0, 300, 0.4, ESTIMATED), 420);
}

/* The one that is doubted more gets more of the difference. */
static void test_doubts(void **state)
{
	static const struct {
		uint64_t count;
		double doubt;
		uint64_t given;
	} cases[] = { { 400, 100, 420 }, { 100, 400, 180 }, { 300, 0, 300 } };

	(void)state;
	begin_anew(0);
	pass_with_a_pause(0, 1, 900);
	begin(0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		add_doubted(cases[i].count, cases[i].doubt, 1.0 / 3);
	calibration_end(&engine, 0, 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(give_doubted(cases[i].count, cases[i].doubt, 1.0 / 3), cases[i].given);
}

/* Each event has a difference of its own. */
static void test_each_event(void **state)
{
	uint64_t counts[] = { 800, 1000 };
	const double doubts[] = { 1, 1 };

	(void)state;
	begin_anew(0);
	pass_with_a_pause(0, 1, 0);
	cpus[0].counted[1] = 1000;
	cpus[0].counted[2] = 900;
	begin(0);
	calibration_add(&engine, 0, 0, &(struct bpf_coming){ .counts = counts, .doubts = doubts, .covered = NS_PER_S });
	calibration_end(&engine, 0, 0);
	calibration_apply(&engine, 0, 0, counts, doubts, NS_PER_S);
	assert_int_equal(counts[0], 1000);
	assert_int_equal(counts[1], 900);
}

/* Two of which one is given at each reading. */
static void test_pending(void **state)
{
	(void)state;
	begin_anew(0);
	pass_with_a_pause(0, 1, 1000);
	begin(0);
	add(0, 400, 0.5, ESTIMATED);
	add(0, 400, 0.5, PENDING);
	calibration_end(&engine, 0, 0);
	assert_int_equal(give(0, 400, 0.5, ESTIMATED), 500);

	/* 500 remain in the balance, and 1000 are new. */
	pass_with_a_pause(0, 1, 1000);
	begin(0);
	add(0, 700, 1, ESTIMATED);
	add(0, 300, 0.5, PENDING);
	calibration_end(&engine, 0, 0);
	assert_int_equal(give(0, 700, 1, ESTIMATED), 1050);

	/* Also if there are no pauses any more: 450 remain. */
	pass(0, 1, 1000);
	begin(0);
	add(0, 1000, 1, COUNTED);
	add(0, 400, 0.5, ESTIMATED);
	calibration_end(&engine, 0, 0);
	assert_int_equal(give(0, 1000, 1, COUNTED), 1000);
	assert_int_equal(give(0, 400, 0.5, ESTIMATED), 450);
	pass(0, 1, 1000);
	begin_anew(0);
}

/* Between comparing and giving, a cgroup may have been observed for long enough: it is given now. */
static void test_pending_and_given(void **state)
{
	(void)state;
	begin_anew(0);
	pass_with_a_pause(0, 1, 1000);
	begin(0);
	add(0, 400, 0.5, ESTIMATED);
	add(0, 400, 0.5, PENDING);
	calibration_end(&engine, 0, 0);
	assert_int_equal(give(0, 400, 0.5, ESTIMATED), 500);
	assert_int_equal(give(0, 400, 0.5, ESTIMATED), 500);
	pass_with_a_pause(0, 1, 1000);
	assert_int_equal(read_one(0, 800, 1), 1000);
}

/* What a cgroup is given apart from readings is given, too. */
static void test_apart(void **state)
{
	const uint64_t counts[] = { 200, 2000 };

	(void)state;
	begin_anew(0);
	pass_with_a_pause(0, 1, 1000);
	calibration_note(&engine, 0, 0, counts, NS_PER_S / 4);
	assert_int_equal(read_one(0, 500, 0.75), 800);
	/* Of a set that is exact at all times, nothing is compared. */
	planned[0].exact = true;
	calibration_note(&engine, 0, 0, counts, NS_PER_S / 4);
	planned[0].exact = false;
	pass_with_a_pause(0, 1, 1000);
	assert_int_equal(read_one(0, 800, 1), 1000);
}

static void test_not_whole(void **state)
{
	(void)state;
	begin_anew(0);
	pass_with_a_pause(0, 1, 1000);
	assert_int_equal(read_one(0, 800, 0.98), 800);
	/* More than the time that has passed. */
	pass_with_a_pause(0, 1, 1000);
	assert_int_equal(read_one(0, 800, 1.05), 800);
	/* Within one percent: what is missing of the two before is given now. */
	pass_with_a_pause(0, 1, 1000);
	assert_int_equal(read_one(0, 1000, 0.975), 1400);
}

/* A difference is that of its reading alone. */
static void test_a_difference_ends(void **state)
{
	(void)state;
	begin_anew(0);
	pass_with_a_pause(0, 1, 1000);
	assert_int_equal(read_one(0, 800, 1), 1000);
	pass_with_a_pause(0, 1, 1000);
	assert_int_equal(read_one(0, 800, 0.5), 800);
}

static void test_patience(void **state)
{
	(void)state;
	begin_anew(0);
	pass_with_a_pause(0, 9, 9000);
	assert_int_equal(read_one(0, 4000, 5), 4000);
	/* This reading alone would be whole. */
	pass_with_a_pause(0, 0.5, 500);
	assert_int_equal(read_one(0, 400, 0.5), 400);
	/* The balance is given up, and a new one begins after this reading. */
	pass_with_a_pause(0, 1, 1000);
	assert_int_equal(read_one(0, 800, 0.5), 800);
	pass_with_a_pause(0, 1, 1000);
	assert_int_equal(read_one(0, 800, 1), 1000);
}

/* What is pending when a balance begins remains in it. */
static void test_pending_when_it_begins(void **state)
{
	(void)state;
	calibration_reset(&engine, 0);
	pass(0, 1, 5000);
	begin(0);
	add(0, 500, 0.5, COUNTED);
	add(0, 400, 0.5, PENDING);
	calibration_end(&engine, 0, 0);
	assert_int_equal(give(0, 500, 0.5, COUNTED), 500);
	pass(0, 0.5, 600);
	assert_int_equal(read_one(0, 800, 1), 1000);
}

/* What is beyond them comes from something else than chance: it is not given later, either. */
static void test_bounds(void **state)
{
	static const struct {
		uint64_t counted, estimate, applied;
	} cases[] = {
		{ 2000, 1000, 2000 }, { 2010, 1000, 1000 }, { 500, 1000, 500 }, { 490, 1000, 1000 },
		{ 0, 1000, 1000 },    { 1000, 0, 0 },	    { 800, 800, 800 },
	};

	(void)state;
	begin_anew(0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pass_with_a_pause(0, 1, cases[i].counted);
		assert_int_equal(read_one(0, cases[i].estimate, 1), cases[i].applied);
	}
}

/* Nor is one of many off by more. What it could not be given remains. */
static void test_bounds_of_one(void **state)
{
	(void)state;
	begin_anew(0);
	pass_with_a_pause(0, 1, 1300);
	begin(0);
	add_doubted(100, 1, 0.5);
	add_doubted(900, 0, 0.5);
	calibration_end(&engine, 0, 0);
	assert_int_equal(give_doubted(100, 1, 0.5), 200);
	assert_int_equal(give_doubted(900, 0, 0.5), 900);
	pass_with_a_pause(0, 1, 1000);
	begin(0);
	add_doubted(1000, 1, 1);
	calibration_end(&engine, 0, 0);
	assert_int_equal(give_doubted(1000, 1, 1), 1200);
}

/* Exact counts alone are more than the CPU's: nothing becomes less than nothing. */
static void test_too_many_exact(void **state)
{
	(void)state;
	begin_anew(0);
	pass_with_a_pause(0, 1, 1000);
	begin(0);
	add(0, 2000, 0.5, COUNTED);
	add(0, 100, 0.5, ESTIMATED);
	calibration_end(&engine, 0, 0);
	assert_int_equal(give(0, 2000, 0.5, COUNTED), 2000);
	assert_int_equal(give(0, 100, 0.5, ESTIMATED), 100);
}

/* Nothing is compared with what the CPU has counted in such a time. */
static void test_fully_observed(void **state)
{
	(void)state;
	begin_anew(0);
	for (int i = 0; i < 3; i++) {
		pass(0, 1, 777);
		begin_anew(0);
		assert_int_equal(give(0, 500, 1, COUNTED), 500);
	}
	pass_with_a_pause(0, 1, 1000);
	assert_int_equal(read_one(0, 800, 1), 1000);
	pass(0, 1, 777);
	begin_anew(0);
	assert_int_equal(give(0, 800, 1, COUNTED), 800);
}

/* A pause that goes on is one, also if none has begun. */
static void test_a_pause_goes_on(void **state)
{
	(void)state;
	begin_anew(0);
	cpus[0].pauses = 1;
	pass_with_a_pause(0, 1, 1000);
	assert_int_equal(read_one(0, 800, 1), 1000);
	cpus[0].pauses = 0;
	pass(0, 1, 1000);
	assert_int_equal(read_one(0, 900, 1), 1000);
	pass(0, 1, 1000);
	begin_anew(0);
}

/* The PMU is shared: the CPU's own count is scaled, over all that ran there. */
static void test_multiplexed(void **state)
{
	(void)state;
	begin_anew(0);
	pass(0, 1, 250);
	cpus[0].running[1] -= 3 * (uint64_t)NS_PER_S / 4;
	assert_int_equal(read_one(0, 800, 1), 1000);
}

/* It did not run there for a while: there is nothing to compare with until it does. */
static void test_did_not_run(void **state)
{
	(void)state;
	begin_anew(0);
	pass(0, 1, 0);
	cpus[0].running[1] = 0;
	assert_int_equal(read_one(0, 800, 1), 800);
	pass(0, 1, 1000);
	assert_int_equal(read_one(0, 800, 1), 1200);
}

static void test_each_cpu(void **state)
{
	(void)state;
	for (uint32_t cpu = 0; cpu < 2; cpu++)
		begin_anew(cpu);
	pass_with_a_pause(0, 1, 1000);
	pass_with_a_pause(1, 1, 3000);
	assert_int_equal(read_one(0, 800, 1), 1000);
	assert_int_equal(read_one(1, 2000, 1), 3000);
	/* A set begins anew on all. */
	calibration_reset(&engine, 0);
	for (uint32_t cpu = 0; cpu < 2; cpu++) {
		pass_with_a_pause(cpu, 1, 1000);
		assert_int_equal(read_one(cpu, 800, 1), 800);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_adds_up, setup),
		cmocka_unit_test_setup(test_doubts, setup),
		cmocka_unit_test_setup(test_each_event, setup),
		cmocka_unit_test_setup(test_pending, setup),
		cmocka_unit_test_setup(test_pending_and_given, setup),
		cmocka_unit_test_setup(test_apart, setup),
		cmocka_unit_test_setup(test_not_whole, setup),
		cmocka_unit_test_setup(test_a_difference_ends, setup),
		cmocka_unit_test_setup(test_patience, setup),
		cmocka_unit_test_setup(test_pending_when_it_begins, setup),
		cmocka_unit_test_setup(test_bounds, setup),
		cmocka_unit_test_setup(test_bounds_of_one, setup),
		cmocka_unit_test_setup(test_too_many_exact, setup),
		cmocka_unit_test_setup(test_fully_observed, setup),
		cmocka_unit_test_setup(test_a_pause_goes_on, setup),
		cmocka_unit_test_setup(test_multiplexed, setup),
		cmocka_unit_test_setup(test_did_not_run, setup),
		cmocka_unit_test_setup(test_each_cpu, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
