/* SPDX-License-Identifier: MIT */

/*
 * engine/bpf/slots and what it is made of: who gets the counts of cells that the test writes, in place of the programs.
 * Cgroups have small ids; each has its own slot of that number, and a cell of that number on each CPU. A set of two
 * events is limited to a budget, and one of
 * one event is exact. There are two CPUs, which both sets are counted on.
 */

#include "base/cgroup/identity.h"
#include "counting/engine/bpf/chunks.h"
#include "counting/engine/bpf/conservation.h"
#include "counting/engine/bpf/slot-bits.h"
#include "counting/engine/bpf/slots.h"
#include "counting/engine/bpf/unclaimed.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define NR_CPUS 2U
#define NR_SLOTS 64U
#define SLOT_WORDS ((sizeof(struct credit_slot) + NR_CPUS * sizeof(unsigned)) / sizeof(uint64_t))
#define MARKS (NR_CPUS * CREDIT_MARK_WORDS(NR_SLOTS))
#define LIMITED 0
#define EXACT 1
#define NR_COLUMNS 3
#define MS 1000000U

struct machine {
	struct credit_config config;
	struct credit_cpu cpus[NR_CPUS];
	uint64_t slots[NR_SLOTS * SLOT_WORDS];
	struct bpf_slot known[NR_SLOTS];
	uint64_t cells[NR_CPUS][NR_SLOTS][CREDIT_CELL_WORDS(2, 3)];
	uint64_t cell[CREDIT_CELL_WORDS(2, 3)];
	uint64_t read[NR_CPUS][NR_SLOTS][CREDIT_CELL_WORDS(2, 3) + 4];
	struct bpf_chunk slot_chunk, cell_chunks[NR_CPUS];
	uint64_t marks[MARKS], looked_at[MARKS], unsaved[MARKS];
	uint64_t taken[CREDIT_MARK_WORDS(NR_SLOTS)], unsettled[CREDIT_MARK_WORDS(NR_SLOTS)];
	uint64_t errors[NR_CPUS], paused[NR_CPUS];
	struct bpf_kernel kernel;
	size_t columns[NR_COLUMNS];
	struct set sets[2];
	struct plan plan;
	struct set_health health[2];
	struct bpf_set numbers[2];
	struct group group;
	struct event events[NR_COLUMNS];
	struct column planned[NR_COLUMNS];
	uint64_t deltas[NR_COLUMNS];
	struct reading_cost costs[NR_COLUMNS];
	struct bpf_engine engine;
	struct row {
		struct totals_row *row; /* its end is of variable size */
		struct totals_cell cells[NR_COLUMNS];
		struct totals_times times[2];
	} rows[NR_SLOTS][NR_CPUS];
	struct totals totals; /* without ticks */
};

/* --- in place of the kernel */

static struct machine *m;

bool __wrap_bpf_kernel_flush_all(struct bpf_kernel *kernel);
int __wrap_slot_supply(struct bpf_kernel *kernel, uint32_t taken, uint32_t to_reserve);
int __wrap_slot_supply_cells(struct bpf_kernel *kernel);
uint32_t __wrap_slot_find(const struct bpf_kernel *kernel, uint64_t id);
bool __wrap_slot_forget(struct bpf_kernel *kernel, uint64_t id);

bool __wrap_bpf_kernel_flush_all(struct bpf_kernel *kernel)
{
	(void)kernel;
	return true;
}

int __wrap_slot_supply(struct bpf_kernel *kernel, uint32_t taken, uint32_t to_reserve)
{
	(void)kernel;
	(void)taken;
	(void)to_reserve;
	return 0;
}

int __wrap_slot_supply_cells(struct bpf_kernel *kernel)
{
	(void)kernel;
	return 0;
}

uint32_t __wrap_slot_find(const struct bpf_kernel *kernel, uint64_t id)
{
	return slot_at(kernel, (uint32_t)id)->id == id ? (uint32_t)id : CREDIT_ROOT_SLOT;
}

bool __wrap_slot_forget(struct bpf_kernel *kernel, uint64_t id)
{
	(void)kernel;
	(void)id;
	return true;
}

static struct credit_slot *slot_of(uint64_t id)
{
	return slot_at(&m->kernel, (uint32_t)id);
}

static int setup(void **state)
{
	static char names[NR_COLUMNS][8] = { "a", "b", "c" }, none[1];

	(void)state;
	m = calloc(1, sizeof(*m));
	assert_non_null(m);
	m->kernel = (struct bpf_kernel){
		.refs = 1,
		.sizes = { .cpus = NR_CPUS, .slots = NR_SLOTS, .events = 3, .sets = 2 },
		.config = &m->config,
		.cpus = m->cpus,
		.slots = &m->slot_chunk,
		.cells = m->cell_chunks,
		.cell = m->cell,
		.marks = m->marks,
		.looked_at = m->looked_at,
		.unsaved = m->unsaved,
		.taken = m->taken,
		.unsettled = m->unsettled,
		.errors = m->errors,
		.paused = m->paused,
	};
	m->config.nr_slots = NR_SLOTS;
	m->slot_chunk = (struct bpf_chunk){ .memory = m->slots, .known = m->known };
	for (uint32_t cpu = 0; cpu < NR_CPUS; cpu++) {
		m->cpus[cpu].nr_cells = m->cpus[cpu].max_cells = NR_SLOTS;
		m->cell_chunks[cpu] = (struct bpf_chunk){ .memory = m->cells[cpu], .known = m->read[cpu] };
		for (uint32_t slot = 0; slot < NR_SLOTS; slot++) {
			m->cells[cpu][slot][CREDIT_CELL_SLOT] = slot;
			slot_of(slot)->cells[cpu] = slot;
		}
	}
	for (size_t i = 0; i < NR_COLUMNS; i++) {
		m->columns[i] = i;
		m->events[i].metric = names[i];
		m->events[i].pmu = none;
		m->planned[i] =
			(struct column){ .group = &m->group, .event = &m->events[i], .set = i < 2 ? LIMITED : EXACT };
	}
	m->sets[LIMITED] = (struct set){ .columns = m->columns, .nr = 2 };
	m->sets[EXACT] = (struct set){ .columns = m->columns + 2, .nr = 1, .exact = true };
	m->plan.scope[SCOPE_CGROUP] =
		(struct scope_plan){ .columns = m->planned, .nr_columns = NR_COLUMNS, .sets = m->sets, .nr_sets = 2 };
	m->numbers[LIMITED] = (struct bpf_set){ .used = true, .number = 0, .first_event = 0 };
	m->numbers[EXACT] = (struct bpf_set){ .used = true, .number = 1, .first_event = 2 };
	m->engine = (struct bpf_engine){
		.engine.env = { .plan = &m->plan, .health[SCOPE_CGROUP] = m->health },
		.kernel = &m->kernel,
		.sets = m->numbers,
		.deltas = m->deltas,
		.costs = m->costs,
	};
	for (int cpu = 0; cpu < (int)NR_CPUS; cpu++) {
		assert_int_equal(cpulist_add(&m->engine.cpus, cpu), 0);
		assert_int_equal(cpulist_add(&m->sets[LIMITED].cpus, cpu), 0);
		assert_int_equal(cpulist_add(&m->sets[EXACT].cpus, cpu), 0);
	}
	assert_int_equal(conservation_open(&m->engine), 0);
	slot_of(CREDIT_ROOT_SLOT)->id = CGROUP_ROOT_ID;
	slot_note_taken(&m->kernel, CREDIT_ROOT_SLOT);
	return 0;
}

static int teardown(void **state)
{
	struct bpf_target *target, *next;

	(void)state;
	HASH_ITER(hh, m->engine.targets, target, next)
		bpf_target_free(&m->engine, target);
	for (size_t i = 0; i < NR_SLOTS; i++) {
		free(m->known[i].unclaimed);
		for (size_t cpu = 0; cpu < NR_CPUS; cpu++)
			free(m->rows[i][cpu].row);
	}
	free(m->engine.conservations);
	cpulist_release(&m->engine.cpus);
	cpulist_release(&m->sets[LIMITED].cpus);
	cpulist_release(&m->sets[EXACT].cpus);
	free(m);
	return 0;
}

/* --- what happens */

/* The cgroup has run, in a chain of cgroups that ends with the root. */
static void add_slot(uint64_t id, const uint64_t *ancestors, size_t nr)
{
	struct credit_slot *slot = slot_of(id);

	slot->id = id;
	for (size_t i = 0; i < nr; i++)
		slot->ancestors[slot->nr_ancestors++] = ancestors[i];
}

static void add_target_by_cpu(uint64_t id, size_t nr_rows)
{
	struct totals_row *rows[NR_CPUS];

	for (size_t i = 0; i < NR_CPUS; i++) {
		struct row *row = &m->rows[id][i];

		row->row = calloc(1, sizeof(*row->row) + 1);
		assert_non_null(row->row);
		row->row->cpu = nr_rows > 1 ? m->engine.cpus.cpu[i] : ROW_ALL_CPUS;
		row->row->totals = &m->totals;
		row->row->cells = row->cells;
		row->row->times = row->times;
		rows[i] = row->row;
	}
	assert_non_null(bpf_target_new(&m->engine, id, rows, nr_rows));
}

static void add_target(uint64_t id)
{
	add_target_by_cpu(id, 1);
}

/* Its tasks have run on the CPU for so long, and have counted; the limited set was observed for a part of it. */
static void run(uint64_t id, uint32_t cpu, uint64_t ns, uint64_t observed, uint64_t counted)
{
	uint64_t *cell = m->cells[cpu][id];

	cell[CREDIT_CELL_CREDITS]++;
	for (unsigned set = 0; set < 2; set++) {
		cell[CREDIT_CELL_ENABLED(set)] += ns;
		cell[CREDIT_CELL_RUNNING(set)] += set == EXACT ? ns : observed;
	}
	cell[CREDIT_CELL_EVENTS(2)] += counted;
	cell[CREDIT_CELL_EVENTS(2) + 1] += 2 * counted;
	cell[CREDIT_CELL_EVENTS(2) + 2] += ns / 1000;
	m->marks[cpu * CREDIT_MARK_WORDS(NR_SLOTS) + id / 64] |= UINT64_C(1) << id % 64;
	m->cpus[cpu].enabled[LIMITED] += ns;
	m->cpus[cpu].running[LIMITED] += ns;
	m->cpus[cpu].nr_pauses += observed < ns;
}

static void end(uint64_t id)
{
	m->known[id].retired = true;
	slot_unsettle(&m->kernel, (uint32_t)id);
}

static void read_all(void)
{
	slots_read(&m->engine, 1);
}

static uint64_t total(uint64_t id, size_t column)
{
	return m->rows[id][0].cells[column].total;
}

static bool is_measured_on(uint64_t id, uint32_t cpu, size_t column)
{
	return m->rows[id][cpu].cells[column].measured;
}

static bool is_measured(uint64_t id, size_t column)
{
	return is_measured_on(id, 0, column);
}

/* --- tests */

static const uint64_t below_10[] = { 10, 1 };

static void test_ancestors(void **state)
{
	(void)state;
	add_target(1);
	add_target(10);
	add_target(11);
	add_slot(11, below_10, 2);
	add_slot(12, below_10, 2);
	run(11, 0, 10 * MS, 10 * MS, 500);
	run(12, 1, 20 * MS, 20 * MS, 700);
	read_all();
	assert_int_equal(total(11, 0), 500);
	assert_int_equal(total(11, 1), 1000);
	assert_int_equal(total(11, 2), 10000);
	assert_int_equal(total(10, 0), 1200);
	assert_int_equal(total(10, 2), 30000);
	/* The root's are the CPUs'. */
	assert_int_equal(total(1, 0), 0);
	/* Nothing is added twice. */
	read_all();
	read_all();
	assert_int_equal(total(10, 0), 1200);
	assert_true(is_measured(11, 0));
}

/* A slot of which all is known is not passed over, until something changes. */
static void test_settled(void **state)
{
	(void)state;
	add_target(1);
	add_target(10);
	add_slot(11, below_10, 2);
	add_slot(10, below_10 + 1, 1);
	run(10, 0, MS, MS, 100);
	run(11, 0, MS, MS, 10);
	read_all();
	assert_int_equal(slot_count_taken(&m->kernel), 3);
	assert_false(slot_bit(m->unsettled, CREDIT_ROOT_SLOT));
	assert_false(slot_bit(m->unsettled, 10));
	assert_true(slot_bit(m->unsettled, 11));
	add_target(11);
	read_all();
	assert_false(slot_bit(m->unsettled, 11));
	/* What it counts is kept for it from now on, also if that is read before all are. */
	bpf_target_free(&m->engine, bpf_target_find(&m->engine, 11));
	run(11, 0, MS, MS, 5);
	m->kernel.settled_changed = false;
	slots_read_below(&m->engine, 11);
	assert_true(slot_bit(m->unsettled, 11));
	assert_true(m->kernel.settled_changed);
	end(10);
	read_all();
	m->kernel.nr_images++;
	read_all();
	assert_false(slot_bit(m->taken, 10));
	assert_false(slot_bit(m->unsettled, 10));
	assert_int_equal(slot_next(&m->kernel, m->unsettled, 0), 11);
	assert_int_equal(slot_next(&m->kernel, m->unsettled, 12), NR_SLOTS);
	assert_int_equal(slot_count_taken(&m->kernel), 2);
}

/* Targets come and go between readings, of which each begins with the family that the one before ended with. */
static void test_families(void **state)
{
	static const uint64_t below_20[] = { 20, 10, 1 };

	(void)state;
	add_target(1);
	add_target(10);
	add_slot(11, below_20, 3);
	add_slot(12, below_10, 2);
	add_slot(13, below_20, 3);
	for (uint64_t id = 11; id < 14; id++)
		run(id, 0, MS, MS, 100);
	read_all();
	assert_int_equal(total(10, 0), 300);
	/* It gets what its children have counted so far, too. */
	add_target(20);
	for (uint64_t id = 11; id < 14; id++)
		run(id, 0, MS, MS, 10);
	read_all();
	assert_int_equal(total(10, 0), 330);
	assert_int_equal(total(20, 0), 220);
	bpf_target_free(&m->engine, bpf_target_find(&m->engine, 20));
	for (uint64_t id = 11; id < 14; id++)
		run(id, 0, MS, MS, 1);
	read_all();
	assert_int_equal(total(10, 0), 333);
	assert_int_equal(total(20, 0), 220);
}

/* The programs have read the limited set so often for the cgroup, on CPU 0. */
static void add_readings(uint64_t id, uint64_t nr)
{
	m->cells[0][id][CREDIT_CELL_READINGS(LIMITED)] += nr;
}

/* What they count by that, they have not counted in the pauses. */
static void test_readings_are_not_scaled(void **state)
{
	(void)state;
	add_target(1);
	add_target(10);
	add_slot(10, below_10 + 1, 1);
	/* Of the first event it is known: 20 a reading. */
	m->cpus[0].again[0] = 10;
	m->cpus[0].repeated[0] = 200;

	run(10, 0, 100 * MS, 10 * MS, 500);
	add_readings(10, 3);
	read_all();
	assert_int_equal(total(10, 0), (500 - 60) * 10 + 60);
	assert_int_equal(total(10, 1), 10000);

	/* These are over. Those of a stretch that is too short to be scaled are the next one's. */
	run(10, 0, 10 * MS, MS / 2, 25);
	add_readings(10, 1);
	read_all();
	run(10, 0, 90 * MS, 9 * MS + MS / 2, 475);
	add_readings(10, 1);
	read_all();
	assert_int_equal(total(10, 0), (500 - 60) * 10 + 60 + (500 - 40) * 10 + 40);

	/* All that was observed is as it was counted. */
	run(10, 0, 100 * MS, 100 * MS, 500);
	add_readings(10, 5);
	read_all();
	assert_int_equal(total(10, 0), (500 - 60) * 10 + 60 + (500 - 40) * 10 + 40 + 500);

	/* Readings can't make more of it than was counted. */
	run(10, 0, 100 * MS, 50 * MS, 30);
	add_readings(10, 5);
	read_all();
	assert_int_equal(total(10, 0), (500 - 60) * 10 + 60 + (500 - 40) * 10 + 40 + 500 + 30);
}

/* It gets all when it becomes a target, on the rows of its CPUs; and so does one between. */
static void test_unclaimed(void **state)
{
	const uint64_t ancestors[] = { 20, 10, 1 };

	(void)state;
	add_target(10);
	add_slot(21, ancestors, 3);
	run(21, 1, 10 * MS, 10 * MS, 300);
	read_all();
	assert_int_equal(total(10, 0), 300);
	add_target(20);
	read_all();
	assert_int_equal(total(20, 0), 300);
	run(21, 0, 10 * MS, 10 * MS, 50);
	read_all();
	assert_int_equal(total(20, 0), 350);
	add_target_by_cpu(21, NR_CPUS);
	read_all();
	assert_int_equal(m->rows[21][0].cells[0].total, 50);
	assert_int_equal(m->rows[21][1].cells[0].total, 300);
	assert_int_equal(total(20, 0), 350);
	assert_int_equal(total(10, 0), 350);
}

/* The next plan counts other CPUs: what was kept is of the same CPU as before. */
static void test_unclaimed_over_a_change_of_cpus(void **state)
{
	(void)state;
	add_target(10);
	add_slot(11, below_10, 2);
	run(11, 1, 10 * MS, 10 * MS, 300);
	read_all();
	cpulist_release(&m->engine.cpus);
	assert_int_equal(cpulist_add(&m->engine.cpus, 1), 0);
	assert_int_equal(cpulist_add(&m->engine.cpus, 5), 0);
	add_target_by_cpu(11, NR_CPUS);
	read_all();
	assert_int_equal(m->rows[11][0].cells[0].total, 300);
	assert_int_equal(m->rows[11][1].cells[0].total, 0);
}

/* It ran in a pause before it was a target: that is no 0. */
static void test_unclaimed_and_unobserved(void **state)
{
	(void)state;
	add_target(10);
	add_slot(11, below_10, 2);
	run(11, 0, 10 * MS, 0, 0);
	read_all();
	add_target(11);
	read_all();
	assert_false(is_measured(11, 0));
	assert_true(is_measured(11, 2));
	assert_int_equal(total(11, 2), 10000);
	/* Scaled over all that it ran, once. */
	run(11, 0, 90 * MS, 50 * MS, 5000);
	read_all();
	assert_true(is_measured(11, 0));
	assert_int_equal(total(11, 0), 10000);
	assert_int_equal(m->rows[11][0].times[LIMITED].covered, 100 * MS);
}

/* The rows of other CPUs have nothing of a set that is counted on one alone. */
static void test_set_on_one_cpu(void **state)
{
	(void)state;
	m->sets[LIMITED].cpus.nr = 1;
	add_target_by_cpu(11, NR_CPUS);
	add_target(12);
	add_slot(11, below_10, 2);
	run(11, 0, 10 * MS, 10 * MS, 500);
	read_all();
	assert_true(is_measured_on(11, 0, 0) && is_measured_on(11, 0, 1) && is_measured_on(11, 0, 2));
	assert_false(is_measured_on(11, 1, 0) || is_measured_on(11, 1, 1));
	assert_true(is_measured_on(11, 1, 2));
	assert_true(is_measured(12, 0));
}

/* What was observed on one CPU is not known of the other, where it ran in a pause; and where it never ran, it is a true
 * 0. */
static void test_unobserved_on_one_cpu(void **state)
{
	(void)state;
	add_target_by_cpu(11, NR_CPUS);
	add_slot(11, below_10, 2);
	run(11, 0, 10 * MS, 10 * MS, 500);
	read_all();
	assert_true(is_measured_on(11, 0, 0) && is_measured_on(11, 1, 0));
	run(11, 1, 10 * MS, 0, 0);
	read_all();
	assert_true(is_measured_on(11, 0, 0));
	assert_false(is_measured_on(11, 1, 0) || is_measured_on(11, 1, 1));
	assert_true(is_measured_on(11, 1, 2));
	run(11, 1, 90 * MS, 50 * MS, 5000);
	read_all();
	assert_true(is_measured_on(11, 1, 0) && is_measured_on(11, 1, 1));
	assert_int_equal(m->rows[11][1].cells[0].total, 10000);
	/* Another pause takes nothing of that away. */
	run(11, 1, 10 * MS, 0, 0);
	read_all();
	assert_true(is_measured_on(11, 1, 0));
}

/* It was observed there, and none of its events has happened. */
static void test_observed_zero_on_one_cpu(void **state)
{
	(void)state;
	add_target_by_cpu(11, NR_CPUS);
	add_slot(11, below_10, 2);
	run(11, 0, 10 * MS, 10 * MS, 500);
	run(11, 1, 10 * MS, 0, 0);
	read_all();
	assert_false(is_measured_on(11, 1, 0));
	run(11, 1, 90 * MS, 50 * MS, 0);
	read_all();
	assert_true(is_measured_on(11, 1, 0));
	assert_int_equal(m->rows[11][1].cells[0].total, 0);
}

/* Forty of a millisecond each, of which every other one was in a pause. */
static void run_brief_ones(void)
{
	add_target(1);
	add_target(10);
	for (uint64_t id = 20; id < 60; id++) {
		add_slot(id, below_10, 2);
		run(id, 0, MS, id % 2 ? MS : 0, id % 2 ? 1000 : 0);
		end(id);
	}
}

/* Cgroups of milliseconds: some fall into pauses. Their parent has what they all have done. */
static void test_ended_unobserved(void **state)
{
	(void)state;
	run_brief_ones();
	read_all();
	assert_int_equal(total(10, 0), 40000);
	assert_int_equal(total(10, 1), 80000);
	assert_int_equal(total(10, 2), 40000);
}

/* Nothing below their parent was observed: it is absent, and its own parent goes by the others below it. Once something
 * is observed, it has all. */
static void test_ended_beside_none_observed(void **state)
{
	static const uint64_t below_20[] = { 20, 10, 1 };

	(void)state;
	add_target(1);
	add_target(10);
	add_target(20);
	add_slot(11, below_10, 2);
	run(11, 0, 10 * MS, 10 * MS, 10000);
	read_all();
	for (uint64_t id = 30; id < 35; id++) {
		add_slot(id, below_20, 3);
		run(id, 0, MS, 1000, 1);
		end(id);
	}
	read_all();
	assert_false(is_measured(20, 0));
	assert_true(is_measured(20, 2));
	assert_int_equal(total(20, 0), 0);
	assert_int_equal(total(10, 0), 15000);

	add_slot(35, below_20, 3);
	run(35, 0, 2 * MS, 2 * MS, 2000);
	end(35);
	read_all();
	assert_true(is_measured(20, 0));
	assert_int_equal(total(20, 0), 7000);
	assert_int_equal(total(10, 0), 17000);
}

/* A pause since the last reading is told, and one that goes on. */
static void test_pauses_are_told(void **state)
{
	(void)state;
	add_target(10);
	add_slot(10, below_10, 2);
	run(10, 0, 100 * MS, 100 * MS, 1000);
	read_all();
	assert_false(m->health[LIMITED].spared);

	m->cpus[0].pauses = 1;
	m->cpus[0].nr_pauses++;
	for (int i = 0; i < 2; i++) {
		m->health[LIMITED].spared = false;
		read_all();
		assert_true(m->health[LIMITED].spared);
	}
	m->cpus[0].pauses = 0;
	read_all();
	assert_true(m->health[LIMITED].spared);
	m->health[LIMITED].spared = false;
	read_all();
	assert_false(m->health[LIMITED].spared);
	assert_false(m->health[EXACT].spared);
}

/* A cgroup that is shown, and of which nothing was ever observed, stays absent when it ends. */
static void test_ended_target(void **state)
{
	(void)state;
	add_target(1);
	add_target(10);
	add_target(11);
	add_target(12);
	add_slot(11, below_10, 2);
	add_slot(12, below_10, 2);
	run(11, 0, 2 * MS, 2 * MS, 2000);
	run(12, 0, 2 * MS, 0, 0);
	slots_end(&m->engine, bpf_target_find(&m->engine, 11));
	slots_end(&m->engine, bpf_target_find(&m->engine, 12));
	assert_int_equal(total(11, 0), 2000);
	assert_int_equal(total(12, 0), 0);
	assert_false(is_measured(12, 0));
	assert_int_equal(total(10, 0), 4000);
}

/* Nothing tells of it: it stays unknown. */
static void test_ended_and_nothing_known(void **state)
{
	(void)state;
	add_target(10);
	add_slot(11, below_10, 2);
	run(11, 0, 2 * MS, 0, 0);
	end(11);
	read_all();
	assert_int_equal(total(10, 0), 0);
	assert_false(is_measured(10, 0));
	assert_int_equal(m->rows[10][0].times[LIMITED].enabled, 2 * MS);
}

/* The slot's next cgroup has nothing of it. */
static void test_next_of_a_slot(void **state)
{
	(void)state;
	add_target(1);
	add_target(10);
	add_slot(20, below_10, 2);
	run(20, 0, 2 * MS, MS / 100, 7);
	end(20);
	read_all();
	assert_int_equal(m->rows[10][0].times[LIMITED].enabled, 2 * MS);
	m->known[20] = (struct bpf_slot){};
	add_target(11);
	slot_of(20)->id = 11;
	run(20, 0, 100 * MS, 100 * MS, 500);
	read_all();
	assert_int_equal(total(11, 0), 500);
	assert_int_equal(m->rows[11][0].times[LIMITED].enabled, 100 * MS);
}

/* All ancestors have its counts, as many as there can be. */
static void test_deep(void **state)
{
	uint64_t ancestors[CREDIT_DEPTH_MAX];

	(void)state;
	for (uint64_t i = 0; i < CREDIT_DEPTH_MAX; i++)
		ancestors[i] = CREDIT_DEPTH_MAX - i;
	for (uint64_t id = 2; id <= CREDIT_DEPTH_MAX + 1; id++)
		add_target(id);
	add_slot(CREDIT_DEPTH_MAX + 1, ancestors, CREDIT_DEPTH_MAX);
	run(CREDIT_DEPTH_MAX + 1, 0, 10 * MS, 10 * MS, 77);
	read_all();
	for (uint64_t id = 2; id <= CREDIT_DEPTH_MAX + 1; id++)
		assert_int_equal(total(id, 0), 77);
}

/* A program has added one time of the two, and the counts: to a reader, that looks like a pause of the budget. */
static void test_half_credited(void **state)
{
	(void)state;
	add_target(1);
	add_target(10);
	add_slot(10, below_10 + 1, 1);
	run(10, 0, 100 * MS, 100 * MS, 500);
	read_all();
	m->cpus[0].cell = 10;
	m->cpus[0].busy = 1;
	run(10, 0, 100 * MS, 60 * MS, 500);
	read_all();
	assert_int_equal(total(10, 0), 500);
	m->cells[0][10][CREDIT_CELL_RUNNING(LIMITED)] += 40 * MS;
	m->cpus[0].cell = 11;
	m->cpus[0].busy = 0;
	read_all();
	assert_int_equal(total(10, 0), 1000);
	assert_int_equal(total(10, 2), 200000);
	assert_int_equal(m->rows[10][0].times[LIMITED].running, 200 * MS);
	read_all();
	assert_int_equal(total(10, 0), 1000);
}

/* Numbers that are given to another set keep nothing of the one before. */
static void test_other_set_of_that_number(void **state)
{
	(void)state;
	add_target(10);
	add_slot(11, below_10, 2);
	run(11, 0, 10 * MS, 10 * MS, 300);
	read_all();
	slots_skip(&m->engine, LIMITED);
	add_target(11);
	read_all();
	assert_int_equal(total(11, 0), 0);
	assert_int_equal(total(11, 2), 10000);
}

/* In a takeover another engine has counted a set up to now, and this one the other: of what was kept, the cgroup and
 * those above it get that alone, once. */
static void test_disclaim(void **state)
{
	const uint64_t ancestors[] = { 20, 10, 1 };
	struct bpf_engine from = m->engine;
	struct bpf_set sets[2] = { [EXACT] = m->numbers[EXACT] };

	(void)state;
	from.sets = sets;
	m->engine.from = &from;
	add_target(10);
	add_slot(21, ancestors, 3);
	run(21, 0, 10 * MS, 10 * MS, 300);
	slots_read_below(&m->engine, 20);
	add_target(20);
	unclaimed_disclaim(&m->engine, bpf_target_find(&m->engine, 20));
	assert_int_equal(total(20, 0), 0);
	assert_int_equal(total(20, 2), 10000);
	run(21, 0, 10 * MS, 10 * MS, 5);
	slots_read_below(&m->engine, 21);
	add_target(21);
	unclaimed_disclaim(&m->engine, bpf_target_find(&m->engine, 21));
	assert_int_equal(total(21, 0), 0);
	assert_int_equal(total(21, 2), 20000);
	read_all();
	assert_int_equal(total(20, 0), 5);
	assert_int_equal(total(20, 2), 20000);
	assert_int_equal(total(10, 0), 305);
	m->engine.from = NULL;
}

#define IN_MACHINE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

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
