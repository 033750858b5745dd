/* SPDX-License-Identifier: MIT */

/*
 * Has a BPF program (floor.bpf.c) read the CPUs' events at each switch, until its standard input ends. Prints a line
 * when that has begun. Exits with 2 where the events can't be opened.
 *
 *   bench-floor hardware|software
 */

#include "tests/bench/floor.skel.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>

#define EXIT_NO_EVENTS 2
#define MAX_EVENTS 5

/* Those of the default config. */
static const struct kind {
	const char *name;
	__u32 type;
	__u32 nr;
	__u64 configs[MAX_EVENTS];
} kinds[] = {
	{ "hardware",
	  PERF_TYPE_HARDWARE,
	  4,
	  { PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_CACHE_MISSES,
	    PERF_COUNT_HW_BRANCH_MISSES } },
	{ "software",
	  PERF_TYPE_SOFTWARE,
	  5,
	  { PERF_COUNT_SW_TASK_CLOCK, PERF_COUNT_SW_CONTEXT_SWITCHES, PERF_COUNT_SW_CPU_MIGRATIONS,
	    PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_PAGE_FAULTS_MAJ } },
};

static void die(const char *what, int status)
{
	perror(what);
	exit(status);
}

/* One group on each CPU, as the daemon has it. */
static void open_group(const struct floor *floor, const struct kind *kind, int cpu)
{
	int leader = -1;

	for (__u32 i = 0; i < kind->nr; i++) {
		struct perf_event_attr attr = {
			.size = sizeof(attr),
			.type = kind->type,
			.config = kind->configs[i],
			.disabled = leader < 0,
			.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING |
				       PERF_FORMAT_GROUP | PERF_FORMAT_ID,
		};
		int fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, leader, PERF_FLAG_FD_CLOEXEC);
		__u32 key = (__u32)cpu * kind->nr + i;

		if (fd < 0)
			die("bench-floor: perf_event_open", EXIT_NO_EVENTS);
		if (bpf_map_update_elem(bpf_map__fd(floor->maps.events), &key, &fd, BPF_ANY) < 0)
			die("bench-floor: the map of events", EXIT_FAILURE);
		leader = leader < 0 ? fd : leader;
	}
	if (ioctl(leader, PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP) < 0)
		die("bench-floor: the events' start", EXIT_FAILURE);
}

static const struct kind *find_kind(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	fprintf(stderr, "usage: bench-floor hardware|software\n");
	exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
	const struct kind *kind = find_kind(argc > 1 ? argv[1] : "");
	int nr_cpus = (int)sysconf(_SC_NPROCESSORS_CONF);
	struct floor *floor = floor__open();
	char end;

	if (!floor)
		die("bench-floor: libbpf", EXIT_FAILURE);
	floor->rodata->nr_events = kind->nr;
	if (bpf_map__set_max_entries(floor->maps.events, (__u32)nr_cpus * kind->nr) < 0 || floor__load(floor) < 0)
		die("bench-floor: loading", EXIT_FAILURE);
	for (int cpu = 0; cpu < nr_cpus; cpu++)
		open_group(floor, kind, cpu);
	if (floor__attach(floor) < 0)
		die("bench-floor: attaching", EXIT_FAILURE);
	printf("reading\n");
	(void)fflush(stdout);
	(void)!read(STDIN_FILENO, &end, 1);
	floor__destroy(floor);
	return EXIT_SUCCESS;
}
