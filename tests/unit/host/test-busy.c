/* SPDX-License-Identifier: MIT */

/* The busy time of CPUs, from made texts of /proc/stat. */

#include "base/host/busy.h"

#include "base/util/cleanup.h"
#include "setup/tree.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MS 1000000U
#define SECOND (1000 * (uint64_t)MS)

static const char stat[] = "cpu  100 20 30 4000 50 6 7 8 0 0\n"
			   "cpu0 10 2 3 400 5 6 7 8 9 1\n"
			   "cpu2 1 1 1 1 1 1 1 1 1 1\n"
			   "cpu10 5 0 0 0 0 0 0 0 0 0\n"
			   "intr 12345 0 1 2\n"
			   "cpu3 9 9 9 9 9 9 9 9 9 9\n";

static void test_a_line_is_busy_time_without_idle_and_stolen(_unused_ void **state)
{
	_cleanup_(cpulist_release) struct cpulist cpus = {};
	uint64_t busy[4] = { 1, 1, 1, 1 };

	assert_int_equal(cpulist_parse(&cpus, "0-2,10"), 0);
	assert_int_equal(cpu_busy_parse(busy, &cpus, stat, 100), 0);
	/* Without idle, iowait and steal; 10 ms a tick. CPU 1 is not there. */
	assert_int_equal(busy[0], 28 * 10 * MS);
	assert_int_equal(busy[1], 0);
	assert_int_equal(busy[2], 5 * 10 * MS);
	assert_int_equal(busy[3], 5 * 10 * MS);

	assert_int_equal(cpu_busy_parse(busy, &cpus, "", 100), -EBADMSG);
	assert_int_equal(cpu_busy_parse(busy, &cpus, "intr 1\n", 100), -EBADMSG);
	assert_int_equal(cpu_busy_parse(busy, &cpus, "cpu 1 2\ncpu0 1 2 x\ncpu-1 1 1 1 1 1 1 1 1\ncpu", 100), 0);
	assert_int_equal(busy[0], 0);
}

static void test_the_first_reading_tells_nothing(_unused_ void **state)
{
	static const struct tree_file before[] = {
		{ "stat", "cpu  0\ncpu0 1 0 0 0 0 0 0 0\ncpu1 5 0 0 0 0 0 0 0\n" },
		{},
	};
	static const struct tree_file after[] = {
		{ "stat", "cpu  0\ncpu0 3 0 0 0 0 0 0 0\ncpu1 4 0 0 0 0 0 0 0\n" },
		{},
	};
	_cleanup_(cpulist_release) struct cpulist cpus = {}, other = {};
	_cleanup_(cpu_busy_release) struct cpu_busy busy = {};
	char *one = tree_new(before), *two = tree_new(after);
	uint64_t tick = SECOND / (uint64_t)sysconf(_SC_CLK_TCK);
	const uint64_t *delta;

	assert_int_equal(cpulist_parse(&cpus, "0-1"), 0);
	assert_int_equal(cpulist_parse(&other, "0"), 0);
	assert_null(cpu_busy_update(&busy, &cpus, one));
	delta = cpu_busy_update(&busy, &cpus, two);
	assert_non_null(delta);
	assert_int_equal(delta[0], 2 * tick);
	assert_int_equal(delta[1], 0); /* it went down */

	/* Of other CPUs, of none, after a gap: a first reading. */
	assert_null(cpu_busy_update(&busy, &other, two));
	assert_non_null(cpu_busy_update(&busy, &other, two));
	assert_null(cpu_busy_update(&busy, &other, "/nonexistent"));
	assert_null(cpu_busy_update(&busy, &other, two));
	assert_non_null(cpu_busy_update(&busy, &other, two));
	cpu_busy_forget(&busy);
	assert_null(cpu_busy_update(&busy, &other, two));
	tree_free(one);
	tree_free(two);
}

/* One that goes offline and comes back between two looks at the list of CPUs. Its line counts since boot. */
static void test_a_cpu_is_not_busy_while_it_is_offline(_unused_ void **state)
{
	static const struct {
		uint64_t ticks; /* 0: it has no line */
		uint64_t delta;
	} readings[] = { { 0, 0 }, { 5000, 0 }, { 5003, 3 }, { 0, 0 }, { 0, 0 }, { 5005, 2 }, { 5006, 1 } };
	_cleanup_(cpulist_release) struct cpulist cpus = {};
	_cleanup_(cpu_busy_release) struct cpu_busy busy = {};
	uint64_t tick = SECOND / (uint64_t)sysconf(_SC_CLK_TCK);
	char *procroot = tree_new(NULL);

	assert_int_equal(cpulist_parse(&cpus, "0-1"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(readings); i++) {
		const uint64_t *delta;
		char text[128], line[64] = "";

		if (readings[i].ticks)
			(void)snprintf(line, sizeof(line), "cpu1 %ju 0 0 0 0 0 0 0\n", (uintmax_t)readings[i].ticks);
		(void)snprintf(text, sizeof(text), "cpu  0\ncpu0 %zu 0 0 0 0 0 0 0\n%s", 10 + i, line);
		tree_text(procroot, "stat", text);
		delta = cpu_busy_update(&busy, &cpus, procroot);
		assert_int_equal(delta != NULL, i > 0);
		if (!delta)
			continue;
		assert_int_equal(delta[0], tick);
		assert_int_equal(delta[1], readings[i].delta * tick);
	}
	tree_free(procroot);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_line_is_busy_time_without_idle_and_stolen),
		cmocka_unit_test(test_the_first_reading_tells_nothing),
		cmocka_unit_test(test_a_cpu_is_not_busy_while_it_is_offline),
	};

	return cmocka_run_group_tests_name("busy", tests, NULL, NULL);
}
