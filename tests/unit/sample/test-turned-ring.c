/* SPDX-License-Identifier: MIT */

/* Samples with copies of stacks, from the kernel: none is lost where rings are turned, and nothing of them stays. */

#include "base/util/clock.h"
#include "profiler/sample/sample-attr.h"
#include "profiler/sample/turned-ring.h"
#include "setup/needs.h"

#include <dirent.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COPY 8192
/* The secret is made of these, so that it is on the stack alone. */
#define WORDS 32
#define SECRET(i) (0x5ec2e7c0de000000ULL + 7919 * (i))

struct world {
	int epoll_fd, fd;
	struct turned_ring ring;
	struct record_format format;
	struct ring_turns *turns;
	size_t secrets; /* samples of this process with the secret */
	uint64_t last;	/* the time of the latest sample of this process */
};

/* Page faults of this process are samples: as many as are made. */
static int setup(void **state)
{
	struct sampled_variant variant = {
		.attr.attr = {
			.type = PERF_TYPE_SOFTWARE,
			.size = sizeof(struct perf_event_attr),
			.config = PERF_COUNT_SW_PAGE_FAULTS,
		},
	};
	const struct sampled_event event = { .variants = &variant, .nr = 1, .period = 1 };
	struct ring_size size = ring_size_of(&event, COPY);
	const struct sample_request request = { .copy = COPY, .watermark = size.watermark };
	struct world *world = calloc(1, sizeof(*world));
	int cpu = sched_getcpu();
	union event_attr attr;
	cpu_set_t set;

	assert_non_null(world);
	*state = world;
	world->fd = world->epoll_fd = -1;
	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
	sample_attr_event(&attr, &event, &variant, &request);
	world->format = sample_attr_format(&attr);
	world->fd = (int)syscall(SYS_perf_event_open, &attr.attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (world->fd < 0)
		return 0; /* this process may not sample CPUs */
	world->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	assert_int_equal(ring_turns_new(&world->turns, 1), 0);
	assert_int_equal(turned_ring_open(&world->ring, world->epoll_fd, world->fd, cpu, &size, 4 * size.pages), 0);
	assert_int_equal(ioctl(world->fd, PERF_EVENT_IOC_ENABLE, 0), 0);
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	ring_turns_free(world->turns);
	turned_ring_close(&world->ring);
	turned_ring_close(&world->ring);
	safe_close(world->fd);
	safe_close(world->epoll_fd);
	free(world);
	return 0;
}

static bool has_secret(const unsigned char *at, size_t size)
{
	for (size_t i = 0; i + 2 * sizeof(uint64_t) <= size; i += sizeof(uint64_t)) {
		uint64_t words[2];

		memcpy(words, at + i, sizeof(words));
		if (words[0] == SECRET(1) && words[1] == SECRET(2))
			return true;
	}
	return false;
}

static bool rings_have_secret(const struct turned_ring *ring)
{
	bool found = false;

	for (size_t i = 0; i < ARRAY_SIZE(ring->rings); i++)
		found |= ring->rings[i].page && has_secret(ring->rings[i].data, ring->rings[i].size);
	return found;
}

/* A page fault with a secret on the stack. */
static __attribute__((noinline)) void fault(unsigned char *page)
{
	uint64_t secret[WORDS];

	for (size_t i = 0; i < WORDS; i++)
		secret[i] = SECRET(i);
	__asm__ volatile("" : : "r"(secret) : "memory");
	*(volatile unsigned char *)page = 1;
	explicit_bzero(secret, sizeof(secret));
}

static void make_faults(size_t nr)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *memory = mmap(NULL, nr * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(memory != MAP_FAILED);
	(void)madvise(memory, nr * page, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < nr; i++)
		fault(memory + i * page);
	(void)munmap(memory, nr * page);
}

static void drain(struct world *world)
{
	uint64_t looked;
	struct record record;
	const void *data;
	size_t size;

	turned_ring_look(&world->ring);
	looked = clock_monotonic_ns();
	while ((data = turned_ring_peek(&world->ring, &size))) {
		assert_int_equal(record_parse(&record, &world->format, data, size), 0);
		if (record.type == PERF_RECORD_SAMPLE && record.id.pid == (uint32_t)getpid()) {
			const struct record_array *stack = &record.sample.stack_user;

			/* None comes twice. */
			assert_true(record.id.time > world->last);
			world->last = record.id.time;
			world->secrets += has_secret(stack->at, stack->nr);
		}
		turned_ring_take(&world->ring, size);
	}
	ring_turns_step(world->turns, &world->ring, looked, ring_turns_begin(world->turns));
	ring_turns_end(world->turns);
}

/* The secret is in copies, and gone a second after them. */
static void test_nothing_stays(void **state)
{
	struct world *world = *state;
	bool was_there = false;
	uint64_t end;

	needs("perf-cpus");
	assert_true(world->fd >= 0);
	/* Other processes on this CPU can fill the ring. */
	while (world->secrets < 10) {
		make_faults(10);
		was_there |= rings_have_secret(&world->ring);
		drain(world);
	}
	assert_true(was_there);
	/* Others may have page faults: the state that is waited for is that of no secret. */
	end = clock_monotonic_ns() + 60 * (uint64_t)NS_PER_S;
	while (rings_have_secret(&world->ring)) {
		assert_true(clock_monotonic_ns() < end);
		(void)usleep(20000);
		drain(world);
	}
}

/* The number of this process's threads, and the sum of their ids. */
static void count_threads(size_t *ret_nr, unsigned long *ret_sum)
{
	_cleanup_(closedirp) DIR *tasks = opendir("/proc/self/task");
	const struct dirent *task;

	assert_non_null(tasks);
	*ret_nr = *ret_sum = 0;
	while ((task = readdir(tasks)))
		if (task->d_name[0] != '.') {
			(*ret_nr)++;
			*ret_sum += strtoul(task->d_name, NULL, 10);
		}
}

/* Waits for so many turns. */
static void turn(struct world *world, size_t turns)
{
	while (turns > 0) {
		unsigned first = world->ring.first;

		make_faults(5);
		drain(world);
		turns -= world->ring.first != first;
		(void)usleep(5000);
	}
}

/* A child that is forked while a thread begins or ends may find locks of the allocator held (thread.h). */
static void test_thread_stays(void **state)
{
	unsigned long sum, sum_later;
	struct world *world = *state;
	size_t nr, nr_later;

	needs("perf-cpus");
	assert_true(world->fd >= 0);
	count_threads(&nr, &sum);
	turn(world, 1);
	count_threads(&nr_later, &sum);
	assert_int_equal(nr_later, nr + 1);
	turn(world, 2);
	count_threads(&nr_later, &sum_later);
	assert_int_equal(nr_later, nr + 1);
	assert_int_equal(sum_later, sum);
}

/* Each is a sample, over many turns. */
static void test_none_is_lost(void **state)
{
	struct world *world = *state;
	size_t nr = 0, turns = 0;
	unsigned first = 0;
	uint64_t values[2];

	needs("perf-cpus");
	assert_true(world->fd >= 0);
	while (turns < 4) {
		make_faults(5);
		nr += 5;
		drain(world);
		turns += world->ring.first != first;
		first = world->ring.first;
		(void)usleep(5000);
	}
	drain(world);
	assert_int_equal(read(world->fd, values, sizeof(values)), sizeof(values));
	/* Other processes on this CPU can fill the ring. A fault that the kernel begins anew is a second sample. */
	assert_true(world->secrets + values[1] >= nr);
	assert_int_equal(turned_ring_broken(&world->ring), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing_stays, setup, teardown),
		cmocka_unit_test_setup_teardown(test_none_is_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(test_thread_stays, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
