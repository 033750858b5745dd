/* SPDX-License-Identifier: MIT */

/* The names of the kernel's generic events. */

#include "base/util/cleanup.h"
#include "counting/event/tables.h"

#include <linux/perf_event.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void check_table(const struct event_table_entry *table, size_t size,
			const struct event_table_entry *(*find)(const char *))
{
	uint64_t seen = 0;

	for (size_t i = 0; i < size; i++) {
		assert_ptr_equal(find(table[i].name), &table[i]);
		if (table[i].alias)
			assert_ptr_equal(find(table[i].alias), &table[i]);
		assert_false(seen & 1ULL << table[i].config);
		seen |= 1ULL << table[i].config;
	}
	/* All there are, without a gap. */
	assert_int_equal(seen, (1ULL << size) - 1);
	assert_null(find(""));
	assert_null(find("cycle"));
	assert_null(find("cyclesx"));
}

static void test_tables(_unused_ void **state)
{
	assert_int_equal(event_hardware_table_size, PERF_COUNT_HW_MAX);
	assert_int_equal(event_software_table_size, PERF_COUNT_SW_MAX);
	check_table(event_hardware_table, event_hardware_table_size, event_hardware_find);
	check_table(event_software_table, event_software_table_size, event_software_find);
}

static void test_cache_names(_unused_ void **state)
{
	char name[EVENT_CACHE_NAME_MAX], canonical[EVENT_CACHE_NAME_MAX];
	uint64_t seen[64], config;
	size_t n;

	for (n = 0; event_cache_nth(n, name, sizeof(name)); n++) {
		assert_true(n < ARRAY_SIZE(seen));
		assert_true(event_cache_parse(name, &config, canonical, sizeof(canonical)));
		assert_string_equal(canonical, name);
		for (size_t i = 0; i < n; i++)
			assert_int_not_equal(seen[i], config);
		seen[n] = config;
	}
	assert_int_equal(n, 32);
}

static void test_cache_spellings(_unused_ void **state)
{
	static const struct {
		const char *text;
		uint64_t config;
		const char *canonical;
	} table[] = {
		{ "L1-dcache", 0, "L1-dcache-loads" },
		{ "l1-d-read-miss", 0x10000, "L1-dcache-load-misses" },
		{ "L1-data-Reference", 0, "L1-dcache-loads" },
		{ "l1i-speculative-load-misses", 0x10201, "L1-icache-prefetch-misses" },
		{ "L1-instruction-prefetches", 0x201, "L1-icache-prefetches" },
		{ "llc-STORE-refs", 0x102, "LLC-stores" },
		{ "Data-TLB-write-miss", 0x10103, "dTLB-store-misses" },
		{ "Instruction-TLB-ops", 4, "iTLB-loads" },
		{ "btb-access", 5, "branch-loads" },
		{ "branches-load-misses", 0x10005, "branch-load-misses" },
		{ "bpc-miss-read", 0x10005, "branch-load-misses" },
		{ "node-prefetch-misses", 0x10206, "node-prefetch-misses" },
	};
	static const char *const none[] = {
		"",
		"L1",
		"L1-",
		"L1-dcache-",
		"L1-dcache-x",
		"L1-dcachex",
		"L1-dcache-load-",
		"L1-dcache-load-load",
		"L1-dcache-miss-miss",
		"L1-dcache-load-misses-refs",
		"L3-loads",
		"iTLB-stores",
		"iTLB-prefetches",
		"branch-stores",
		"L1-icache-stores",
		"loads",
		"dTLBs",
	};
	char canonical[EVENT_CACHE_NAME_MAX];
	uint64_t config;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		assert_true(event_cache_parse(table[i].text, &config, canonical, sizeof(canonical)));
		assert_int_equal(config, table[i].config);
		assert_string_equal(canonical, table[i].canonical);
		assert_true(event_cache_parse(table[i].text, &config, NULL, 0));
	}
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		config = 42;
		if (event_cache_parse(none[i], &config, canonical, sizeof(canonical)))
			fail_msg("%s", none[i]);
		assert_int_equal(config, 42);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_cache_names),
		cmocka_unit_test(test_cache_spellings),
	};

	return cmocka_run_group_tests_name("tables", tests, NULL, NULL);
}
