/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A kernel group that is open on one CPU for one target, and its last reading.
 *
 * A reading adds to the group's row what was counted since the one before. The group keeps the baseline, which is where
 * its counts stood: events count on without the daemon, so that a successor needs nothing but the baseline and the
 * files.
 *
 * A CPU that goes offline takes its groups apart, for good. Their counts up to that moment can still be read, member by
 * member. After that nothing more is counted, also when the CPU is back: its groups have to be opened anew. A single
 * event shows it by its time, which stands still. If nobody looked at that, a CPU would never be counted again after it
 * was offline between two readings: system/test_hotplug.py,
 * test_a_cpu_that_is_offline_between_two_readings_is_found_out.
 */

#include "base/host/cpu-freq.h"
#include "counting/engine/account.h"
#include "counting/engine/perf/level.h"
#include "counting/engine/perf/open.h"
#include "counting/engine/perf/run-clock.h"
#include "counting/totals/estimate.h"

struct perf_group {
	struct totals_row *row;
	int cpu;
	bool clocked;  /* its last event is its clock (run-clock.h) */
	int *fds;      /* the leader's first; -1 where it is not open */
	uint64_t *ids; /* the kernel's ids, in the order of fds, by which read(2) names values */
	struct baseline base;
	/* The last reading's times, for the exposed ones; the baseline can lag behind. */
	uint64_t enabled, running, clock;
	uint64_t read_at;  /* CLOCK_MONOTONIC ns of that reading, or of the start */
	uint64_t base_at;  /* … of the baseline */
	uint64_t moved_at; /* … of the last reading at which its enabled time had gone on */
	bool started;
	uint8_t refusals; /* readings in a row that are wrong, and stay so */
	bool starved;	  /* it is pinned, had no counters, and has not been seen to run again */
	bool offline;	  /* not open: its CPU was offline when that was tried */
	bool dead;  /* nothing more comes: its CPU has been offline, and all has been read; or another has it now */
	bool still; /* no time went by between the last two readings, which of a CPU says the same */
	enum observation observation; /* of the last reading; in a shared set, of the CPU's reading that feeds it */
};

/* The kernel's answer; then values, deltas and limits in the order of fds. */
#define READING_WORDS(nr_events) (3 + 5 * (nr_events))

/* The part of a reading that is the same for all groups of a set. */
struct reading_context {
	struct account own;  /* of the set; each group has its row */
	struct account also; /* a second one, of a set with the same members: a CPU feeds the root cgroup */
	uint64_t at;	     /* CLOCK_MONOTONIC ns */
	bool last;	     /* it is closed after it */
	bool deferred;	     /* groups that are not open have not been tried yet, and were not counted before */
	struct engine_stats *stats;
	struct cpu_freqs *freqs;
	bool *doubtful;		  /* this kernel's running times of cgroups have been found false */
	struct perf_level *level; /* of the target's set; NULL: it is not compared with others */
	struct perf_level *all;	  /* of which it is a part; or NULL */
	struct cpulist *lost;	  /* gets CPUs on which groups turn out to have been taken apart */
	uint64_t *buffer;	  /* READING_WORDS() of the set's events */
};

static inline bool perf_group_is_open(const struct perf_group *group)
{
	return group->fds[0] >= 0;
}

/* All that follow want a group's number of events, as perf_groups has it. */

/* Opens the set without starting it. Negative errno, and nothing is open: of perf_open(), with the number of the
 * event that failed (set_event()). */
int perf_group_open(struct perf_group *group, const struct scope_plan *plan, const struct set *set, int cgroup_fd,
		    struct engine_stats *stats, size_t *ret_at);
void perf_group_start(struct perf_group *group, uint64_t now);
void perf_group_close(struct perf_group *group, size_t nr, struct engine_stats *stats);
void perf_group_close_by(struct perf_group *group, size_t nr, struct async_close *closer, struct engine_stats *stats);

/* Moves the open events of a group to one of an equal set, where they count on from their baseline. The old group is
 * dead then. */
void perf_group_move(struct perf_group *to, struct perf_group *from, size_t nr);

/* Reads the group without adding anything to its row, into ret, whose values are the caller's. False: it can't be
 * read. */
bool perf_group_look(struct perf_group *group, size_t nr, uint64_t *buffer, struct baseline *ret);

/* Reads, and adds to the row. */
enum observation perf_group_update(struct perf_group *group, const struct reading_context *context);
