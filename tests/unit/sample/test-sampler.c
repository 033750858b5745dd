/* SPDX-License-Identifier: MIT */

/* The stream of records from the kernel's rings on all CPUs: in the order of time, also where it is taken in parts; and
 * copies of stacks, where there is little memory for them, or none can be had. */

#include "base/host/privilege.h"
#include "profiler/sample/ring-size.h"
#include "profiler/sample/sampler.h"
#include "setup/needs.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
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
	(void)usleep(2 * SAMPLER_YOUNG_NS / NS_PER_US);
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
	assert_true(world->until < clock_monotonic_ns() - SAMPLER_YOUNG_NS);
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

/* --- copies of stacks */

/* Bytes of rings that may be locked; 0: as the kernel says. */
static size_t may_lock, locked;
/* An event with copies is refused. */
static int refused;
/* The event of a second ring can't be opened; no ring can be mapped. */
static int lacks_files, lacks_rings;

void *__real_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size);
int __real_privilege_open_event(struct perf_event_attr *attr, int pid, int cpu, int group_fd, unsigned long flags);
int __wrap_privilege_open_event(struct perf_event_attr *attr, int pid, int cpu, int group_fd, unsigned long flags);

void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
	bool counts = may_lock && flags & MAP_SHARED && fd >= 0;

	if (lacks_rings && flags & MAP_SHARED && fd >= 0) {
		errno = lacks_rings;
		return MAP_FAILED;
	}
	if (counts && locked + size > may_lock) {
		errno = EPERM;
		return MAP_FAILED;
	}
	locked += counts ? size : 0;
	return __real_mmap(at, size, prot, flags, fd, offset);
}

int __wrap_munmap(void *at, size_t size)
{
	locked -= may_lock && size <= locked ? size : 0;
	return __real_munmap(at, size);
}

int __wrap_privilege_open_event(struct perf_event_attr *attr, int pid, int cpu, int group_fd, unsigned long flags)
{
	if (refused && attr->sample_stack_user)
		return refused;
	if (lacks_files && attr->config == PERF_COUNT_SW_DUMMY && !attr->mmap)
		return lacks_files;
	return __real_privilege_open_event(attr, pid, cpu, group_fd, flags);
}

/* The largest copy in samples of a clock, whose CPUs are busy, and whether they have registers. */
struct copies {
	size_t samples, with_registers;
};

static void take_copy(void *userdata, size_t event, const struct record *record)
{
	struct copies *copies = userdata;

	if (event == SAMPLER_SIDE_BAND || record->type != PERF_RECORD_SAMPLE || record->id.pid != (uint32_t)getpid())
		return;
	copies->samples++;
	copies->with_registers += record->sample.regs_user.nr && record->sample.stack_user.nr;
}

/* Samples of this process, which is busy until it has some. */
static struct copies sample_self(struct sampler *sampler)
{
	uint64_t end = clock_monotonic_ns() + 60 * (uint64_t)NS_PER_S;
	struct copies copies = {};

	while (copies.samples < 10 && clock_monotonic_ns() < end)
		sampler_drain(sampler, take_copy, &copies);
	assert_true(copies.samples >= 10);
	return copies;
}

static struct sampler *clock_sampler(uint64_t stack_bytes)
{
	char text[] = "cpu-clock";
	struct sampled_variant variant = {
		.text = text,
		.attr.attr = {
			.type = PERF_TYPE_SOFTWARE,
			.size = sizeof(struct perf_event_attr),
			.config = PERF_COUNT_SW_CPU_CLOCK,
		},
	};
	const struct sampled_event event = { .variants = &variant, .nr = 1, .rate = 99, .stack_bytes = stack_bytes };
	_cleanup_(cpulist_release) struct cpulist cpus = {};
	struct sampler *sampler = NULL;
	struct reason why = {};

	find_cpus(&cpus);
	if (sampler_new(&sampler, &event, 1, &cpus, NULL, &why) < 0)
		fail_msg("%s", why.text);
	return sampler;
}

static void test_copies(_unused_ void **state)
{
	struct sampler *sampler;
	struct copies copies;

	needs("perf-cpus");
	sampler = clock_sampler(32768);
	assert_string_equal(sampler_shortage(sampler), "");
	copies = sample_self(sampler);
	assert_int_equal(copies.samples, copies.with_registers);
	sampler_free(sampler);
	sampler = clock_sampler(0);
	copies = sample_self(sampler);
	assert_int_equal(copies.with_registers, 0);
	sampler_free(sampler);
}

/* All rings are halved alike, which is told with the sizes; below the smallest copy there is none. */
static void test_little_locked_memory(_unused_ void **state)
{
	_cleanup_(cpulist_release) struct cpulist cpus = {};
	struct sampler *sampler;
	size_t most;

	needs("perf-cpus");
	find_cpus(&cpus);
	sampler = clock_sampler(32768);
	most = sampler_stats(sampler).ring_bytes;
	sampler_free(sampler);
	may_lock = most * 3 / 4;
	locked = 0;
	sampler = clock_sampler(32768);
	assert_non_null(
		strstr(sampler_shortage(sampler), "copies of stacks have 16384 bytes instead of 32768: this user"));
	assert_true(sampler_stats(sampler).ring_bytes <= may_lock);
	assert_string_equal(sampler_problem(sampler, 0), "");
	assert_true(sample_self(sampler).with_registers >= 10);
	sampler_free(sampler);
	assert_int_equal(locked, 0);
	may_lock = 60 * (size_t)sysconf(_SC_PAGESIZE) * cpus.nr;
	sampler = clock_sampler(32768);
	assert_non_null(
		strstr(sampler_shortage(sampler), "no copies of stacks, which should have 32768 bytes: this user"));
	assert_int_equal(sample_self(sampler).with_registers, 0);
	sampler_free(sampler);
	assert_int_equal(locked, 0);
	/* Then rings without copies are smaller. */
	may_lock = 45 * (size_t)sysconf(_SC_PAGESIZE) * cpus.nr;
	sampler = clock_sampler(32768);
	assert_non_null(strstr(sampler_shortage(sampler), "no copies of stacks"));
	assert_non_null(strstr(sampler_shortage(sampler), "ring buffers are smaller"));
	sampler_free(sampler);
	may_lock = 0;
}

/* Without the second ring of an event there are no copies, and the reason is not locked memory. */
static void test_little_files(_unused_ void **state)
{
	struct sampler *sampler;

	needs("perf-cpus");
	lacks_files = -EMFILE;
	sampler = clock_sampler(32768);
	lacks_files = 0;
	assert_non_null(
		strstr(sampler_shortage(sampler), "no copies of stacks, which should have 32768 bytes: no more files"));
	assert_null(strstr(sampler_shortage(sampler), "memory"));
	assert_int_equal(sample_self(sampler).with_registers, 0);
	sampler_free(sampler);
}

/* A ring that can't be mapped anew is told, as long as it is so; samples go on. */
static void test_ring_that_stays(_unused_ void **state)
{
	uint64_t end = clock_monotonic_ns() + 60 * (uint64_t)NS_PER_S;
	struct sampler *sampler;
	struct copies copies = {};

	needs("perf-cpus");
	sampler = clock_sampler(32768);
	assert_string_equal(sampler_stuck(sampler), "");
	lacks_rings = EPERM;
	while (!sampler_stuck(sampler)[0] && clock_monotonic_ns() < end)
		sampler_drain(sampler, take_copy, &copies);
	assert_non_null(strstr(sampler_stuck(sampler), "stay in ring buffers"));
	assert_non_null(strstr(sampler_stuck(sampler), "LimitMEMLOCK="));
	assert_true(sample_self(sampler).with_registers >= 10);
	lacks_rings = 0;
	while (sampler_stuck(sampler)[0] && clock_monotonic_ns() < end)
		sampler_drain(sampler, take_copy, &copies);
	assert_string_equal(sampler_stuck(sampler), "");
	sampler_free(sampler);
}

static void test_refused_copies(_unused_ void **state)
{
	static const int errors[] = { -EINVAL, -EOPNOTSUPP, -ENOSYS };

	needs("perf-cpus");
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		struct sampler *sampler;

		refused = errors[i];
		sampler = clock_sampler(32768);
		assert_non_null(
			strstr(sampler_shortage(sampler), "samples of cpu-clock have no copies of stacks: the kernel"));
		assert_string_equal(sampler_problem(sampler, 0), "");
		assert_int_equal(sample_self(sampler).with_registers, 0);
		sampler_free(sampler);
	}
	refused = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_counted_and_not_sampled, setup, teardown),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_little_locked_memory),
		cmocka_unit_test(test_refused_copies),
		cmocka_unit_test(test_little_files),
		cmocka_unit_test(test_ring_that_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
