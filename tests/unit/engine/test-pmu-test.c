/* SPDX-License-Identifier: MIT */

/* How many counters a PMU is found to have, on a kernel that the test plays. */

#include "counting/engine/perf/pmu-test.h"

#include "base/util/cleanup.h"
#include "counting/engine/perf/open.h"
#include "setup/fake-perf.h"
#include "setup/machines.h"
#include "setup/no-memory.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define HW PERF_TYPE_HARDWARE

/* Of perf_event_open(2), for a PMU of six counters: one event more than it has, and then the group. */
#define CALLS (7 + 6)
/* Counted once more, of a PMU of which nothing was known. */
#define AGAIN 7

/* A machine, and what was found out on it. */
struct world {
	struct machine machine;
	struct cpulist cpus;
	struct pmu_counters_list found;
};

/* Waits for a moment: how often, and what happens meanwhile. */
static struct {
	int times;
	void (*meanwhile)(void);
} waiting;

int __wrap_nanosleep(const struct timespec *time, struct timespec *left);

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	(void)left;
	assert_in_range(time->tv_sec * 1000000000 + time->tv_nsec, 5000000, 10000000);
	waiting.times++;
	if (waiting.meanwhile)
		waiting.meanwhile();
	return 0;
}

static void world_begin(struct world *w, const struct tree_file *files, const char *cpus)
{
	*w = (struct world){ .machine = machine_new(files) };
	assert_int_equal(cpulist_parse(&w->cpus, cpus), 0);
	fake_perf_reset();
	fake_perf.by_reading = 100;
	waiting.times = 0;
	waiting.meanwhile = NULL;
}

static void world_end(struct world *w)
{
	assert_int_equal(fake_perf.nr_open, 0);
	pmu_counters_list_release(&w->found);
	cpulist_release(&w->cpus);
	machine_release(&w->machine);
}

/* Tests, with the last results as what is known. */
static void test_again(struct world *w)
{
	struct pmu_counters_list known = w->found;

	w->found = (struct pmu_counters_list){};
	assert_int_equal(pmu_test_all(&w->found, &w->machine.env, &w->cpus, &known), 0);
	pmu_counters_list_release(&known);
}

static void assert_found(const struct world *w, const char *pmu, unsigned advertised, unsigned usable)
{
	const struct pmu_counters *counters = pmu_counters_find(&w->found, pmu);

	if (!counters || counters->advertised != advertised || counters->usable != usable)
		fail_msg("%s: %u, %u", pmu, counters ? counters->advertised : 0, counters ? counters->usable : 0);
	assert_true((pmu_counters_find_lying(&w->found, pmu) != NULL) == (usable < advertised));
}

/* An event of somebody else, who holds the counter until it is closed. */
static int hold_counter(int cpu)
{
	struct perf_event_attr attr = { .type = HW, .size = sizeof(attr), .pinned = 1, .disabled = 1 };
	int fd = privilege_open_event(&attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	assert_int_equal(perf_enable_group(fd), 0);
	return fd;
}

static void test_true(void **state)
{
	struct world w;

	(void)state;
	world_begin(&w, machine_intel, "3-5");
	fake_perf.counters = 6;
	test_again(&w);
	assert_int_equal(w.found.nr, 1);
	assert_found(&w, "cpu", 6, 6);
	/* On one CPU, with an event that no fixed counter has; and no more often than that. */
	assert_int_equal(fake_perf.nr_calls, CALLS + AGAIN);
	assert_int_equal(waiting.times, 0);
	for (int i = 0; i < fake_perf.nr; i++) {
		assert_int_equal(fake_perf.events[i].cpu, 3);
		assert_int_equal(fake_perf.events[i].attr.config, PERF_COUNT_HW_BRANCH_INSTRUCTIONS);
	}
	world_end(&w);
}

static void test_lying(void **state)
{
	struct world w;

	(void)state;
	for (int usable = 1; usable < 6; usable++) {
		world_begin(&w, machine_zen, "0-1");
		fake_perf.counters = 6;
		fake_perf.usable = usable;
		test_again(&w);
		assert_found(&w, "cpu", 6, (unsigned)usable);
		assert_int_equal(w.found.still, 6 - usable);
		assert_int_equal(fake_perf.nr_calls, 2 * CALLS + AGAIN);
		/* As it was known: that is not doubted. */
		test_again(&w);
		assert_found(&w, "cpu", 6, (unsigned)usable);
		assert_int_equal(fake_perf.nr_calls, 3 * CALLS + AGAIN);
		world_end(&w);
	}
}

/* The host gives a counter back while it is tested. */
static int get_better(enum fake_call call)
{
	if (call == FAKE_OPEN && fake_perf.nr_calls == CALLS + 1)
		fake_perf.usable = 0;
	return 0;
}

static void test_the_better_result_is_believed(void **state)
{
	struct world w;

	(void)state;
	world_begin(&w, machine_zen, "0-1");
	fake_perf.counters = 6;
	fake_perf.usable = 5;
	fake_perf.fault = get_better;
	test_again(&w);
	assert_found(&w, "cpu", 6, 6);
	assert_int_equal(w.found.still, 0);
	world_end(&w);
}

/* Two events that take turns on one counter of the host: each has half of the counts. */
static int share_one_counter(enum fake_call call)
{
	for (int i = 0; call == FAKE_READ && i < fake_perf.nr; i++)
		if (i % CALLS >= CALLS - 2)
			fake_perf.events[i].dead = fake_perf.clock / 100000 % 2 == (uint64_t)i % 2;
	return 0;
}

static void test_two_that_share_a_counter_are_one(void **state)
{
	struct world w;

	(void)state;
	world_begin(&w, machine_zen, "0-1");
	fake_perf.counters = 6;
	fake_perf.fault = share_one_counter;
	test_again(&w);
	assert_found(&w, "cpu", 6, 5);
	world_end(&w);
}

/* Something else runs on the CPU between two readings, and much more of it. */
static int run_in_bursts(enum fake_call call)
{
	if (call == FAKE_READ && fake_perf.clock / 1000 % 5 == 0)
		fake_happen(10000000);
	return 0;
}

static void test_bursts_do_not_matter(void **state)
{
	struct world w;

	(void)state;
	for (int usable = 5; usable <= 6; usable++) {
		world_begin(&w, machine_zen, "0-1");
		fake_perf.counters = 6;
		fake_perf.usable = usable;
		fake_perf.fault = run_in_bursts;
		test_again(&w);
		assert_found(&w, "cpu", 6, (unsigned)usable);
		world_end(&w);
	}
}

/* The group does not run all the time. */
static int interrupt(enum fake_call call)
{
	for (int i = 0; call == FAKE_READ && i < fake_perf.nr; i++)
		fake_perf.events[i].running -= fake_perf.events[i].running > 1000;
	return 0;
}

static void test_an_interrupted_group_tells_nothing(void **state)
{
	struct world w;

	(void)state;
	world_begin(&w, machine_zen, "0-1");
	fake_perf.counters = 6;
	fake_perf.usable = 5;
	fake_perf.fault = interrupt;
	test_again(&w);
	assert_int_equal(w.found.nr, 0);
	world_end(&w);
}

static void test_hybrid(void **state)
{
	struct world w;

	(void)state;
	world_begin(&w, machine_hybrid, "2-23");
	fake_perf.counters = 4;
	test_again(&w);
	assert_int_equal(w.found.nr, 2);
	assert_found(&w, "cpu_core", 4, 4);
	assert_found(&w, "cpu_atom", 4, 4);
	assert_int_equal(fake_perf.events[0].cpu + fake_perf.events[fake_perf.nr - 1].cpu, 2 + 16);

	/* What can't be tested is still known. */
	cpulist_release(&w.cpus);
	assert_int_equal(cpulist_parse(&w.cpus, "0-15"), 0);
	fake_perf.counters = 6;
	test_again(&w);
	assert_found(&w, "cpu_core", 6, 6);
	assert_found(&w, "cpu_atom", 4, 4);
	world_end(&w);
}

/* Kernels before 6.6 on arm: the CPU tells the PMU. */
static int refuse_types(const struct fake_event *event, int nr_members)
{
	(void)nr_members;
	return event->attr.config >> PERF_PMU_TYPE_SHIFT ? ENOENT : 0;
}

static void test_no_types(void **state)
{
	struct world w;

	(void)state;
	world_begin(&w, machine_biglittle, "0-5");
	fake_perf.counters = 6;
	fake_perf.refuse = refuse_types;
	test_again(&w);
	assert_int_equal(w.found.nr, 2);
	assert_found(&w, "armv8_cortex_a53", 6, 6);
	assert_found(&w, "armv8_cortex_a72", 6, 6);
	world_end(&w);
}

/* The next event is taken where the PMU has no branches. */
static int refuse_branches(const struct fake_event *event, int nr_members)
{
	(void)nr_members;
	return event->attr.config == PERF_COUNT_HW_BRANCH_INSTRUCTIONS ? ENOENT : 0;
}

/* A hypervisor that filters events: they run and count nothing. Six events that all read 0 tell nothing. */
static int deny_branches(enum fake_call call)
{
	for (int i = 0; i < fake_perf.nr && call == FAKE_ENABLE; i++)
		fake_perf.events[i].dead |= fake_perf.events[i].attr.config == PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
	return 0;
}

static void test_without_branches(void **state)
{
	struct world w;

	(void)state;
	world_begin(&w, machine_arm, "0-1");
	fake_perf.counters = 6;
	fake_perf.refuse = refuse_branches;
	test_again(&w);
	assert_int_equal(w.found.nr, 1);
	assert_int_equal(w.found.pmus[0].advertised, 6);
	assert_int_equal(fake_perf.events[0].attr.config, PERF_COUNT_HW_INSTRUCTIONS);
	world_end(&w);
}

static void test_dead_branches(void **state)
{
	struct world w;

	(void)state;
	world_begin(&w, machine_zen, "0-1");
	fake_perf.counters = 6;
	fake_perf.fault = deny_branches;
	test_again(&w);
	assert_int_equal(w.found.nr, 1);
	assert_int_equal(w.found.pmus[0].advertised, 6);
	assert_int_equal(fake_perf.events[fake_perf.nr - 1].attr.config, PERF_COUNT_HW_INSTRUCTIONS);
	world_end(&w);
}

/* Nothing is claimed of what could not be found out. */
static void test_unknown(void **state)
{
	struct world w;

	(void)state;
	world_begin(&w, machine_intel, "0");
	fake_perf.counters = 0; /* any number of events: these need no counters */
	test_again(&w);
	assert_int_equal(w.found.nr, 0);

	fake_perf.counters = 6;
	fake_perf.by_reading = 0; /* nothing happens that could be counted */
	test_again(&w);
	assert_int_equal(w.found.nr, 0);

	fake_perf.by_reading = 100;
	fake_perf.limit = 3; /* files */
	fake_perf.refuse = refuse_beyond_limit;
	test_again(&w);
	assert_int_equal(w.found.nr, 0);

	fake_perf.error = EACCES;
	fake_perf.refuse = refuse_all;
	test_again(&w);
	assert_int_equal(w.found.nr, 0);
	world_end(&w);

	world_begin(&w, (const struct tree_file[]){ { "software/type", "1\n" }, {} }, "0");
	fake_perf.counters = 6;
	test_again(&w);
	assert_int_equal(w.found.nr, 0);
	assert_int_equal(fake_perf.nr_calls, 0);
	world_end(&w);
}

/* Counters that are held at a reload, by ourselves or by others, are not forgotten. */
static void test_reload_beside_pinned(void **state)
{
	struct world w;
	int fds[2];

	(void)state;
	world_begin(&w, machine_zen, "0-1");
	fake_perf.counters = 6;
	fake_perf.usable = 5;
	test_again(&w);
	assert_found(&w, "cpu", 6, 5);
	fds[0] = hold_counter(0);
	fds[1] = hold_counter(0);
	test_again(&w);
	assert_found(&w, "cpu", 6, 5);
	/* A second one has stopped to count since: that shows in those that are free. */
	fake_perf.usable = 4;
	test_again(&w);
	assert_found(&w, "cpu", 6, 4);
	/* That all of the free ones count does not tell of the others. */
	fake_perf.usable = 0;
	test_again(&w);
	assert_found(&w, "cpu", 6, 4);
	safe_close(fds[0]);
	safe_close(fds[1]);
	test_again(&w);
	assert_found(&w, "cpu", 6, 6);
	world_end(&w);
}

/* Another test, which has begun before. */
static struct {
	int fds[6];
	size_t nr;
} other;

static void other_begins(size_t nr)
{
	for (other.nr = 0; other.nr < nr; other.nr++)
		other.fds[other.nr] = hold_counter(0);
}

static void other_ends(void)
{
	while (other.nr > 0)
		safe_close(other.fds[--other.nr]);
}

/* Was a member the last event that was opened? */
static bool is_group(void)
{
	return fake_perf.events[fake_perf.nr - 1].leader < fake_perf.nr - 1;
}

static int other_ends_beside_group(enum fake_call call)
{
	if (call == FAKE_READ && is_group())
		other_ends();
	return 0;
}

static int other_begins_before_group(enum fake_call call)
{
	if (call == FAKE_ENABLE && is_group() && waiting.times == 0)
		other_begins(1);
	return 0;
}

/* It has many counters and ends while we wait; or few of them, and ends while our own group has the rest. */
static void test_another_at_the_same_time(void **state)
{
	struct world w;

	(void)state;
	for (size_t held = 1; held <= 6; held++) {
		bool few = held < 3;

		world_begin(&w, machine_zen, "0-1");
		fake_perf.counters = 6;
		fake_perf.usable = few ? 0 : 5;
		other_begins(held);
		if (few)
			fake_perf.fault = other_ends_beside_group;
		else
			waiting.meanwhile = other_ends;
		test_again(&w);
		assert_found(&w, "cpu", 6, few ? 6 : 5);
		assert_int_equal(waiting.times, 1);
		world_end(&w);
	}
}

static void test_another_in_between(void **state)
{
	struct world w;

	(void)state;
	world_begin(&w, machine_zen, "0-1");
	fake_perf.counters = 6;
	fake_perf.fault = other_begins_before_group;
	waiting.meanwhile = other_ends;
	test_again(&w);
	assert_found(&w, "cpu", 6, 6);
	assert_int_equal(waiting.times, 1);
	world_end(&w);
}

static void other_comes(void)
{
	if (other.nr == 0)
		other_begins(2);
}

/* What was found with more counters stays. */
static void test_another_comes_later(void **state)
{
	struct world w;

	(void)state;
	world_begin(&w, machine_zen, "0-1");
	fake_perf.counters = 3;
	waiting.meanwhile = other_comes;
	test_again(&w);
	assert_found(&w, "cpu", 3, 3);
	assert_int_equal(waiting.times, 3);
	other_ends();
	world_end(&w);
}

/* Somebody holds them for good: what is free is believed; of none, nothing, and that is said. */
static void test_held_for_good(void **state)
{
	struct reason why;
	struct world w;

	(void)state;
	world_begin(&w, machine_zen, "0-1");
	fake_perf.counters = 6;
	fake_perf.usable = 5;
	other_begins(6);
	for (int i = 1; i <= 2; i++) {
		test_again(&w);
		assert_null(pmu_counters_find(&w.found, "cpu"));
		assert_int_equal(waiting.times, 3 * i);
		assert_int_equal(w.found.nr, 1);
		assert_true(pmu_counters_describe(&w.found.pmus[0], &why));
		assert_non_null(strstr(why.text, "PMU cpu: none of its counters was free for the test"));
	}
	other_ends();
	other_begins(4);
	test_again(&w);
	assert_found(&w, "cpu", 2, 1);
	assert_int_equal(waiting.times, 9);
	/* It is known now. */
	other_ends();
	test_again(&w);
	assert_found(&w, "cpu", 6, 5);
	other_begins(6);
	test_again(&w);
	assert_found(&w, "cpu", 6, 5);
	assert_int_equal(waiting.times, 9);
	other_ends();
	world_end(&w);
}

static int allocations_left;

static bool run_out(void)
{
	return allocations_left-- == 0;
}

/* Each allocation fails once. */
static void test_no_memory(void **state)
{
	struct pmu_counters_list found = {}, again = {};
	struct world w;
	int failed = 0, r;

	(void)state;
	world_begin(&w, machine_hybrid, "0-23");
	fake_perf.counters = 2;
	test_again(&w);
	do {
		allocations_left = failed;
		memory_fails = run_out;
		r = pmu_test_all(&found, &w.machine.env, &w.cpus, &w.found);
		memory_fails = NULL;
		assert_true(r == 0 || (r == -ENOMEM && found.nr == 0));
		failed += r < 0;
	} while (r < 0);
	assert_true(failed > 4);
	assert_int_equal(found.nr, 2);
	pmu_counters_list_release(&found);

	/* Nor of what is only remembered. */
	cpulist_release(&w.cpus);
	for (failed = 0, r = -1; r < 0; failed += r < 0) {
		allocations_left = failed;
		memory_fails = run_out;
		r = pmu_test_all(&again, &w.machine.env, &w.cpus, &w.found);
		memory_fails = NULL;
	}
	assert_int_equal(again.nr, 2);
	pmu_counters_list_release(&again);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_true),
		cmocka_unit_test(test_lying),
		cmocka_unit_test(test_the_better_result_is_believed),
		cmocka_unit_test(test_two_that_share_a_counter_are_one),
		cmocka_unit_test(test_bursts_do_not_matter),
		cmocka_unit_test(test_an_interrupted_group_tells_nothing),
		cmocka_unit_test(test_hybrid),
		cmocka_unit_test(test_no_types),
		cmocka_unit_test(test_without_branches),
		cmocka_unit_test(test_dead_branches),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_reload_beside_pinned),
		cmocka_unit_test(test_another_at_the_same_time),
		cmocka_unit_test(test_another_in_between),
		cmocka_unit_test(test_another_comes_later),
		cmocka_unit_test(test_held_for_good),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests_name("pmu-test", tests, NULL, NULL);
}
