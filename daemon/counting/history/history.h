/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The past of all totals: what was counted in each of the last slots of time, for each target and shown column.
 *
 * There are two rings of slots: the last minute by seconds, and the last hour by quarters of a minute. A slot ends with
 * a reading at the end of an interval; so it is at least that long, and longer where no reading was made for a while.
 * All targets share the slots' times; each has a point in each slot: the counts that its total rose by.
 *
 * A row is written to when its target has changed. Until it changes again, the points of later slots are 0, or not
 * known, as its cells say, and history_point() works them out.
 *
 * A target that is gone keeps its points until they are an hour old. Memory is bounded: a target takes four bytes for
 * each point (1.2 KB a column), in blocks of a pool, and some 400 bytes besides. Where there is no room for a new one,
 * the target that has been gone the longest makes room, or else the new one is left out.
 *
 * Points are of plans: with another plan, those of equal columns stay (column_find_predecessor()).
 */

#include "base/util/clock-steps.h"
#include "counting/history/block-pool.h"
#include "counting/totals/rows.h"

#define HISTORY_FINE 60
#define HISTORY_COARSE 240
#define HISTORY_SLOTS (HISTORY_FINE + HISTORY_COARSE)

/* A row has a block for each column; they hold [slot][column] of all its columns together, the fine slots first. */
_Static_assert(HISTORY_SLOTS == POOL_BLOCK_POINTS, "a block a column");

enum history_ring {
	RING_FINE,
	RING_COARSE,
	_RING_MAX,
};

#define HISTORY_UNKNOWN UINT64_MAX

struct history_cell {
	uint64_t at;	  /* the total at the end of the newest fine slot, or HISTORY_UNKNOWN */
	uint64_t pending; /* counts since the newest coarse slot, or HISTORY_UNKNOWN */
	bool known;	  /* as long as the total does not change, its points are 0; false: not known */
};

struct history_row {
	enum scope scope;
	int cpu;			  /* or ROW_ALL_CPUS */
	struct cgroup_identity *identity; /* SCOPE_CGROUP; a reference */
	struct totals_watch watch;	  /* of its target's totals */
	bool gone;			  /* its target: nothing is known any more */
	uint64_t written[_RING_MAX];	  /* up to which slot (history_times.begun) its points and cells are */
	struct history_cell *cells;	  /* one a column */
	uint32_t *blocks;		  /* one a column: of points; NAN: not known */
	TAILQ_ENTRY(history_row) in_list; /* of targets that are there, or gone */
	UT_hash_handle by_target;
	char target[]; /* of totals_row */
};

TAILQ_HEAD(history_row_list, history_row);

struct history_times {
	size_t nr, at;			 /* slots that are filled, and the newest one */
	uint64_t begun;			 /* the newest one's number, of all that there ever were */
	uint64_t end[HISTORY_COARSE];	 /* CLOCK_BOOTTIME ns, which goes on while the machine is suspended */
	uint64_t length[HISTORY_COARSE]; /* CLOCK_MONOTONIC ns: in which something was counted */
	bool gap[HISTORY_COARSE];	 /* a CPU was not counted for a part of it */
	uint64_t last;			 /* CLOCK_MONOTONIC ns of the newest slot's end; 0: none yet */
	uint64_t fine[2];		 /* coarse: with which fine slot the newest one ends, and the one before it */
};

struct history {
	struct plan *plan; /* a reference; NULL: nothing was taken yet */
	struct history_times times[_RING_MAX];
	struct history_row_list there, gone; /* gone: in the order in which they went */
	struct history_row *by_target;
	bool *doubtful[_SCOPE_MAX]; /* one a column, at the last reading; NULL: there was no memory, and none is */
	struct block_pool pool;	    /* of points */
	uint64_t heap_size;	    /* bytes of rows without their points */
	size_t nr_rows;
	size_t left_out;		 /* targets of the last reading for which there is no room */
	uint64_t max_size;		 /* bytes */
	bool anew;			 /* all targets are to be looked at */
	uint64_t ticks, moves;		 /* of the totals, at the last reading */
	uint64_t changes;		 /* of slots, and of the rows that there are */
	uint64_t taken;			 /* CLOCK_MONOTONIC ns, the last reading; 0: none yet */
	const struct clock_steps *clock; /* borrowed */
};

/* max_size in bytes; 0: nothing is kept. clock: of readings, which are noted there before they are taken; borrowed for
 * the history's life. */
void history_init(struct history *history, const struct clock_steps *clock, uint64_t max_size);
void history_release(struct history *history);
/* Drops targets that have no room any more, those that are gone first. */
void history_set_max_size(struct history *history, uint64_t max_size);

/* The memory that it takes, in bytes: at most max_size, but for the times of slots (10 KB). */
uint64_t history_size(const struct history *history);

/* Is a column not to be believed for now, such as an event that stands still? Its points are not known then. */
typedef bool (*history_doubt)(const void *userdata, enum scope scope, size_t column);

/* Takes the totals at the end of an interval. A target for which there is no memory is left out. */
void history_take(struct history *history, const struct totals *totals, const struct clock_times *now,
		  history_doubt is_doubtful, const void *userdata);

/* --- questions */

struct history_stats {
	size_t nr_rows;
	size_t left_out;  /* targets of the last reading for which there is no room */
	uint64_t changes; /* of slots, and of the rows that there are */
	uint64_t newest;  /* CLOCK_MONOTONIC ns of the newest slot's end; 0: there is none */
};

struct history_stats history_stats(const struct history *history);

/* The plan of all rows; NULL: nothing was taken yet. */
struct plan *history_plan(const struct history *history);
const struct clock_steps *history_clock(const struct history *history);

/* The row after another one, or after NULL the first one; NULL: there are no more. Rows of targets that are gone come
 * last. */
const struct history_row *history_next(const struct history *history, const struct history_row *row);

struct history_slot {
	size_t number;		/* among all points of a row */
	struct clock_times end; /* realtime: as the wall clock showed it then */
	uint64_t length; /* ns in which something was counted: less than since the slot before, if the machine slept */
	bool gap;	 /* a CPU was not counted for a part of it: points are counts, and tell no rate */
};

/* The slots that cover all the time that is known, each moment once: coarse ones, then fine ones. Returns their number.
 * They are in the order of time; wall times go back where the clock was set back. */
size_t history_slots(const struct history *history, struct history_slot ret[HISTORY_SLOTS]);

/* Counts in the slot, before the event's scale; NAN: not known. */
float history_point(const struct history *history, const struct history_row *row, size_t column,
		    const struct history_slot *slot);
