/* SPDX-License-Identifier: MIT */

/* The stream of records from the kernel's rings on all CPUs: in the order of time, also where it is taken in parts. */

#include "profiler/sample/sampler.h"
#include "setup/needs.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define FAULTS 200

/* Of each event that is read: so much was counted more than is in samples. */
static uint64_t hidden;

ssize_t __real_read(int fd, void *to, size_t size);
ssize_t __wrap_read(int fd, void *to, size_t size);

ssize_t __wrap_read(int fd, void *to, size_t size)
{
	ssize_t n = __real_read(fd, to, size);

	if (n == 2 * sizeof(uint64_t))
		*(uint64_t *)to += hidden;
	return n;
}

struct world {
	struct cpulist cpus;
	struct sampler *sampler; /* NULL: this process may not sample */
	/* What was handed over. */
	size_t own;	      /* faults of this process */
	uint64_t last, until; /* the last of these; and what was told */
};

/* The CPUs that this process may use. */
static void find_cpus(struct cpulist *ret)
{
	cpu_set_t set;

	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set))
			assert_int_equal(cpulist_add(ret, cpu), 0);
}

static int setup(void **state)
{
	char text[] = "page-faults";
	struct sampled_variant variant = {
		.text = text,
		.attr.attr = {
			.type = PERF_TYPE_SOFTWARE,
			.size = sizeof(struct perf_event_attr),
			.config = PERF_COUNT_SW_PAGE_FAULTS,
		},
	};
	const struct sampled_event faults = { .variants = &variant, .nr = 1, .period = 1 };
	struct world *world = calloc(1, sizeof(*world));
	struct reason why = {};

	assert_non_null(world);
	find_cpus(&world->cpus);
	if (sampler_new(&world->sampler, &faults, 1, &world->cpus, NULL, &why) < 0)
		print_message("%s\n", why.text);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	sampler_free(world->sampler);
	cpulist_release(&world->cpus);
	free(world);
	return 0;
}

/* Faults of this process, on each CPU in turn, so that one after the other is in another ring; returns how many. There
 * are fewer where a CPU has just gone offline. */
static size_t make_faults(const struct cpulist *cpus)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *memory = mmap(NULL, FAULTS * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cpu_set_t before, set;
	size_t nr = 0;

	assert_true(memory != MAP_FAILED);
	(void)madvise(memory, FAULTS * page, MADV_NOHUGEPAGE);
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	for (size_t i = 0; i < FAULTS; i++) {
		CPU_ZERO(&set);
		CPU_SET((size_t)cpus->cpu[i % cpus->nr], &set);
		if (sched_setaffinity(0, sizeof(set), &set) < 0)
			continue;
		memory[i * page] = 1;
		nr++;
	}
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	(void)munmap(memory, FAULTS * page);
	/* Until the last one is old enough. */
	(void)usleep(2 * SAMPLER_SETTLE_NS / NS_PER_US);
	return nr;
}

/*
 * Those of this process have been in their rings for long: each is younger than what was told before,
 * and none is older than the one before. Those of others may come late, on a CPU that stood still for a while.
 */
static void take(void *userdata, size_t event, const struct record *record)
{
	struct world *world = userdata;

	assert_true(event != SAMPLER_SIDE_BAND || record->type != PERF_RECORD_SAMPLE);
	if (record->type == PERF_RECORD_SAMPLE && record->id.pid == (uint32_t)getpid()) {
		assert_true(record->id.time > world->until);
		assert_true(record->id.time >= world->last);
		world->last = record->id.time;
		world->own++;
	}
}

static void drain(struct world *world)
{
	uint64_t until = sampler_drain(world->sampler, take, world);

	/* It may go back for one that comes late. */
	world->until = until > world->until ? until : world->until;
}

/* Nothing comes twice, and nothing is missing, where other processes have not filled the rings. */
static void test_in_order(void **state)
{
	struct world *world = *state;
	size_t nr;

	needs("perf-cpus");
	assert_non_null(world->sampler);
	drain(world);
	world->own = 0;
	nr = make_faults(&world->cpus);
	drain(world);
	assert_true(world->until < clock_monotonic_ns() - SAMPLER_SETTLE_NS);
	assert_true(world->own < 2 * nr);
	if (sampler_stats(world->sampler).lost == 0)
		assert_true(world->own >= nr);
	assert_true(sampler_stats(world->sampler).samples >= world->own);
}

/* Until the counts of this moment have been compared with the samples. */
static uint64_t unsampled_now(struct world *world)
{
	uint64_t begin = clock_monotonic_ns();

	while (world->until < begin + 2 * NS_PER_S) {
		drain(world);
		(void)usleep(10000);
	}
	return sampler_stats(world->sampler).unsampled;
}

/* A count without a sample is told, on each CPU, and what is told does not fall. The kernel may hide others' faults. */
static void test_counted_and_not_sampled(void **state)
{
	struct world *world = *state;
	uint64_t before, told, end = clock_monotonic_ns() + 120 * (uint64_t)NS_PER_S;

	needs("perf-cpus");
	assert_non_null(world->sampler);
	(void)make_faults(&world->cpus);
	hidden = 0;
	before = unsampled_now(world);
	hidden = 1000000;
	/* Others have faults between a count and its moment: these make less of it. */
	do {
		told = unsampled_now(world) - before;
		assert_true(clock_monotonic_ns() < end);
	} while (told < 999000 * world->cpus.nr);
	assert_true(told < 1010000 * world->cpus.nr);
	hidden = 0;
	assert_true(unsampled_now(world) - before >= told);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_counted_and_not_sampled, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
