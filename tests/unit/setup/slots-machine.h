/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A played part of the BPF engine in the kernel, whose cells the test writes in place of the programs, and an engine
 * that reads them. Cgroups have small ids; each has its own slot of that number, and a cell of that number on each CPU.
 * A set of two events is limited to a budget, and one of one event is exact. There are two CPUs, which both sets are
 * counted on.
 */

#include "counting/engine/bpf/slots.h"

#define NR_CPUS 2U
#define NR_SLOTS 64U
#define SLOT_WORDS ((sizeof(struct credit_slot) + NR_CPUS * sizeof(unsigned)) / sizeof(uint64_t))
#define MARKS (NR_CPUS * CREDIT_MARK_WORDS(NR_SLOTS))
#define LIMITED 0
#define EXACT 1
#define NR_COLUMNS 3
#define MS 1000000U

struct played_machine {
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

extern struct played_machine *played;

struct credit_slot *played_slot(uint64_t id);
int played_setup(void **state);
int played_teardown(void **state);
/* The cgroup has run, in a chain of cgroups that ends with the root. */
void played_add_slot(uint64_t id, const uint64_t *ancestors, size_t nr);
void played_add_target_by_cpu(uint64_t id, size_t nr_rows);
void played_add_target(uint64_t id);
/* Its tasks have run on the CPU for so long, and have counted; the limited set was observed for a part of it. */
void played_run(uint64_t id, uint32_t cpu, uint64_t ns, uint64_t observed, uint64_t counted);
/* The same on the first CPU, and this many stretches were observed. */
void played_run_in(uint64_t readings, uint64_t id, uint64_t ns, uint64_t observed, uint64_t counted);
void played_end(uint64_t id);
void played_read(void);
uint64_t played_total(uint64_t id, size_t column);
bool played_is_measured_on(uint64_t id, uint32_t cpu, size_t column);
bool played_is_measured(uint64_t id, size_t column);

#define IN_MACHINE(test) cmocka_unit_test_setup_teardown(test, played_setup, played_teardown)
