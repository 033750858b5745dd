/* SPDX-License-Identifier: MIT */

/* engine/bpf/slots and what it is made of: who gets the counts of cells. */

#include "base/cgroup/identity.h"
#include "counting/engine/bpf/chunks.h"
#include "counting/engine/bpf/conservation.h"
#include "counting/engine/bpf/slot-bits.h"
#include "counting/engine/bpf/slots.h"
#include "counting/engine/bpf/unclaimed.h"
#include "setup/slots-machine.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const uint64_t below_10[] = { 10, 1 };

static void test_ancestors(void **state)
{
	(void)state;
	played_add_target(1);
	played_add_target(10);
	played_add_target(11);
	played_add_slot(11, below_10, 2);
	played_add_slot(12, below_10, 2);
	played_run(11, 0, 10 * MS, 10 * MS, 500);
	played_run(12, 1, 20 * MS, 20 * MS, 700);
	played_read();
	assert_int_equal(played_total(11, 0), 500);
	assert_int_equal(played_total(11, 1), 1000);
	assert_int_equal(played_total(11, 2), 10000);
	assert_int_equal(played_total(10, 0), 1200);
	assert_int_equal(played_total(10, 2), 30000);
	/* The root's are the CPUs'. */
	assert_int_equal(played_total(1, 0), 0);
	/* Nothing is added twice. */
	played_read();
	played_read();
	assert_int_equal(played_total(10, 0), 1200);
	assert_true(played_is_measured(11, 0));
}

/* A slot of which all is known is not passed over, until something changes. */
static void test_settled(void **state)
{
	(void)state;
	played_add_target(1);
	played_add_target(10);
	played_add_slot(11, below_10, 2);
	played_add_slot(10, below_10 + 1, 1);
	played_run(10, 0, MS, MS, 100);
	played_run(11, 0, MS, MS, 10);
	played_read();
	assert_int_equal(slot_count_taken(&played->kernel), 3);
	assert_false(slot_bit(played->unsettled, CREDIT_ROOT_SLOT));
	assert_false(slot_bit(played->unsettled, 10));
	assert_true(slot_bit(played->unsettled, 11));
	played_add_target(11);
	played_read();
	assert_false(slot_bit(played->unsettled, 11));
	/* Its counts are kept for it from now on, also if they are read before all are. */
	bpf_target_free(&played->engine, bpf_target_find(&played->engine, 11));
	played_run(11, 0, MS, MS, 5);
	played->kernel.settled_changed = false;
	slots_read_below(&played->engine, 11);
	assert_true(slot_bit(played->unsettled, 11));
	assert_true(played->kernel.settled_changed);
	played_end(10);
	played_read();
	played->kernel.nr_images++;
	played_read();
	assert_false(slot_bit(played->taken, 10));
	assert_false(slot_bit(played->unsettled, 10));
	assert_int_equal(slot_next(&played->kernel, played->unsettled, 0), 11);
	assert_int_equal(slot_next(&played->kernel, played->unsettled, 12), NR_SLOTS);
	assert_int_equal(slot_count_taken(&played->kernel), 2);
}

/* Targets come and go between readings, of which each begins with the family that the one before ended with. */
static void test_families(void **state)
{
	static const uint64_t below_20[] = { 20, 10, 1 };

	(void)state;
	played_add_target(1);
	played_add_target(10);
	played_add_slot(11, below_20, 3);
	played_add_slot(12, below_10, 2);
	played_add_slot(13, below_20, 3);
	for (uint64_t id = 11; id < 14; id++)
		played_run(id, 0, MS, MS, 100);
	played_read();
	assert_int_equal(played_total(10, 0), 300);
	/* It gets what its children have counted so far, too. */
	played_add_target(20);
	for (uint64_t id = 11; id < 14; id++)
		played_run(id, 0, MS, MS, 10);
	played_read();
	assert_int_equal(played_total(10, 0), 330);
	assert_int_equal(played_total(20, 0), 220);
	bpf_target_free(&played->engine, bpf_target_find(&played->engine, 20));
	for (uint64_t id = 11; id < 14; id++)
		played_run(id, 0, MS, MS, 1);
	played_read();
	assert_int_equal(played_total(10, 0), 333);
	assert_int_equal(played_total(20, 0), 220);
}

/* The programs have read the limited set so often for the cgroup, on CPU 0. */
static void add_readings(uint64_t id, uint64_t nr)
{
	played->cells[0][id][CREDIT_CELL_READINGS(LIMITED)] += nr;
}

/* What they count by that, they have not counted in the pauses. */
static void test_readings_are_not_scaled(void **state)
{
	(void)state;
	played_add_target(1);
	played_add_target(10);
	played_add_slot(10, below_10 + 1, 1);
	/* Of the first event it is known: 20 a reading. */
	played->cpus[0].again[0] = 10;
	played->cpus[0].repeated[0] = 200;

	played_run(10, 0, 100 * MS, 10 * MS, 500);
	add_readings(10, 3);
	played_read();
	assert_int_equal(played_total(10, 0), (500 - 60) * 10 + 60);
	assert_int_equal(played_total(10, 1), 10000);

	/* These are over. Those of a stretch that is too short to be scaled are the next one's. */
	played_run(10, 0, 10 * MS, MS / 2, 25);
	add_readings(10, 1);
	played_read();
	played_run(10, 0, 90 * MS, 9 * MS + MS / 2, 475);
	add_readings(10, 1);
	played_read();
	assert_int_equal(played_total(10, 0), (500 - 60) * 10 + 60 + (500 - 40) * 10 + 40);

	/* All that was observed is as it was counted. */
	played_run(10, 0, 100 * MS, 100 * MS, 500);
	add_readings(10, 5);
	played_read();
	assert_int_equal(played_total(10, 0), (500 - 60) * 10 + 60 + (500 - 40) * 10 + 40 + 500);

	/* Readings can't make more of it than was counted. */
	played_run(10, 0, 100 * MS, 50 * MS, 30);
	add_readings(10, 5);
	played_read();
	assert_int_equal(played_total(10, 0), (500 - 60) * 10 + 60 + (500 - 40) * 10 + 40 + 500 + 30);
}

/* It gets all when it becomes a target, on the rows of its CPUs; and so does one between. */
static void test_unclaimed(void **state)
{
	const uint64_t ancestors[] = { 20, 10, 1 };

	(void)state;
	played_add_target(10);
	played_add_slot(21, ancestors, 3);
	played_run(21, 1, 10 * MS, 10 * MS, 300);
	played_read();
	assert_int_equal(played_total(10, 0), 300);
	played_add_target(20);
	played_read();
	assert_int_equal(played_total(20, 0), 300);
	played_run(21, 0, 10 * MS, 10 * MS, 50);
	played_read();
	assert_int_equal(played_total(20, 0), 350);
	played_add_target_by_cpu(21, NR_CPUS);
	played_read();
	assert_int_equal(played->rows[21][0].cells[0].total, 50);
	assert_int_equal(played->rows[21][1].cells[0].total, 300);
	assert_int_equal(played_total(20, 0), 350);
	assert_int_equal(played_total(10, 0), 350);
}

/* The next plan counts other CPUs: what was kept is of the same CPU as before. */
static void test_unclaimed_over_a_change_of_cpus(void **state)
{
	(void)state;
	played_add_target(10);
	played_add_slot(11, below_10, 2);
	played_run(11, 1, 10 * MS, 10 * MS, 300);
	played_read();
	cpulist_release(&played->engine.cpus);
	assert_int_equal(cpulist_add(&played->engine.cpus, 1), 0);
	assert_int_equal(cpulist_add(&played->engine.cpus, 5), 0);
	played_add_target_by_cpu(11, NR_CPUS);
	played_read();
	assert_int_equal(played->rows[11][0].cells[0].total, 300);
	assert_int_equal(played->rows[11][1].cells[0].total, 0);
}

/* It ran in a pause before it was a target: that is no 0. */
static void test_unclaimed_and_unobserved(void **state)
{
	(void)state;
	played_add_target(10);
	played_add_slot(11, below_10, 2);
	played_run(11, 0, 10 * MS, 0, 0);
	played_read();
	played_add_target(11);
	played_read();
	assert_false(played_is_measured(11, 0));
	assert_true(played_is_measured(11, 2));
	assert_int_equal(played_total(11, 2), 10000);
	/* Scaled over all that it ran, once. */
	played_run_in(SHARE_ENOUGH, 11, 90 * MS, 50 * MS, 5000);
	played_read();
	assert_true(played_is_measured(11, 0));
	assert_int_equal(played_total(11, 0), 10000);
	assert_int_equal(played->rows[11][0].times[LIMITED].covered, 100 * MS);
}

/* The rows of other CPUs have nothing of a set that is counted on one alone. */
/* Few stretches are no estimate, until there are enough of them; nothing of what they tell is lost. */
static void test_few_stretches(void **state)
{
	(void)state;
	played_add_target(10);
	played_add_slot(11, below_10, 2);
	played_add_slot(12, below_10, 2);
	played_add_slot(13, below_10, 2);
	played_add_target(12);
	played_add_target(13);
	played_run_in(SHARE_ENOUGH / 2, 11, 100 * MS, 5 * MS, 5);
	played_run_in(SHARE_ENOUGH / 2, 12, 100 * MS, 5 * MS, 5);
	played_run_in(1, 13, 100 * MS, 100 * MS, 50);
	played_read();
	/* Also of one that was no target yet. */
	played_add_target(11);
	played_read();
	assert_false(played_is_measured(11, 0));
	assert_false(played_is_measured(12, 0));
	/* All of this one was observed; and of the sum, enough. */
	assert_true(played_is_measured(13, 0));
	assert_true(played_is_measured(10, 0));
	assert_int_equal(played_total(10, 0), 250);
	played_run_in(SHARE_ENOUGH / 2, 11, 100 * MS, 5 * MS, 5);
	/* As this is all observed, it would be enough without what was before it. */
	played_run_in(SHARE_ENOUGH / 2 - 1, 12, 4 * MS, 4 * MS, 4);
	played_read();
	assert_true(played_is_measured(11, 0));
	assert_int_equal(played_total(11, 0), 200);
	assert_false(played_is_measured(12, 0));
	/* A long stretch is as good as many. */
	played_run_in(0, 12, 400 * MS, 195 * MS, 195);
	played_read();
	assert_true(played_is_measured(12, 0));
	assert_int_equal(played_total(12, 0), 504);
}

static void test_set_on_one_cpu(void **state)
{
	(void)state;
	played->sets[LIMITED].cpus.nr = 1;
	played_add_target_by_cpu(11, NR_CPUS);
	played_add_target(12);
	played_add_slot(11, below_10, 2);
	played_run(11, 0, 10 * MS, 10 * MS, 500);
	played_read();
	assert_true(played_is_measured_on(11, 0, 0) && played_is_measured_on(11, 0, 1) &&
		    played_is_measured_on(11, 0, 2));
	assert_false(played_is_measured_on(11, 1, 0) || played_is_measured_on(11, 1, 1));
	assert_true(played_is_measured_on(11, 1, 2));
	assert_true(played_is_measured(12, 0));
}

/* What was observed on one CPU is not known of the other, where it ran in a pause; and where it never ran, it is a true
 * 0. */
static void test_unobserved_on_one_cpu(void **state)
{
	(void)state;
	played_add_target_by_cpu(11, NR_CPUS);
	played_add_slot(11, below_10, 2);
	played_run(11, 0, 10 * MS, 10 * MS, 500);
	played_read();
	assert_true(played_is_measured_on(11, 0, 0) && played_is_measured_on(11, 1, 0));
	played_run(11, 1, 10 * MS, 0, 0);
	played_read();
	assert_true(played_is_measured_on(11, 0, 0));
	assert_false(played_is_measured_on(11, 1, 0) || played_is_measured_on(11, 1, 1));
	assert_true(played_is_measured_on(11, 1, 2));
	played_run(11, 1, 90 * MS, 50 * MS, 5000);
	played_read();
	assert_true(played_is_measured_on(11, 1, 0) && played_is_measured_on(11, 1, 1));
	assert_int_equal(played->rows[11][1].cells[0].total, 10000);
	/* Another pause takes nothing of that away. */
	played_run(11, 1, 10 * MS, 0, 0);
	played_read();
	assert_true(played_is_measured_on(11, 1, 0));
}

/* It was observed there, and none of its events has happened. */
static void test_observed_zero_on_one_cpu(void **state)
{
	(void)state;
	played_add_target_by_cpu(11, NR_CPUS);
	played_add_slot(11, below_10, 2);
	played_run(11, 0, 10 * MS, 10 * MS, 500);
	played_run(11, 1, 10 * MS, 0, 0);
	played_read();
	assert_false(played_is_measured_on(11, 1, 0));
	played_run(11, 1, 90 * MS, 50 * MS, 0);
	played_read();
	assert_true(played_is_measured_on(11, 1, 0));
	assert_int_equal(played->rows[11][1].cells[0].total, 0);
}

/* Forty of a millisecond each, of which every other one was in a pause. */
static void run_brief_ones(void)
{
	played_add_target(1);
	played_add_target(10);
	for (uint64_t id = 20; id < 60; id++) {
		played_add_slot(id, below_10, 2);
		played_run(id, 0, MS, id % 2 ? MS : 0, id % 2 ? 1000 : 0);
		played_end(id);
	}
}

/* Cgroups of milliseconds: some fall into pauses. Their parent has what they all have done. */
static void test_ended_unobserved(void **state)
{
	(void)state;
	run_brief_ones();
	played_read();
	assert_int_equal(played_total(10, 0), 40000);
	assert_int_equal(played_total(10, 1), 80000);
	assert_int_equal(played_total(10, 2), 40000);
}

/* Nothing below their parent was observed: it is absent, and its own parent goes by the others below it. Once something
 * is observed, it has all. */
static void test_ended_beside_none_observed(void **state)
{
	static const uint64_t below_20[] = { 20, 10, 1 };

	(void)state;
	played_add_target(1);
	played_add_target(10);
	played_add_target(20);
	played_add_slot(11, below_10, 2);
	played_run(11, 0, 10 * MS, 10 * MS, 10000);
	played_read();
	for (uint64_t id = 30; id < 35; id++) {
		played_add_slot(id, below_20, 3);
		played_run(id, 0, MS, 1000, 1);
		played_end(id);
	}
	played_read();
	assert_false(played_is_measured(20, 0));
	assert_true(played_is_measured(20, 2));
	assert_int_equal(played_total(20, 0), 0);
	assert_int_equal(played_total(10, 0), 15000);

	played_add_slot(35, below_20, 3);
	played_run_in(SHARE_ENOUGH, 35, 2 * MS, 2 * MS, 2000);
	played_end(35);
	played_read();
	assert_true(played_is_measured(20, 0));
	assert_int_equal(played_total(20, 0), 7000);
	assert_int_equal(played_total(10, 0), 17000);
}

/* A pause since the last reading is told, and one that goes on. */
static void test_pauses_are_told(void **state)
{
	(void)state;
	played_add_target(10);
	played_add_slot(10, below_10, 2);
	played_run(10, 0, 100 * MS, 100 * MS, 1000);
	played_read();
	assert_false(played->health[LIMITED].spared);

	played->cpus[0].pauses = 1;
	played->cpus[0].nr_pauses++;
	for (int i = 0; i < 2; i++) {
		played->health[LIMITED].spared = false;
		played_read();
		assert_true(played->health[LIMITED].spared);
	}
	played->cpus[0].pauses = 0;
	played_read();
	assert_true(played->health[LIMITED].spared);
	played->health[LIMITED].spared = false;
	played_read();
	assert_false(played->health[LIMITED].spared);
	assert_false(played->health[EXACT].spared);
}

/* A cgroup that is shown, and of which nothing was ever observed, stays absent when it ends. */
static void test_ended_target(void **state)
{
	(void)state;
	played_add_target(1);
	played_add_target(10);
	played_add_target(11);
	played_add_target(12);
	played_add_slot(11, below_10, 2);
	played_add_slot(12, below_10, 2);
	played_run(11, 0, 2 * MS, 2 * MS, 2000);
	played_run(12, 0, 2 * MS, 0, 0);
	slots_end(&played->engine, bpf_target_find(&played->engine, 11));
	slots_end(&played->engine, bpf_target_find(&played->engine, 12));
	assert_int_equal(played_total(11, 0), 2000);
	assert_int_equal(played_total(12, 0), 0);
	assert_false(played_is_measured(12, 0));
	assert_int_equal(played_total(10, 0), 4000);
}

/* Nothing tells of it: it stays unknown. */
static void test_ended_and_nothing_known(void **state)
{
	(void)state;
	played_add_target(10);
	played_add_slot(11, below_10, 2);
	played_run(11, 0, 2 * MS, 0, 0);
	played_end(11);
	played_read();
	assert_int_equal(played_total(10, 0), 0);
	assert_false(played_is_measured(10, 0));
	assert_int_equal(played->rows[10][0].times[LIMITED].enabled, 2 * MS);
}

/* The slot's next cgroup has nothing of it. */
static void test_next_of_a_slot(void **state)
{
	(void)state;
	played_add_target(1);
	played_add_target(10);
	played_add_slot(20, below_10, 2);
	played_run(20, 0, 2 * MS, MS / 100, 7);
	played_end(20);
	played_read();
	assert_int_equal(played->rows[10][0].times[LIMITED].enabled, 2 * MS);
	played->known[20] = (struct bpf_slot){};
	played_add_target(11);
	played_slot(20)->id = 11;
	played_run(20, 0, 100 * MS, 100 * MS, 500);
	played_read();
	assert_int_equal(played_total(11, 0), 500);
	assert_int_equal(played->rows[11][0].times[LIMITED].enabled, 100 * MS);
}

/* All ancestors have its counts, as many as there can be. */
static void test_deep(void **state)
{
	uint64_t ancestors[CREDIT_DEPTH_MAX];

	(void)state;
	for (uint64_t i = 0; i < CREDIT_DEPTH_MAX; i++)
		ancestors[i] = CREDIT_DEPTH_MAX - i;
	for (uint64_t id = 2; id <= CREDIT_DEPTH_MAX + 1; id++)
		played_add_target(id);
	played_add_slot(CREDIT_DEPTH_MAX + 1, ancestors, CREDIT_DEPTH_MAX);
	played_run(CREDIT_DEPTH_MAX + 1, 0, 10 * MS, 10 * MS, 77);
	played_read();
	for (uint64_t id = 2; id <= CREDIT_DEPTH_MAX + 1; id++)
		assert_int_equal(played_total(id, 0), 77);
}

/* A program has added one time of the two, and the counts: to a reader, that looks like a pause of the budget. */
static void test_half_credited(void **state)
{
	(void)state;
	played_add_target(1);
	played_add_target(10);
	played_add_slot(10, below_10 + 1, 1);
	played_run(10, 0, 100 * MS, 100 * MS, 500);
	played_read();
	played->cpus[0].cell = 10;
	played->cpus[0].busy = 1;
	played_run(10, 0, 100 * MS, 60 * MS, 500);
	played_read();
	assert_int_equal(played_total(10, 0), 500);
	played->cells[0][10][CREDIT_CELL_RUNNING(LIMITED)] += 40 * MS;
	played->cpus[0].cell = 11;
	played->cpus[0].busy = 0;
	played_read();
	assert_int_equal(played_total(10, 0), 1000);
	assert_int_equal(played_total(10, 2), 200000);
	assert_int_equal(played->rows[10][0].times[LIMITED].running, 200 * MS);
	played_read();
	assert_int_equal(played_total(10, 0), 1000);
}

/* Numbers that are given to another set keep nothing of the one before. */
static void test_other_set_of_that_number(void **state)
{
	(void)state;
	played_add_target(10);
	played_add_slot(11, below_10, 2);
	played_run(11, 0, 10 * MS, 10 * MS, 300);
	played_read();
	slots_skip(&played->engine, LIMITED);
	played_add_target(11);
	played_read();
	assert_int_equal(played_total(11, 0), 0);
	assert_int_equal(played_total(11, 2), 10000);
}

/* In a takeover another engine has counted a set up to now, and this one the other: of what was kept, the cgroup and
 * those above it get that alone, once. */
static void test_disclaim(void **state)
{
	const uint64_t ancestors[] = { 20, 10, 1 };
	struct bpf_engine from = played->engine;
	struct bpf_set sets[2] = { [EXACT] = played->numbers[EXACT] };

	(void)state;
	from.sets = sets;
	played->engine.from = &from;
	played_add_target(10);
	played_add_slot(21, ancestors, 3);
	played_run(21, 0, 10 * MS, 10 * MS, 300);
	slots_read_below(&played->engine, 20);
	played_add_target(20);
	unclaimed_disclaim(&played->engine, bpf_target_find(&played->engine, 20));
	assert_int_equal(played_total(20, 0), 0);
	assert_int_equal(played_total(20, 2), 10000);
	played_run(21, 0, 10 * MS, 10 * MS, 5);
	slots_read_below(&played->engine, 21);
	played_add_target(21);
	unclaimed_disclaim(&played->engine, bpf_target_find(&played->engine, 21));
	assert_int_equal(played_total(21, 0), 0);
	assert_int_equal(played_total(21, 2), 20000);
	played_read();
	assert_int_equal(played_total(20, 0), 5);
	assert_int_equal(played_total(20, 2), 20000);
	assert_int_equal(played_total(10, 0), 305);
	played->engine.from = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_MACHINE(test_ancestors),
		IN_MACHINE(test_settled),
		IN_MACHINE(test_families),
		IN_MACHINE(test_readings_are_not_scaled),
		IN_MACHINE(test_unclaimed),
		IN_MACHINE(test_unclaimed_over_a_change_of_cpus),
		IN_MACHINE(test_unclaimed_and_unobserved),
		IN_MACHINE(test_few_stretches),
		IN_MACHINE(test_set_on_one_cpu),
		IN_MACHINE(test_unobserved_on_one_cpu),
		IN_MACHINE(test_observed_zero_on_one_cpu),
		IN_MACHINE(test_ended_unobserved),
		IN_MACHINE(test_ended_beside_none_observed),
		IN_MACHINE(test_ended_target),
		IN_MACHINE(test_pauses_are_told),
		IN_MACHINE(test_ended_and_nothing_known),
		IN_MACHINE(test_next_of_a_slot),
		IN_MACHINE(test_deep),
		IN_MACHINE(test_half_credited),
		IN_MACHINE(test_other_set_of_that_number),
		IN_MACHINE(test_disclaim),
	};

	return cmocka_run_group_tests_name("bpf-slots", tests, NULL, NULL);
}
