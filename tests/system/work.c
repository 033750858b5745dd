/* SPDX-License-Identifier: MIT */

/*
 * Work of known size, for tests that compare counters with it. One command a line on standard input, each
 * answered by one line on standard output when it is done; in between the process sleeps in read(2), so that
 * what is counted between two commands is one command's work and nothing else. The end of input ends it.
 *
 *   pin CPU        runs on that CPU from now on
 *   fork           makes a partner for `switches`; answers its pid
 *   faults N       touches N fresh pages, one by one: N page faults
 *   yields N       the same, and gives its CPU away after each
 *   switches N     N round trips over a pair of pipes to the partner: on one CPU at least 2 N switches
 *   ticks HZ MS    sleeps HZ times a second for MS milliseconds: about HZ switches a second
 *   stalls         sleeps for 1 ms again and again until there is another line of input, which it takes; answers by how
 *                  many ns it was woken up late at most
 *   cpu MS         works until the thread has used MS milliseconds of CPU; answers the ns used
 *   instructions N runs N instructions in user mode, rounded up to thousands; answers how many
 *   bursts N PER US
 *                  the same, in bursts of PER instructions, between which it sleeps for US µs
 *   forks N EACH   forks N times, one after the other; each child runs EACH instructions, and ends; answers how many
 *                  all have run
 *   enter 0 0 0 PATH
 *                  moves itself into that cgroup
 *   getppid N      calls getppid(2) N times
 *   tsc            answers the CPU's time stamp counter
 *   watched        answers the address of a variable of 8 bytes
 *   write N        writes that variable N times
 *   probed N       calls the function probed() of this program N times
 *   btf N          reads the first byte of the kernel's BTF N times
 *   getsid N       calls the C library's getsid(3) N times, for process 0, 1, 0, 1, …
 *   churn N FAULTS US PATH
 *                  makes the cgroups PATH0, PATH1, … PATH(N-1), one after the other: enters each, sleeps for US µs,
 *                  touches FAULTS fresh pages, and removes it once it is in the next; it ends in the cgroup that
 *                  they are in
 *
 * A command should be given once with a small number before it is measured, so that code and stack have
 * been touched. This program is never built with a sanitizer: shadow memory has page faults of its own.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000U
#define NS_PER_MS 1000000U

struct partner {
	pid_t pid;
	int to, from;
};

/* What has been read, from the beginning of a line on. A read of each byte would take ten thousand instructions. */
static struct {
	char text[PATH_MAX + 128];
	size_t length;
} input;

/* Up to its line feed, which is cut off. False: there is no more. */
static bool read_line(char line[static sizeof(input.text)])
{
	char *end;
	size_t length;

	while (!(end = memchr(input.text, '\n', input.length))) {
		ssize_t n = read(STDIN_FILENO, input.text + input.length, sizeof(input.text) - input.length);

		if (n <= 0)
			return false;
		input.length += (size_t)n;
	}
	length = (size_t)(end - input.text);
	memcpy(line, input.text, length);
	line[length] = '\0';
	input.length -= length + 1;
	memmove(input.text, end + 1, input.length);
	return true;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	(void)clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static int do_pin(uint64_t cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) < 0 ? -errno : 0;
}

/* Sends every byte back, until the other end of the pipe is closed. */
static void be_partner(int from, int to)
{
	char byte;

	while (read(from, &byte, 1) == 1)
		if (write(to, &byte, 1) != 1)
			break;
	_exit(0);
}

static int do_fork(struct partner *partner)
{
	int there[2], back[2];

	if (partner->pid > 0)
		return -EALREADY;
	if (pipe(there) < 0 || pipe(back) < 0)
		return -errno;
	partner->pid = fork();
	if (partner->pid < 0)
		return -errno;
	if (partner->pid == 0) {
		close(there[1]);
		close(back[0]);
		be_partner(there[0], back[1]);
	}
	close(there[0]);
	close(back[1]);
	partner->to = there[1];
	partner->from = back[0];
	return 0;
}

static int do_switches(const struct partner *partner, uint64_t nr)
{
	char byte = 'x';

	if (partner->pid <= 0)
		return -ESRCH;
	for (uint64_t i = 0; i < nr; i++)
		if (write(partner->to, &byte, 1) != 1 || read(partner->from, &byte, 1) != 1)
			return -EPIPE;
	return 0;
}

static int do_faults(uint64_t nr, bool yields)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = nr * page;
	volatile char *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		return -errno;
	for (size_t at = 0; at < size; at += page) {
		pages[at] = 1;
		if (yields)
			(void)sched_yield();
	}
	return munmap((void *)(uintptr_t)pages, size) < 0 ? -errno : 0;
}

static int do_ticks(uint64_t hz, uint64_t ms)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC), nr = hz * ms / 1000;

	if (hz == 0)
		return -EINVAL;
	for (uint64_t i = 1; i <= nr; i++) {
		uint64_t at = start + i * NS_PER_S / hz;
		struct timespec ts = { .tv_sec = (time_t)(at / NS_PER_S), .tv_nsec = (long)(at % NS_PER_S) };

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
			;
	}
	return 0;
}

static uint64_t do_stalls(void)
{
	const struct timespec ms = { .tv_nsec = NS_PER_MS };
	struct pollfd more = { .fd = STDIN_FILENO, .events = POLLIN };
	uint64_t longest = NS_PER_MS;

	while (input.length == 0 && poll(&more, 1, 0) == 0) {
		uint64_t start = clock_ns(CLOCK_MONOTONIC), slept;

		(void)nanosleep(&ms, NULL);
		slept = clock_ns(CLOCK_MONOTONIC) - start;
		longest = slept > longest ? slept : longest;
	}
	return longest - NS_PER_MS;
}

static uint64_t do_cpu(uint64_t ms)
{
	uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID), used;

	do {
		for (volatile unsigned i = 0; i < 20000; i++)
			;
		used = clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
	} while (used < ms * NS_PER_MS);
	return used;
}

/* Turns of a loop of a thousand instructions, nearly all of them additions that wait for each other. */
#if defined(__x86_64__)
#define THOUSAND_INSTRUCTIONS "1: .rept 998\n\tadd %%rax, %%rax\n\t.endr\n\tsub $1, %0\n\tjnz 1b"
#define CLOBBERED "rax", "cc"
#elif defined(__aarch64__)
#define THOUSAND_INSTRUCTIONS "1: .rept 998\n\tadd x9, x9, x9\n\t.endr\n\tsubs %0, %0, #1\n\tb.ne 1b"
#define CLOBBERED "x9", "cc"
#endif

static int do_instructions(uint64_t nr, uint64_t *ret)
{
#ifdef THOUSAND_INSTRUCTIONS
	uint64_t turns = nr / 1000 + (nr % 1000 > 0 || nr == 0);

	*ret = turns * 1000;
	__asm__ volatile(THOUSAND_INSTRUCTIONS : "+r"(turns) : : CLOBBERED);
	return 0;
#else
	(void)nr;
	(void)ret;
	return -EOPNOTSUPP;
#endif
}

static int do_bursts(uint64_t nr, uint64_t per, uint64_t us, uint64_t *ret)
{
	const struct timespec pause = { .tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000 * 1000) };
	uint64_t done = 0, some = 0;
	int r = per > 0 ? 0 : -EINVAL;

	while (r == 0 && done < nr) {
		r = do_instructions(per, &some);
		done += some;
		(void)nanosleep(&pause, NULL);
	}
	*ret = done;
	return r;
}

static int do_forks(uint64_t nr, uint64_t each, uint64_t *ret)
{
	uint64_t some = 0;
	int r = 0;

	for (uint64_t i = 0; r == 0 && i < nr; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(do_instructions(each, &some) < 0);
		if (pid < 0 || waitpid(pid, NULL, 0) < 0)
			r = -errno;
	}
	*ret = nr * ((each + 999) / 1000 * 1000);
	return r;
}

static void do_getppid(uint64_t nr)
{
	for (uint64_t i = 0; i < nr; i++)
		(void)syscall(SYS_getppid);
}

static int read_tsc(uint64_t *ret)
{
#if defined(__x86_64__) || defined(__i386__)
	*ret = __builtin_ia32_rdtsc();
	return 0;
#else
	(void)ret;
	return -EOPNOTSUPP;
#endif
}

/* For a breakpoint. */
static volatile uint64_t watched;

static void do_write(uint64_t nr)
{
	for (uint64_t i = 0; i < nr; i++)
		watched = i;
}

/* For a uprobe: a symbol of this name, entered once a call. */
int probed(int n);
__attribute__((noinline)) int probed(int n)
{
	__asm__ volatile("" : "+r"(n));
	return n + 1;
}

static void do_probed(uint64_t nr)
{
	for (uint64_t i = 0; i < nr; i++)
		(void)probed((int)i);
}

static void do_getsid(uint64_t nr)
{
	for (uint64_t i = 0; i < nr; i++)
		(void)getsid((pid_t)(i % 2));
}

static int do_btf(uint64_t nr)
{
	int fd = open("/sys/kernel/btf/vmlinux", O_RDONLY | O_CLOEXEC), r = fd < 0 ? -errno : 0;
	char byte;

	for (uint64_t i = 0; r == 0 && i < nr; i++)
		if (pread(fd, &byte, 1, 0) != 1)
			r = -EIO;
	if (fd >= 0)
		close(fd);
	return r;
}

static int enter(const char *cgroup)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup), fd, r;

	if (n < 0 || n >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Process 0 is the one that writes. */
	r = write(fd, "0", 1) == 1 ? 0 : -errno;
	close(fd);
	return r;
}

/* A removed cgroup can look busy for a moment after the last task has left. */
static int remove_cgroup(const char *path)
{
	while (rmdir(path) < 0)
		if (errno != EBUSY)
			return -errno;
	return 0;
}

/* The path of number i; after the last, that of the cgroup they are in. */
static int name_churned(char ret[static PATH_MAX], const char *prefix, uint64_t i, uint64_t nr)
{
	int n = i < nr ? snprintf(ret, PATH_MAX, "%s%" PRIu64, prefix, i) :
			 snprintf(ret, PATH_MAX, "%.*s", (int)(strrchr(prefix, '/') - prefix), prefix);

	return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

static int do_churn(uint64_t nr, uint64_t faults, uint64_t us, const char *prefix)
{
	const struct timespec wait = { .tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000 * 1000) };
	char before[PATH_MAX] = "", path[PATH_MAX];
	int r = strchr(prefix, '/') ? 0 : -EINVAL;

	for (uint64_t i = 0; r == 0 && i <= nr; i++) {
		r = name_churned(path, prefix, i, nr);
		if (r == 0 && i < nr && mkdir(path, 0755) < 0)
			r = -errno;
		if (r == 0)
			r = enter(path);
		if (r == 0 && i > 0)
			r = remove_cgroup(before);
		if (r == 0 && i < nr && us > 0)
			(void)nanosleep(&wait, NULL);
		if (r == 0 && i < nr)
			r = do_faults(faults, false);
		strcpy(before, path);
	}
	return r;
}

struct command {
	char name[16];
	uint64_t number[3];
	char text[PATH_MAX]; /* what stands after the numbers */
};

/* *answer is what the command has to say, or its own argument. */
static int run_command(struct partner *partner, const struct command *command, uint64_t *answer)
{
	const char *name = command->name;
	uint64_t first = command->number[0], second = command->number[1];
	int r = 0;

	*answer = first;
	if (strcmp(name, "pin") == 0) {
		r = do_pin(first);
	} else if (strcmp(name, "fork") == 0) {
		r = do_fork(partner);
		*answer = (uint64_t)partner->pid;
	} else if (strcmp(name, "faults") == 0) {
		r = do_faults(first, false);
	} else if (strcmp(name, "yields") == 0) {
		r = do_faults(first, true);
	} else if (strcmp(name, "switches") == 0) {
		r = do_switches(partner, first);
	} else if (strcmp(name, "ticks") == 0) {
		r = do_ticks(first, second);
	} else if (strcmp(name, "stalls") == 0) {
		*answer = do_stalls();
	} else if (strcmp(name, "cpu") == 0) {
		*answer = do_cpu(first);
	} else if (strcmp(name, "instructions") == 0) {
		r = do_instructions(first, answer);
	} else if (strcmp(name, "bursts") == 0) {
		r = do_bursts(first, second, command->number[2], answer);
	} else if (strcmp(name, "forks") == 0) {
		r = do_forks(first, second, answer);
	} else if (strcmp(name, "enter") == 0) {
		r = enter(command->text);
	} else if (strcmp(name, "getppid") == 0) {
		do_getppid(first);
	} else if (strcmp(name, "tsc") == 0) {
		r = read_tsc(answer);
	} else if (strcmp(name, "watched") == 0) {
		*answer = (uintptr_t)&watched;
	} else if (strcmp(name, "write") == 0) {
		do_write(first);
	} else if (strcmp(name, "probed") == 0) {
		do_probed(first);
	} else if (strcmp(name, "btf") == 0) {
		r = do_btf(first);
	} else if (strcmp(name, "getsid") == 0) {
		do_getsid(first);
	} else if (strcmp(name, "churn") == 0) {
		r = do_churn(first, second, command->number[2], command->text);
	} else {
		r = -ENOSYS;
	}
	return r;
}

int main(void)
{
	struct partner partner = {};
	char line[sizeof(input.text)];

	/* One page, one fault: none of them backed by a larger page. */
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) < 0)
		return EXIT_FAILURE;
	while (read_line(line)) {
		struct command command = {};
		uint64_t answer;
		int r;

		if (sscanf(line, "%15s %" SCNu64 " %" SCNu64 " %" SCNu64 " %4095s", command.name, &command.number[0],
			   &command.number[1], &command.number[2], command.text) < 1)
			continue;
		r = run_command(&partner, &command, &answer);
		if (r < 0)
			dprintf(STDOUT_FILENO, "error %s: %s\n", command.name, strerror(-r));
		else
			dprintf(STDOUT_FILENO, "ok %" PRIu64 "\n", answer);
	}
	return EXIT_SUCCESS;
}
