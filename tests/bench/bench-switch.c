/* SPDX-License-Identifier: MIT */

/*
 * What a switch takes between two cgroups: two processes, one in each, pass a byte to and fro by pipes, on one CPU.
 * Prints ns a switch: the least of some rounds, and the mean of all, in which is what happens in some rounds only. They
 * are of the two processes' CPU time, which has all of the switch in it: others who want the CPU do not matter.
 *
 *   bench-switch CPU CGROUP CGROUP PASSES ROUNDS    the cgroups by their cgroup.procs
 */

#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000U

struct side {
	int in, out;
};

static void die(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

static void join(const char *procs)
{
	int fd = open(procs, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "0", 1) != 1)
		die(procs);
	(void)close(fd);
}

static void take(const struct side *side)
{
	char byte;

	if (read(side->in, &byte, 1) != 1)
		die("bench-switch: read");
}

static void give(const struct side *side)
{
	if (write(side->out, "", 1) != 1)
		die("bench-switch: write");
}

/* Of both. */
static uint64_t cpu_ns(pid_t other)
{
	struct timespec own, others;
	clockid_t clock;

	if (clock_getcpuclockid(other, &clock) != 0 || clock_gettime(clock, &others) < 0 ||
	    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own) < 0)
		die("bench-switch: the CPU clocks");
	return (uint64_t)(own.tv_sec + others.tv_sec) * NS_PER_S + (uint64_t)(own.tv_nsec + others.tv_nsec);
}

/* Takes the byte and gives it back, until there is none. */
static void answer(const struct side *side)
{
	char byte;

	while (read(side->in, &byte, 1) == 1)
		give(side);
}

static uint64_t measure_round(const struct side *side, pid_t other, unsigned long passes)
{
	uint64_t begin = cpu_ns(other);

	for (unsigned long i = 0; i < passes; i++) {
		give(side);
		take(side);
	}
	return cpu_ns(other) - begin;
}

int main(int argc, char **argv)
{
	unsigned long cpu = argc == 6 ? strtoul(argv[1], NULL, 10) : CPU_SETSIZE;
	unsigned long passes = argc == 6 ? strtoul(argv[4], NULL, 10) : 0;
	unsigned long rounds = argc == 6 ? strtoul(argv[5], NULL, 10) : 0;
	uint64_t least = UINT64_MAX, sum = 0;
	int to[2], fro[2];
	struct side side;
	cpu_set_t set;
	pid_t other;

	if (cpu >= CPU_SETSIZE || passes == 0 || rounds == 0) {
		fprintf(stderr, "usage: bench-switch CPU CGROUP CGROUP PASSES ROUNDS\n");
		return EXIT_FAILURE;
	}
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0 || pipe(to) < 0 || pipe(fro) < 0)
		die("bench-switch");
	other = fork();
	if (other < 0)
		die("bench-switch: fork");
	if (other == 0) {
		(void)close(to[1]);
		join(argv[3]);
		answer(&(struct side){ .in = to[0], .out = fro[1] });
		return EXIT_SUCCESS;
	}
	join(argv[2]);
	side = (struct side){ .in = fro[0], .out = to[1] };
	/* The first round is not counted. */
	for (unsigned long round = 0; round <= rounds; round++) {
		uint64_t took = measure_round(&side, other, passes);

		least = round > 0 && took < least ? took : least;
		sum += round > 0 ? took : 0;
	}
	(void)close(to[1]);
	(void)waitpid(other, NULL, 0);
	printf("%.1f %.1f\n", (double)least / (double)passes / 2, (double)sum / (double)rounds / (double)passes / 2);
	return EXIT_SUCCESS;
}
