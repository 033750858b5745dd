/* SPDX-License-Identifier: MIT */

/*
 * Work of known size in the guest: `load STEP…`, its steps done in the order given. What is counted between
 * `join` and `leave` is the steps between them and a few dozen instructions of this program, since nothing
 * is parsed or printed there.
 *
 *   pin:CPU            runs on that CPU from now on
 *   alone              no other program runs on its CPU from now on, unless it waits (SCHED_FIFO)
 *   nice:N             has the nice value N from now on
 *   join:CGROUP        moves itself into the cgroup, a path below the mount
 *   leave              moves itself into the root again
 *   instructions:N     N instructions in user mode, half of them branches
 *   getsid:N           calls getsid(2) N times
 *   write:N, read:N    writes to the variable `watched`, or reads it, N times
 *   call:N             calls the function `called` N times
 *   yield:N[:EACH]     N times: EACH (YIELD_INSTRUCTIONS) instructions, and lets another task run
 *   cpu:MS             works until it has used MS milliseconds of CPU
 *   touch:N            touches N pages for the first time
 *
 * Linked statically and at fixed addresses: `nm` says where `watched` is.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CGROUP_ROOT "/sys/fs/cgroup"
#define STEPS_MAX 32
#define YIELD_INSTRUCTIONS 2000
#define NS_PER_S 1000000000U
#define NS_PER_MS 1000000U

extern volatile uint32_t watched;
volatile uint32_t watched;

extern void called(void);

struct step {
	int (*run)(const struct step *step);
	uint64_t number;
	uint64_t each; /* instructions of a turn */
	int fd;	       /* cgroup.procs */
	volatile char *pages;
};

static int do_pin(const struct step *step)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(step->number, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

static int do_alone(const struct step *step)
{
	const struct sched_param first = { .sched_priority = 1 };

	(void)step;
	return sched_setscheduler(0, SCHED_FIFO, &first);
}

static int do_nice(const struct step *step)
{
	return setpriority(PRIO_PROCESS, 0, (int)step->number);
}

static int do_join(const struct step *step)
{
	return write(step->fd, "0", 1) < 0 ? -1 : 0;
}

/* The loop has two instructions. */
static int do_instructions(const struct step *step)
{
	uint64_t left = step->number / 2;

	__asm__ volatile("1: subs %0, %0, #1\n\tb.ne 1b" : "+r"(left) : : "cc");
	return 0;
}

/* The loop around the two has about ten instructions, and a system call's way in and out. */
static int do_yield(const struct step *step)
{
	const struct step some = { .number = step->each };

	for (uint64_t i = 0; i < step->number; i++) {
		(void)do_instructions(&some);
		(void)sched_yield();
	}
	return 0;
}

static int do_getsid(const struct step *step)
{
	for (uint64_t i = 0; i < step->number; i++)
		(void)syscall(SYS_getsid, 0);
	return 0;
}

static int do_write(const struct step *step)
{
	for (uint64_t i = 0; i < step->number; i++)
		watched = (uint32_t)i;
	return 0;
}

static int do_read(const struct step *step)
{
	for (uint64_t i = 0; i < step->number; i++)
		(void)watched;
	return 0;
}

__attribute__((noinline)) void called(void)
{
	__asm__ volatile("");
}

static int do_call(const struct step *step)
{
	for (uint64_t i = 0; i < step->number; i++)
		called();
	return 0;
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static int do_cpu(const struct step *step)
{
	const struct step some = { .number = 20000 };
	uint64_t end = cpu_ns() + step->number * NS_PER_MS;

	while (cpu_ns() < end)
		(void)do_instructions(&some);
	return 0;
}

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static int do_touch(const struct step *step)
{
	size_t page = page_size();

	for (uint64_t i = 0; i < step->number; i++)
		step->pages[i * page] = 1;
	return 0;
}

static const struct {
	const char *name;
	int (*run)(const struct step *step);
} kinds[] = {
	{ "pin", do_pin },	 { "join", do_join },	{ "leave", do_join },  { "instructions", do_instructions },
	{ "getsid", do_getsid }, { "write", do_write }, { "read", do_read },   { "call", do_call },
	{ "cpu", do_cpu },	 { "yield", do_yield }, { "touch", do_touch }, { "alone", do_alone },
	{ "nice", do_nice },
};

/* Opens what has to be opened, so that nothing of it is measured. */
static int parse_step(struct step *ret, char *text)
{
	char path[256], *value = strchr(text, ':');

	if (value)
		*value++ = '\0';
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].name, text) == 0)
			ret->run = kinds[i].run;
	if (!ret->run)
		return -1;
	if (ret->run == do_join) {
		(void)snprintf(path, sizeof(path), CGROUP_ROOT "/%s/cgroup.procs", value ? value : "");
		ret->fd = open(path, O_WRONLY | O_CLOEXEC);
		return ret->fd < 0 ? -1 : 0;
	}
	if (ret->run == do_alone)
		return 0;
	ret->each = YIELD_INSTRUCTIONS;
	if (!value || sscanf(value, "%" SCNu64 ":%" SCNu64, &ret->number, &ret->each) < 1)
		return -1;
	if (ret->run != do_touch)
		return 0;
	ret->pages = mmap(NULL, ret->number * page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return ret->pages == MAP_FAILED ? -1 : 0;
}

int main(int argc, char *argv[])
{
	struct step steps[STEPS_MAX] = {};
	int nr = argc - 1;

	if (nr > STEPS_MAX)
		return EXIT_FAILURE;
	for (int i = 0; i < nr; i++)
		if (parse_step(&steps[i], argv[i + 1]) < 0) {
			perror(argv[i + 1]);
			return EXIT_FAILURE;
		}
	for (int i = 0; i < nr; i++)
		if (steps[i].run(&steps[i]) < 0) {
			perror(argv[i + 1]);
			return EXIT_FAILURE;
		}
	return EXIT_SUCCESS;
}
