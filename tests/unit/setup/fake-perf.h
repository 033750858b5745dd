/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A kernel for perf events, played by the test: for what the real one can't be made to do (multiplexing without a PMU,
 * each errno, short reads, wrong times). In each program that includes this header it takes the place of syscall(),
 * read(), ioctl(), close() and clock_gettime() (tests/lib/list-sources).
 *
 * CLOCK_MONOTONIC is its own as well: it moves on by 1 us at each look, and by 100 ms with fake_run(). Its fds
 * begin at FAKE_FD and are no fds of the process; all other calls reach the real kernel.
 */

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FAKE_FD 1000000
#define FAKE_MAX 4096

/* Calls that a test can let fail (fake_perf.fault). */
enum fake_call {
	FAKE_OPEN,
	FAKE_READ,
	FAKE_ID,
	FAKE_ENABLE,
	FAKE_FILTER,
	_FAKE_CALL_MAX,
};

/* In place of an errno, of read(2): it returns 0, or a part. */
#define FAKE_EMPTY (-1)
#define FAKE_SHORT (-2)

struct fake_event {
	bool open;
	struct perf_event_attr attr;
	int cpu;
	uint64_t cgroup; /* inode of the cgroup's directory; 0: whole CPU */
	int leader;	 /* index of the leader's fake_event */
	unsigned held;	 /* by how many more than the one who opened it: so often it is closed in vain */
	uint64_t id;
	uint64_t value;
	bool dead; /* it runs, and its value does not rise */
	bool own;  /* of the process itself */
	char filter[64];

	/* Of a leader. */
	bool started; /* PERF_EVENT_IOC_ENABLE was called */
	bool error;   /* it is pinned and did not fit: read(2) returns 0 */
	uint64_t enabled, running;
	int read_errno;	  /* read(2) fails with it */
	ssize_t read_cut; /* >= 0: read(2) returns that many bytes at most; -1: all */
	bool reversed;	  /* members come in the opposite order */
};

struct fake_perf {
	struct fake_event events[FAKE_MAX];
	int nr;		     /* ever opened */
	int nr_open;	     /* now */
	int nr_calls;	     /* of perf_event_open */
	int nr_slow;	     /* tracepoints of which the last event was closed: each is tens of milliseconds */
	unsigned long flags; /* of the last */
	uint64_t clock;	     /* ns */
	uint32_t known_size; /* of perf_event_attr, as far as this kernel knows it; 0: as the headers have it */
	bool strict_size;    /* it refuses a larger size even where the rest is 0, as kernels may */
	int counters; /* of the PMU, for all pinned groups of a CPU; those beyond are in error state; 0: enough */
	/* Of a PMU that lies: so many of them count, and pinned events that start beyond that are dead; 0: all */
	int usable;
	uint32_t dead_types;	/* events of the process itself of these types (1 << type) do not count */
	bool loses_clock;	/* cpu-clock loses what it has counted since a reading when it is stopped */
	uint64_t by_reading;	/* each read(2) of an event lets fake_happen() so much before */
	const char *bad_filter; /* refused by PERF_EVENT_IOC_SET_FILTER */
	/* Asked at each perf_event_open: 0, or the errno it fails with. NULL: none fails. */
	int (*refuse)(const struct fake_event *event, int nr_members);
	/* Asked at each call: 0, or what it fails with. NULL: none fails. */
	int (*fault)(enum fake_call call);
	int error; /* what a refuse() that has a choice fails with */
	int limit; /* of open events, for refuse_beyond_limit() */
};

extern struct fake_perf fake_perf;

void fake_perf_reset(void);

/* Refuses all events with fake_perf.error; only hardware events; those beyond fake_perf.limit, with EMFILE. */
int refuse_all(const struct fake_event *event, int nr_members);
int refuse_hardware(const struct fake_event *event, int nr_members);
int refuse_beyond_limit(const struct fake_event *event, int nr_members);

/* The open event with that type, config, CPU and cgroup; fails the test where there is none. */
struct fake_event *fake_find(uint32_t type, uint64_t config, int cpu, uint64_t cgroup);

/* The same, or NULL. */
struct fake_event *fake_look(uint32_t type, uint64_t config, int cpu, uint64_t cgroup);

/* Another has the event as well, of the same number, as if it had been handed over. */
void fake_hold(int fd);

/* The CPU goes offline, and comes back: the groups on it are taken apart, and count no more. */
void fake_take_apart(int cpu);

/* Lets time pass for all open, started leaders that match cgroup (0: of whole CPUs): enabled ns, of which
 * running; each member's value grows by `by`. */
void fake_run(uint64_t cgroup, int cpu, uint64_t enabled, uint64_t running, uint64_t by);

/* The same of a kernel whose running time is not that of the clock in the group. */
void fake_run_clocked(uint64_t cgroup, int cpu, uint64_t enabled, uint64_t running, uint64_t clock, uint64_t by);

/* Everything that counts happens `by` times more, each time in a microsecond. */
void fake_happen(uint64_t by);
