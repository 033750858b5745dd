/* SPDX-License-Identifier: MIT */

#include "counting/event/tables.h"

#include "base/util/cleanup.h"

#include <linux/perf_event.h>
#include <string.h>

const struct event_table_entry event_hardware_table[] = {
	{ .name = "cycles", .alias = "cpu-cycles", .config = PERF_COUNT_HW_CPU_CYCLES, .steady = true },
	{ .name = "instructions", .config = PERF_COUNT_HW_INSTRUCTIONS, .steady = true },
	{ .name = "cache-references", .config = PERF_COUNT_HW_CACHE_REFERENCES },
	{ .name = "cache-misses", .config = PERF_COUNT_HW_CACHE_MISSES },
	{ .name = "branch-instructions", .alias = "branches", .config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS },
	{ .name = "branch-misses", .config = PERF_COUNT_HW_BRANCH_MISSES },
	{ .name = "bus-cycles", .config = PERF_COUNT_HW_BUS_CYCLES, .steady = true },
	{ .name = "stalled-cycles-frontend",
	  .alias = "idle-cycles-frontend",
	  .config = PERF_COUNT_HW_STALLED_CYCLES_FRONTEND },
	{ .name = "stalled-cycles-backend",
	  .alias = "idle-cycles-backend",
	  .config = PERF_COUNT_HW_STALLED_CYCLES_BACKEND },
	{ .name = "ref-cycles", .config = PERF_COUNT_HW_REF_CPU_CYCLES, .steady = true },
};
const size_t event_hardware_table_size = ARRAY_SIZE(event_hardware_table);

const struct event_table_entry event_software_table[] = {
	{ .name = "cpu-clock", .config = PERF_COUNT_SW_CPU_CLOCK, .nanoseconds = true },
	{ .name = "task-clock", .config = PERF_COUNT_SW_TASK_CLOCK, .nanoseconds = true },
	{ .name = "page-faults", .alias = "faults", .config = PERF_COUNT_SW_PAGE_FAULTS },
	{ .name = "context-switches", .alias = "cs", .config = PERF_COUNT_SW_CONTEXT_SWITCHES },
	{ .name = "cpu-migrations", .alias = "migrations", .config = PERF_COUNT_SW_CPU_MIGRATIONS },
	{ .name = "minor-faults", .config = PERF_COUNT_SW_PAGE_FAULTS_MIN },
	{ .name = "major-faults", .config = PERF_COUNT_SW_PAGE_FAULTS_MAJ },
	{ .name = "alignment-faults", .config = PERF_COUNT_SW_ALIGNMENT_FAULTS },
	{ .name = "emulation-faults", .config = PERF_COUNT_SW_EMULATION_FAULTS },
	{ .name = "dummy", .config = PERF_COUNT_SW_DUMMY },
	{ .name = "bpf-output", .config = PERF_COUNT_SW_BPF_OUTPUT },
	{ .name = "cgroup-switches", .config = PERF_COUNT_SW_CGROUP_SWITCHES },
};
const size_t event_software_table_size = ARRAY_SIZE(event_software_table);

static const struct event_table_entry *find_entry(const struct event_table_entry *table, size_t size, const char *name)
{
	for (size_t i = 0; i < size; i++)
		if (strcasecmp(table[i].name, name) == 0 || (table[i].alias && strcasecmp(table[i].alias, name) == 0))
			return &table[i];
	return NULL;
}

const struct event_table_entry *event_hardware_find(const char *name)
{
	return find_entry(event_hardware_table, event_hardware_table_size, name);
}

const struct event_table_entry *event_software_find(const char *name)
{
	return find_entry(event_software_table, event_software_table_size, name);
}

/* --- cache events: CACHE, CACHE-OPERATION, CACHE-RESULT, or both behind the cache in either order */

#define MAX_SPELLINGS 5

enum {
	READ = 1 << PERF_COUNT_HW_CACHE_OP_READ,
	WRITE = 1 << PERF_COUNT_HW_CACHE_OP_WRITE,
	PREFETCH = 1 << PERF_COUNT_HW_CACHE_OP_PREFETCH,
};

static const struct {
	const char *spelling[MAX_SPELLINGS]; /* the canonical one first */
	unsigned operations;		     /* a bit for each that it has */
} caches[PERF_COUNT_HW_CACHE_MAX] = {
	[PERF_COUNT_HW_CACHE_L1D] = { { "L1-dcache", "l1-d", "l1d", "L1-data" }, READ | WRITE | PREFETCH },
	[PERF_COUNT_HW_CACHE_L1I] = { { "L1-icache", "l1-i", "l1i", "L1-instruction" }, READ | PREFETCH },
	[PERF_COUNT_HW_CACHE_LL] = { { "LLC", "L2" }, READ | WRITE | PREFETCH },
	[PERF_COUNT_HW_CACHE_DTLB] = { { "dTLB", "d-tlb", "Data-TLB" }, READ | WRITE | PREFETCH },
	[PERF_COUNT_HW_CACHE_ITLB] = { { "iTLB", "i-tlb", "Instruction-TLB" }, READ },
	[PERF_COUNT_HW_CACHE_BPU] = { { "branch", "branches", "bpu", "btb", "bpc" }, READ },
	[PERF_COUNT_HW_CACHE_NODE] = { { "node" }, READ | WRITE | PREFETCH },
};

static const struct {
	const char *one, *many; /* "load-misses", "loads" */
	const char *spelling[MAX_SPELLINGS];
} operations[PERF_COUNT_HW_CACHE_OP_MAX] = {
	[PERF_COUNT_HW_CACHE_OP_READ] = { "load", "loads", { "load", "loads", "read" } },
	[PERF_COUNT_HW_CACHE_OP_WRITE] = { "store", "stores", { "store", "stores", "write" } },
	[PERF_COUNT_HW_CACHE_OP_PREFETCH] = {
		"prefetch",
		"prefetches",
		{ "prefetch", "prefetches", "speculative-read", "speculative-load" },
	},
};

static const struct {
	const char *spelling[MAX_SPELLINGS];
} results[PERF_COUNT_HW_CACHE_RESULT_MAX] = {
	[PERF_COUNT_HW_CACHE_RESULT_ACCESS] = { { "refs", "Reference", "ops", "access" } },
	[PERF_COUNT_HW_CACHE_RESULT_MISS] = { { "misses", "miss" } },
};

/* The length of the longest of the spellings that text begins with, up to a '-' or its end; 0 for none. */
static size_t match_spelling(const char *text, const char *const spelling[static MAX_SPELLINGS])
{
	size_t longest = 0;

	for (size_t i = 0; i < MAX_SPELLINGS && spelling[i]; i++) {
		size_t n = strlen(spelling[i]);

		if (n > longest && strncasecmp(text, spelling[i], n) == 0 && (!text[n] || text[n] == '-'))
			longest = n;
	}
	return longest;
}

static size_t match_cache(const char *text, unsigned *ret)
{
	for (unsigned i = 0; i < ARRAY_SIZE(caches); i++) {
		size_t n = match_spelling(text, caches[i].spelling);

		if (n) {
			*ret = i;
			return n;
		}
	}
	return 0;
}

static size_t match_operation(const char *text, unsigned *ret)
{
	for (unsigned i = 0; i < ARRAY_SIZE(operations); i++) {
		size_t n = match_spelling(text, operations[i].spelling);

		if (n) {
			*ret = i;
			return n;
		}
	}
	return 0;
}

static size_t match_result(const char *text, unsigned *ret)
{
	for (unsigned i = 0; i < ARRAY_SIZE(results); i++) {
		size_t n = match_spelling(text, results[i].spelling);

		if (n) {
			*ret = i;
			return n;
		}
	}
	return 0;
}

static void cache_name(unsigned cache, unsigned operation, unsigned result, char *name, size_t size)
{
	if (result == PERF_COUNT_HW_CACHE_RESULT_MISS)
		(void)snprintf(name, size, "%s-%s-%s", caches[cache].spelling[0], operations[operation].one,
			       results[result].spelling[0]);
	else
		(void)snprintf(name, size, "%s-%s", caches[cache].spelling[0], operations[operation].many);
}

bool event_cache_parse(const char *name, uint64_t *ret, char *canonical, size_t size)
{
	unsigned cache, operation = PERF_COUNT_HW_CACHE_OP_READ, result = PERF_COUNT_HW_CACHE_RESULT_ACCESS;
	bool has_operation = false, has_result = false;
	size_t n = match_cache(name, &cache);

	if (!n)
		return false;
	for (const char *p = name + n; *p; p += n) {
		p++;
		if (!has_operation && (n = match_operation(p, &operation)))
			has_operation = true;
		else if (!has_result && (n = match_result(p, &result)))
			has_result = true;
		else
			return false;
	}
	if (!(caches[cache].operations & (1u << operation)))
		return false;

	*ret = cache | (uint64_t)operation << 8 | (uint64_t)result << 16;
	if (canonical)
		cache_name(cache, operation, result, canonical, size);
	return true;
}

bool event_cache_nth(size_t i, char *name, size_t size)
{
	for (unsigned cache = 0; cache < ARRAY_SIZE(caches); cache++)
		for (unsigned operation = 0; operation < ARRAY_SIZE(operations); operation++) {
			if (!(caches[cache].operations & (1u << operation)))
				continue;
			if (i < ARRAY_SIZE(results)) {
				cache_name(cache, operation, (unsigned)i, name, size);
				return true;
			}
			i -= ARRAY_SIZE(results);
		}
	return false;
}
