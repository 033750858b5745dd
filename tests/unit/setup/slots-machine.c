/* SPDX-License-Identifier: MIT */

#include "setup/slots-machine.h"

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

/* --- in place of the kernel */

struct played_machine *played;

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

struct credit_slot *played_slot(uint64_t id)
{
	return slot_at(&played->kernel, (uint32_t)id);
}

int played_setup(void **state)
{
	static char names[NR_COLUMNS][8] = { "a", "b", "c" }, none[1];

	(void)state;
	played = calloc(1, sizeof(*played));
	assert_non_null(played);
	played->kernel = (struct bpf_kernel){
		.refs = 1,
		.sizes = { .cpus = NR_CPUS, .slots = NR_SLOTS, .events = 3, .sets = 2 },
		.config = &played->config,
		.cpus = played->cpus,
		.slots = &played->slot_chunk,
		.cells = played->cell_chunks,
		.cell = played->cell,
		.marks = played->marks,
		.looked_at = played->looked_at,
		.unsaved = played->unsaved,
		.taken = played->taken,
		.unsettled = played->unsettled,
		.errors = played->errors,
		.paused = played->paused,
	};
	played->config.nr_slots = NR_SLOTS;
	played->slot_chunk = (struct bpf_chunk){ .memory = played->slots, .known = played->known };
	for (uint32_t cpu = 0; cpu < NR_CPUS; cpu++) {
		played->cpus[cpu].nr_cells = played->cpus[cpu].max_cells = NR_SLOTS;
		played->cell_chunks[cpu] =
			(struct bpf_chunk){ .memory = played->cells[cpu], .known = played->read[cpu] };
		for (uint32_t slot = 0; slot < NR_SLOTS; slot++) {
			played->cells[cpu][slot][CREDIT_CELL_SLOT] = slot;
			played_slot(slot)->cells[cpu] = slot;
		}
	}
	for (size_t i = 0; i < NR_COLUMNS; i++) {
		played->columns[i] = i;
		played->events[i].metric = names[i];
		played->events[i].pmu = none;
		played->planned[i] = (struct column){ .group = &played->group,
						      .event = &played->events[i],
						      .set = i < 2 ? LIMITED : EXACT };
	}
	played->sets[LIMITED] = (struct set){ .columns = played->columns, .nr = 2 };
	played->sets[EXACT] = (struct set){ .columns = played->columns + 2, .nr = 1, .exact = true };
	played->plan.scope[SCOPE_CGROUP] = (struct scope_plan){
		.columns = played->planned, .nr_columns = NR_COLUMNS, .sets = played->sets, .nr_sets = 2
	};
	played->numbers[LIMITED] = (struct bpf_set){ .used = true, .number = 0, .first_event = 0 };
	played->numbers[EXACT] = (struct bpf_set){ .used = true, .number = 1, .first_event = 2 };
	played->engine = (struct bpf_engine){
		.engine.env = { .plan = &played->plan, .health[SCOPE_CGROUP] = played->health },
		.kernel = &played->kernel,
		.sets = played->numbers,
		.deltas = played->deltas,
		.costs = played->costs,
	};
	for (int cpu = 0; cpu < (int)NR_CPUS; cpu++) {
		assert_int_equal(cpulist_add(&played->engine.cpus, cpu), 0);
		assert_int_equal(cpulist_add(&played->sets[LIMITED].cpus, cpu), 0);
		assert_int_equal(cpulist_add(&played->sets[EXACT].cpus, cpu), 0);
	}
	assert_int_equal(conservation_open(&played->engine), 0);
	played_slot(CREDIT_ROOT_SLOT)->id = CGROUP_ROOT_ID;
	slot_note_taken(&played->kernel, CREDIT_ROOT_SLOT);
	return 0;
}

int played_teardown(void **state)
{
	struct bpf_target *target, *next;

	(void)state;
	HASH_ITER(hh, played->engine.targets, target, next)
		bpf_target_free(&played->engine, target);
	for (size_t i = 0; i < NR_SLOTS; i++) {
		free(played->known[i].unclaimed);
		for (size_t cpu = 0; cpu < NR_CPUS; cpu++)
			free(played->rows[i][cpu].row);
	}
	free(played->engine.conservations);
	cpulist_release(&played->engine.cpus);
	cpulist_release(&played->sets[LIMITED].cpus);
	cpulist_release(&played->sets[EXACT].cpus);
	free(played);
	return 0;
}

/* --- what happens */

void played_add_slot(uint64_t id, const uint64_t *ancestors, size_t nr)
{
	struct credit_slot *slot = played_slot(id);

	slot->id = id;
	for (size_t i = 0; i < nr; i++)
		slot->ancestors[slot->nr_ancestors++] = ancestors[i];
}

void played_add_target_by_cpu(uint64_t id, size_t nr_rows)
{
	struct totals_row *rows[NR_CPUS];

	for (size_t i = 0; i < NR_CPUS; i++) {
		struct row *row = &played->rows[id][i];

		row->row = calloc(1, sizeof(*row->row) + 1);
		assert_non_null(row->row);
		row->row->cpu = nr_rows > 1 ? played->engine.cpus.cpu[i] : ROW_ALL_CPUS;
		row->row->totals = &played->totals;
		row->row->cells = row->cells;
		row->row->times = row->times;
		rows[i] = row->row;
	}
	assert_non_null(bpf_target_new(&played->engine, id, rows, nr_rows));
}

void played_add_target(uint64_t id)
{
	played_add_target_by_cpu(id, 1);
}

void played_run(uint64_t id, uint32_t cpu, uint64_t ns, uint64_t observed, uint64_t counted)
{
	uint64_t *cell = played->cells[cpu][id];

	cell[CREDIT_CELL_CREDITS]++;
	for (unsigned set = 0; set < 2; set++) {
		cell[CREDIT_CELL_ENABLED(set)] += ns;
		cell[CREDIT_CELL_RUNNING(set)] += set == EXACT ? ns : observed;
	}
	cell[CREDIT_CELL_EVENTS(2)] += counted;
	cell[CREDIT_CELL_EVENTS(2) + 1] += 2 * counted;
	cell[CREDIT_CELL_EVENTS(2) + 2] += ns / 1000;
	played->marks[cpu * CREDIT_MARK_WORDS(NR_SLOTS) + id / 64] |= UINT64_C(1) << id % 64;
	played->cpus[cpu].enabled[LIMITED] += ns;
	played->cpus[cpu].running[LIMITED] += ns;
	played->cpus[cpu].nr_pauses += observed < ns;
}

void played_run_in(uint64_t readings, uint64_t id, uint64_t ns, uint64_t observed, uint64_t counted)
{
	played_run(id, 0, ns, observed, counted);
	played->cells[0][id][CREDIT_CELL_READINGS(LIMITED)] += readings;
}

void played_end(uint64_t id)
{
	played->known[id].retired = true;
	slot_unsettle(&played->kernel, (uint32_t)id);
}

void played_read(void)
{
	slots_read(&played->engine, 1);
}

uint64_t played_total(uint64_t id, size_t column)
{
	return played->rows[id][0].cells[column].total;
}

bool played_is_measured_on(uint64_t id, uint32_t cpu, size_t column)
{
	return played->rows[id][cpu].cells[column].measured;
}

bool played_is_measured(uint64_t id, size_t column)
{
	return played_is_measured_on(id, 0, column);
}
