/* SPDX-License-Identifier: MIT */

/* engine/bpf/calibration: by which factor estimates are multiplied, and when by none, with CPUs whose counts the test
 * writes. */

#include "engine/bpf/calibration.h"

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

static int setup(void **state)
{
	(void)state;
	memset(cpus, 0, sizeof(cpus));
	memset(calibrations, 0, sizeof(calibrations));
	/* Not the first numbers. */
	sets[0] = (struct bpf_set){ .used = true, .number = 1, .first_event = 1 };
	engine = (struct bpf_engine){
		.engine.env.plan = &plan,
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

static void add(uint32_t cpu, uint64_t count, double seconds, bool scaled)
{
	const uint64_t counts[] = { count, 10 * count };

	calibration_add(&engine, cpu, 0, counts, (uint64_t)(seconds * NS_PER_S), scaled);
}

/* Comparisons begin here. */
static void begin_anew(uint32_t cpu)
{
	assert_false(calibration_begin(&engine, cpu, 0));
}

/* A reading of one estimate, which covers so much time. */
static void read_one(uint32_t cpu, uint64_t estimate, double seconds)
{
	assert_true(calibration_begin(&engine, cpu, 0));
	add(cpu, estimate, seconds, true);
	calibration_end(&engine, cpu, 0);
}

/* What becomes of an estimate; the second event's is as much. */
static uint64_t applied(uint32_t cpu, uint64_t estimate)
{
	uint64_t counts[] = { estimate, 10 * estimate };

	calibration_apply(&engine, cpu, 0, counts);
	assert_int_equal(counts[1], 10 * counts[0]);
	return counts[0];
}

/* Exact counts stay, and estimates share the rest. */
static void test_adds_up(void **state)
{
	(void)state;
	cpus[0].counted[1] = 12345;
	begin_anew(0);
	pass_with_a_pause(0, 1, 1000);
	assert_true(calibration_begin(&engine, 0, 0));
	add(0, 300, 0.3, false);
	add(0, 200, 0.3, true);
	add(0, 300, 0.4, true);
	calibration_end(&engine, 0, 0);
	assert_int_equal(applied(0, 200), 280);
	assert_int_equal(applied(0, 300), 420);
}

/* Each event has a factor of its own. */
static void test_each_event(void **state)
{
	const uint64_t estimated[] = { 800, 1000 };
	uint64_t counts[] = { 800, 1000 };

	(void)state;
	begin_anew(0);
	pass_with_a_pause(0, 1, 0);
	cpus[0].counted[1] = 1000;
	cpus[0].counted[2] = 900;
	assert_true(calibration_begin(&engine, 0, 0));
	calibration_add(&engine, 0, 0, estimated, NS_PER_S, true);
	calibration_end(&engine, 0, 0);
	calibration_apply(&engine, 0, 0, counts);
	assert_int_equal(counts[0], 1000);
	assert_int_equal(counts[1], 900);
}

/* Some come with a later reading. What was given before is given. */
static void test_over_readings(void **state)
{
	(void)state;
	begin_anew(0);
	pass_with_a_pause(0, 1, 500);
	read_one(0, 400, 0.5);
	assert_int_equal(applied(0, 400), 400);
	pass(0, 1, 500);
	read_one(0, 500, 1.5);
	assert_int_equal(applied(0, 500), 600);
	/* The next comparison knows nothing of it. */
	pass_with_a_pause(0, 1, 1000);
	read_one(0, 800, 1);
	assert_int_equal(applied(0, 800), 1000);
}

static void pend(uint32_t cpu, uint64_t count, double seconds)
{
	const uint64_t counts[] = { count, 10 * count };

	calibration_pend(&engine, cpu, 0, counts, (uint64_t)(seconds * NS_PER_S));
}

/* Two of which one is given in each reading: each comparison is whole. */
static void test_pending(void **state)
{
	(void)state;
	begin_anew(0);
	pass_with_a_pause(0, 1, 1000);
	assert_true(calibration_begin(&engine, 0, 0));
	add(0, 400, 0.5, true);
	pend(0, 400, 0.5);
	calibration_end(&engine, 0, 0);
	assert_int_equal(applied(0, 400), 500);

	/* It is owed, and given now. */
	pass_with_a_pause(0, 1, 1000);
	assert_true(calibration_begin(&engine, 0, 0));
	add(0, 700, 1, true);
	pend(0, 300, 0.5);
	calibration_end(&engine, 0, 0);
	assert_int_equal(applied(0, 700), 1050);

	/* Also if there are no pauses any more: 450 are owed. */
	pass(0, 1, 1000);
	assert_true(calibration_begin(&engine, 0, 0));
	add(0, 1000, 1, false);
	add(0, 400, 0.5, true);
	calibration_end(&engine, 0, 0);
	assert_int_equal(applied(0, 400), 450);
	pass(0, 1, 1000);
	assert_false(calibration_begin(&engine, 0, 0));
}

/* Without a factor, it is owed as it was estimated. */
static void test_pending_without_a_factor(void **state)
{
	(void)state;
	begin_anew(0);
	pass_with_a_pause(0, 1, 5000);
	assert_true(calibration_begin(&engine, 0, 0));
	add(0, 400, 0.5, true);
	pend(0, 400, 0.5);
	calibration_end(&engine, 0, 0);
	assert_int_equal(applied(0, 400), 400);
	pass_with_a_pause(0, 0.5, 600);
	read_one(0, 800, 1);
	assert_int_equal(applied(0, 800), 1000);
}

/* What a cgroup is given apart from readings is given, too. */
static void test_apart(void **state)
{
	const uint64_t counts[] = { 200, 2000 };

	(void)state;
	begin_anew(0);
	pass_with_a_pause(0, 1, 1000);
	calibration_note(&engine, 0, 0, counts, NS_PER_S / 4);
	read_one(0, 500, 0.75);
	assert_int_equal(applied(0, 500), 800);
	/* Of a set that is exact at all times, nothing is compared. */
	planned[0].exact = true;
	calibration_note(&engine, 0, 0, counts, NS_PER_S / 4);
	planned[0].exact = false;
	pass_with_a_pause(0, 1, 1000);
	read_one(0, 800, 1);
	assert_int_equal(applied(0, 800), 1000);
}

static void test_not_whole(void **state)
{
	(void)state;
	begin_anew(0);
	pass_with_a_pause(0, 1, 1000);
	read_one(0, 800, 0.98);
	assert_int_equal(applied(0, 800), 800);
	/* More than the time that has passed. */
	pass(0, 1, 1000);
	read_one(0, 800, 1.05);
	assert_int_equal(applied(0, 800), 800);
	/* Within one percent. */
	pass(0, 1, 1000);
	read_one(0, 1000, 0.995);
	assert_int_equal(applied(0, 1000), 1400);
}

/* A factor is that of its reading alone. */
static void test_a_factor_ends(void **state)
{
	(void)state;
	begin_anew(0);
	pass_with_a_pause(0, 1, 1000);
	read_one(0, 800, 1);
	assert_int_equal(applied(0, 800), 1000);
	pass_with_a_pause(0, 1, 1000);
	read_one(0, 800, 0.5);
	assert_int_equal(applied(0, 800), 800);
}

static void test_patience(void **state)
{
	(void)state;
	begin_anew(0);
	pass_with_a_pause(0, 9, 9000);
	read_one(0, 4000, 5);
	/* It goes on: this reading alone would be whole. */
	pass_with_a_pause(0, 0.5, 500);
	read_one(0, 400, 0.5);
	assert_int_equal(applied(0, 400), 400);
	/* It is given up, and the next one is whole. */
	pass_with_a_pause(0, 1, 1000);
	read_one(0, 800, 0.5);
	assert_int_equal(applied(0, 800), 800);
	pass_with_a_pause(0, 1, 1000);
	read_one(0, 800, 1);
	assert_int_equal(applied(0, 800), 1000);
}

/* What is beyond them comes from something else than chance. */
static void test_bounds(void **state)
{
	static const struct {
		uint64_t counted, estimate, applied;
	} cases[] = {
		{ 2000, 1000, 2000 }, { 2010, 1000, 1000 }, { 500, 1000, 500 },
		{ 490, 1000, 1000 },  { 0, 1000, 1000 },    { 1000, 0, 0 },
	};

	(void)state;
	begin_anew(0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pass_with_a_pause(0, 1, cases[i].counted);
		read_one(0, cases[i].estimate, 1);
		assert_int_equal(applied(0, cases[i].estimate), cases[i].applied);
	}
}

/* Exact counts alone are more than the CPU's: nothing is multiplied by a number below 0. */
static void test_too_many_exact(void **state)
{
	(void)state;
	begin_anew(0);
	pass_with_a_pause(0, 1, 1000);
	assert_true(calibration_begin(&engine, 0, 0));
	add(0, 2000, 0.5, false);
	add(0, 100, 0.5, true);
	calibration_end(&engine, 0, 0);
	assert_int_equal(applied(0, 100), 100);
}

/* Nothing is compared with what the CPU has counted in such a time. */
static void test_fully_observed(void **state)
{
	(void)state;
	begin_anew(0);
	for (int i = 0; i < 3; i++) {
		pass(0, 1, 777);
		assert_false(calibration_begin(&engine, 0, 0));
		assert_int_equal(applied(0, 500), 500);
	}
	pass_with_a_pause(0, 1, 1000);
	read_one(0, 800, 1);
	assert_int_equal(applied(0, 800), 1000);
	pass(0, 1, 777);
	assert_false(calibration_begin(&engine, 0, 0));
	assert_int_equal(applied(0, 800), 800);
}

/* A pause that goes on is one, also if none has begun. */
static void test_a_pause_goes_on(void **state)
{
	(void)state;
	begin_anew(0);
	cpus[0].pauses = 1;
	pass_with_a_pause(0, 1, 1000);
	read_one(0, 800, 1);
	assert_int_equal(applied(0, 800), 1000);
	cpus[0].pauses = 0;
	pass(0, 1, 1000);
	read_one(0, 900, 1);
	assert_int_equal(applied(0, 900), 1000);
	pass(0, 1, 1000);
	assert_false(calibration_begin(&engine, 0, 0));
}

/* The PMU is shared: the CPU's own count is scaled, over all that ran there. */
static void test_multiplexed(void **state)
{
	(void)state;
	begin_anew(0);
	pass(0, 1, 250);
	cpus[0].running[1] -= 3 * (uint64_t)NS_PER_S / 4;
	read_one(0, 800, 1);
	assert_int_equal(applied(0, 800), 1000);
}

/* It did not run there at all: there is nothing to compare with. */
static void test_never_ran(void **state)
{
	(void)state;
	begin_anew(0);
	pass(0, 1, 0);
	cpus[0].running[1] = 0;
	read_one(0, 800, 1);
	assert_int_equal(applied(0, 800), 800);
}

static void test_each_cpu(void **state)
{
	(void)state;
	for (uint32_t cpu = 0; cpu < 2; cpu++)
		begin_anew(cpu);
	pass_with_a_pause(0, 1, 1000);
	pass_with_a_pause(1, 1, 3000);
	read_one(0, 800, 1);
	read_one(1, 2000, 1);
	assert_int_equal(applied(0, 800), 1000);
	assert_int_equal(applied(1, 800), 1200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_adds_up, setup),
		cmocka_unit_test_setup(test_each_event, setup),
		cmocka_unit_test_setup(test_over_readings, setup),
		cmocka_unit_test_setup(test_apart, setup),
		cmocka_unit_test_setup(test_not_whole, setup),
		cmocka_unit_test_setup(test_a_factor_ends, setup),
		cmocka_unit_test_setup(test_patience, setup),
		cmocka_unit_test_setup(test_bounds, setup),
		cmocka_unit_test_setup(test_too_many_exact, setup),
		cmocka_unit_test_setup(test_fully_observed, setup),
		cmocka_unit_test_setup(test_a_pause_goes_on, setup),
		cmocka_unit_test_setup(test_multiplexed, setup),
		cmocka_unit_test_setup(test_never_ran, setup),
		cmocka_unit_test_setup(test_each_cpu, setup),
		cmocka_unit_test_setup(test_pending, setup),
		cmocka_unit_test_setup(test_pending_without_a_factor, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
