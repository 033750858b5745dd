/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A kernel group that is open on one CPU for one target, and what has been read of it.
 *
 * Reading adds what was counted since the last reading to the reader's row. Where the counts stand, the baseline, is
 * kept here: it is what goes on counting without the daemon, and so all that a successor needs beside the fds.
 *
 * A CPU that goes offline takes its groups apart, for good. What they have counted until then can still be read, each
 * member by itself, and after that nothing can come any more: also when the CPU is back, its groups have to be opened
 * anew.
 */

#include "count/engine.h"
#include "count/estimate.h"

/* What a reading says about whether its row's cells are known. */
enum sight {
	SIGHT_NOTHING, /* nothing (more) has happened there: its CPU is, or was, offline, or it is not started yet */
	SIGHT_NONE,    /* never enabled there: a true 0 */
	SIGHT_PENDING, /* enabled and never run: unknown */
	SIGHT_SEEN,
	SIGHT_LOST,    /* could not be opened, or not be read */
};

struct reader {
	struct row *row;
	int cpu;
	int *fds;	/* the leader's first; -1 where it is not open */
	uint64_t *ids;	/* the kernel's, in the order of fds: values are told apart by them */
	struct baseline base;
	/* The last reading's times, for the exposed ones; the baseline can lag behind. */
	uint64_t enabled, running;
	uint64_t read_at; /* CLOCK_MONOTONIC ns of it, or of the start */
	uint64_t base_at; /* … of the baseline */
	bool started;
	bool starved; /* it is pinned, had no counters, and has not been seen to run again */
	bool offline; /* not open: its CPU was offline when that was tried */
	bool dead;    /* nothing more comes: its CPU has been offline, and all has been read; or another has it now */
	bool still;   /* no time went by between the last two readings, which of a CPU says the same */
	enum sight sight; /* of the last reading, where that is the CPU's and feeds this one's row as well */
};

/* A row's set, to which a reading is added, and the finding that hears of it. */
struct sink {
	struct row *row; /* NULL: none */
	const struct set *set;
	size_t set_at; /* its number in the plan */
	struct finding *finding;
};

/* What readings of a set need beside the reader. */
struct reading_context {
	struct sink also; /* a second one, of a set with the same members: a CPU feeds the root cgroup */
	const struct set *set;
	size_t set_at; /* its number in the plan */
	uint64_t at;   /* CLOCK_MONOTONIC ns */
	bool last;     /* it is closed after it */
	bool deferred; /* what is not open has not been tried yet: so far it was not counted either */
	struct finding *finding;
	struct engine_stats *stats;
	struct cpulist *lost; /* gets CPUs on which groups turn out to have been taken apart */
	uint64_t *buffer; /* 3 + 4 × the set's members */
};

static inline bool reader_is_open(const struct reader *reader)
{
	return reader->fds[0] >= 0;
}

/* Opens the set without starting it. Negative errno, and nothing is open: of perf_open(), with the number of the
 * member that failed. */
int reader_open(struct reader *reader, const struct scope_plan *plan, const struct set *set, int cgroup_fd,
		struct engine_stats *stats, size_t *failed_at);
void reader_start(struct reader *reader, uint64_t now);
void reader_close(struct reader *reader, size_t nr, struct engine_stats *stats);
void reader_close_by(struct reader *reader, size_t nr, struct closer *closer, struct engine_stats *stats);

/* Moves what is open from one reader to another, of an equal set: it goes on counting, from its baseline. Nothing more
 * comes of it where it was. */
void reader_move(struct reader *to, struct reader *from, size_t nr);

/* What it has counted so far, without adding it to anything: into ret, whose values are the caller's. False where it
 * can't be read. */
bool reader_look(struct reader *reader, size_t nr, uint64_t *buffer, struct baseline *ret);

/* Reads, and adds to the row. */
enum sight reader_update(struct reader *reader, const struct reading_context *context);
