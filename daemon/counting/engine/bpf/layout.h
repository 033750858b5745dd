/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The memory that the BPF programs (credit.bpf.c) share with the daemon (kernel.h). It outlives the daemon in systemd's
 * fd store, so that a change of it is a change of CREDIT_LAYOUT.
 *
 * An event has a number: on each CPU it is one open perf event. Events of one set have neighbouring numbers. A set has
 * a number too, under which the times of its leader are kept.
 *
 * A cgroup that has run has a slot, and so has one that is asked for: slots are reserved for these, since the counts of
 * one that finds none go to the nearest ancestor that has one. So do those of a cgroup that is nested too deeply: who
 * reads knows all ancestors of each slot's cgroup. A slot gets a cell on each CPU on which its cgroup runs. A cgroup's
 * own counts on a CPU are added to its cell there, and to no other: ancestors are summed by who reads. Cells only grow,
 * also when a slot gets another cgroup: a reader remembers where it stood. A slot keeps its cells.
 *
 * Slots and cells come in chunks of CREDIT_CHUNK, each of which is a map in a map of maps. The daemon adds a chunk when
 * few slots, or few cells of a CPU, are left: so memory follows what runs, and not how many CPUs and cgroups there can
 * be. The last cells of a CPU are for ancestors. A cgroup that finds no cell is credited to its nearest ancestor that
 * does. From then on its own counts, and those of ancestors between the two, are not complete: their slots say so
 * (`lacks`).
 *
 * The cells that were credited are marked, so that a reader looks at no other cell. It removes the mark before it reads
 * the cell.
 *
 * Some events are dear to read: on a virtual machine each access to the PMU can be a trap. They are limited to a budget
 * of each CPU's time: when it is used up there, they are not read at switches until it has filled up again (a pause).
 * Meanwhile a set's enabled time goes on, and its running time does not, as if it were multiplexed. The budget fills up
 * to a level that is drawn anew each time, so that no load can keep in step with it. It is overdrawn by no more than it
 * can be filled up to: a virtual machine that stands still in the middle of a program does not pay for that.
 *
 * To read them takes instructions and cycles, which they count themselves, and which there are none of in a pause. So a
 * cell tells how often they were read, and a CPU what one reading makes them count: after each pause, some are followed
 * by two more, which differ by that.
 */

#define CREDIT_LAYOUT 9

#define CREDIT_EVENTS_MAX 64
#define CREDIT_SETS_MAX 64
#define CREDIT_DEPTH_MAX 32	      /* ancestors that a cgroup with a slot can have */
#define CREDIT_CELLS_OF_ANCESTORS 64U /* the last cells of a CPU */
#define CREDIT_CHUNK 512U	      /* slots or cells of a chunk */

typedef unsigned long long credit_word;

/* The slot of the root cgroup, and of what has no place elsewhere. */
#define CREDIT_ROOT_SLOT 0U

/* The root slot's cell on each CPU. No other slot has a cell of this number: 0 stands for none there. */
#define CREDIT_ROOT_CELL 0U

/* A cell is an array of words: how often it was credited; its slot; enabled and running time of each set, in ns, and
 * how often it was read, if it is limited; the count of each event. */
#define CREDIT_CELL_CREDITS 0U
#define CREDIT_CELL_SLOT 1U
#define CREDIT_CELL_ENABLED(set) (2U + 3U * (set))
#define CREDIT_CELL_RUNNING(set) (3U + 3U * (set))
#define CREDIT_CELL_READINGS(set) (4U + 3U * (set))
#define CREDIT_CELL_EVENTS(nr_sets) (2U + 3U * (nr_sets))
#define CREDIT_CELL_WORDS(nr_sets, nr_events) (CREDIT_CELL_EVENTS(nr_sets) + (nr_events))

/* Chunks that so many slots take, or their cells on one CPU. Of cells, the CPU's k-th chunk has the number
 * CPU × CREDIT_CHUNKS(slots) + k. */
#define CREDIT_CHUNKS(nr_slots) (((nr_slots) + CREDIT_CHUNK - 1U) / CREDIT_CHUNK)

/* Marks are bits of words, one a cell: of each CPU so many words. */
#define CREDIT_MARK_WORDS(nr_slots) (CREDIT_CHUNKS(nr_slots) * (CREDIT_CHUNK / 64U))

/* A CPU's budget is at most this, in ns. */
#define CREDIT_BUDGET_MAX 2000000ULL
#define CREDIT_PPM 1000000ULL

/* Readings after a pause that are followed by two more. */
#define CREDIT_REPEATS 2U

/* Counting under a number begins and ends on each CPU when the daemon has it flushed: so one number can take another's
 * place, and nothing is lost or counted twice. */
enum credit_use {
	CREDIT_UNUSED,
	CREDIT_USED,
	CREDIT_ENDING,
};

/* The program `succeed` has begun, and the former part has not ended. */
#define CREDIT_ALONE 2

/* Where an event stands on a CPU. */
enum credit_state {
	CREDIT_NEW, /* it has not been read since it was opened, or could not be read the last time */
	CREDIT_COUNTS,
	CREDIT_ENDED,
};

/* An event number in use. */
struct credit_event {
	unsigned char used;	 /* enum credit_use */
	unsigned char leads;	 /* its times are those of its set */
	unsigned char at_switch; /* the kernel counts the switch under way after the switch program has run */
	unsigned char limited;	 /* to the budget */
	unsigned char set;
};

struct credit_config {
	unsigned int nr_events; /* numbers in use are below it */
	unsigned int v1;	/* perf_event is in a v1 hierarchy */
	unsigned int hides;	/* switches from tasks of some processes are hidden from tracing */
	unsigned int budget;	/* the part of a CPU's time for reading limited events, in ppm; 0: without limit */
	unsigned int nr_slots;	/* slots of the chunks that there are */
	/* Reserved slots: their number; and the first one, whose ancestors[0] is the next one, or 0. */
	unsigned int nr_reserved, reserved;
	struct credit_event events[CREDIT_EVENTS_MAX];
};

/* Where a CPU stands. */
struct credit_cpu {
	credit_word busy;		 /* a program is at work here, and was interrupted by another */
	credit_word counts;		 /* events are wired here. The daemon writes it */
	credit_word cgroup;		 /* the id of the cgroup whose task runs here; 0: not known yet */
	credit_word slot;		 /* its slot */
	credit_word cell;		 /* that slot's cell here */
	credit_word nr_cells, max_cells; /* cells here that slots have; that there are. The daemon writes the second */
	credit_word task;		 /* the address of the task that was the last to come */
	credit_word process;		 /* the id of its process */
	credit_word since;		 /* CLOCK_MONOTONIC ns at which the last credit ended; 0: none */
	credit_word pauses;		 /* limited events are not credited now */
	credit_word nr_pauses;		 /* that there have been */
	long long budget;		 /* ns that are left */
	credit_word resumes_at;		 /* the budget with which the pause ends */
	credit_word repeats;		 /* readings that are still to be followed by two more */
	credit_word switches;		 /* at which counts were credited */
	credit_word ns;			 /* that they took */
	credit_word passed;		 /* occasions that were passed over since another program was at work */
	credit_word hidden;		 /* switches that were hidden from tracing, as far as it was found out */
	credit_word unplaced;		 /* cgroups that came to run and found no slot, or no cell here */
	credit_word wired[CREDIT_EVENTS_MAX]; /* the kernel's ids of the perf events; 0: none. The daemon writes them */
	credit_word states[CREDIT_EVENTS_MAX]; /* enum credit_state */
	credit_word values[CREDIT_EVENTS_MAX];
	credit_word counted[CREDIT_EVENTS_MAX]; /* since counting under the number began here, in pauses as well */
	/* Such readings, and what they had more than those before, which is what a reading of all limited events makes
	 * this one count. */
	credit_word again[CREDIT_EVENTS_MAX];
	credit_word repeated[CREDIT_EVENTS_MAX];
	credit_word enabled[CREDIT_SETS_MAX];
	credit_word running[CREDIT_SETS_MAX];
};

/* Who has the slot. */
struct credit_slot {
	credit_word id;				 /* the cgroup's; 0: nobody */
	credit_word generation;			 /* another one when its aliases end */
	credit_word lacks;			 /* an ancestor has a part of its counts */
	credit_word nr_ancestors;		 /* up to the root */
	credit_word ancestors[CREDIT_DEPTH_MAX]; /* their ids: the parent's first */
	unsigned int cells[];			 /* one a possible CPU: its cell there; 0: none yet */
};

/* The slot of an ancestor, as long as that is of the generation: so the aliases of a slot end all at once, however many
 * there are. */
struct credit_alias {
	unsigned int slot, generation;
};
