/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The memory that the BPF programs (credit.bpf.c) share with the daemon (kernel.h). It outlives the daemon in systemd's
 * fd store, so that a change of it is a change of CREDIT_LAYOUT.
 *
 * An event has a number: on each CPU it is one open perf event. Events of one set have neighbouring numbers. A set has
 * a number too, under which the times of its leader are kept.
 *
 * A cgroup that has run has a slot, and a slot has a cell on each CPU. What a cgroup's own tasks have counted on a CPU
 * is added to its cell there, and to no other: ancestors are summed by who reads. Cells only grow, also when a slot
 * gets another cgroup: a reader remembers where it stood.
 */

#define CREDIT_LAYOUT 1

#define CREDIT_EVENTS_MAX 64
#define CREDIT_SETS_MAX 64
#define CREDIT_DEPTH_MAX 32 /* ancestors of a cgroup that are known by their ids */

typedef unsigned long long credit_word;

/* The slot of the root cgroup, and of what has no place elsewhere. */
#define CREDIT_ROOT_SLOT 0U

/* A cell is an array of words: how often it was credited; enabled and running time of each set, in ns; the count of
 * each event. */
#define CREDIT_CELL_CREDITS 0U
#define CREDIT_CELL_ENABLED(set) (1U + 2U * (set))
#define CREDIT_CELL_RUNNING(set) (2U + 2U * (set))
#define CREDIT_CELL_EVENTS(nr_sets) (1U + 2U * (nr_sets))
#define CREDIT_CELL_WORDS(nr_sets, nr_events) (CREDIT_CELL_EVENTS(nr_sets) + (nr_events))

/* Counting under a number begins and ends on each CPU when the daemon has it flushed: so one number can take another's
 * place, and nothing is lost or counted twice. */
enum credit_use {
	CREDIT_UNUSED,
	CREDIT_USED,
	CREDIT_ENDING,
};

/* Where an event stands on a CPU. */
enum credit_state {
	CREDIT_NEW, /* it has not been read yet since it was opened */
	CREDIT_COUNTS,
	CREDIT_ENDED,
};

/* An event number in use. */
struct credit_event {
	unsigned char used;	 /* enum credit_use */
	unsigned char leads;	 /* its times are those of its set */
	unsigned char at_switch; /* the kernel counts the switch under way after the switch program has run */
	unsigned char set;
};

struct credit_config {
	unsigned int nr_events; /* numbers in use are below it */
	unsigned int v1;	/* perf_event is in a v1 hierarchy */
	struct credit_event events[CREDIT_EVENTS_MAX];
};

/* Where a CPU stands. */
struct credit_cpu {
	credit_word busy;		      /* a program is at work here, and was interrupted by another */
	credit_word cgroup;		      /* the id of the cgroup whose task runs here; 0: not known yet */
	credit_word slot;		      /* its slot */
	credit_word since;		      /* CLOCK_MONOTONIC ns at which it was noted down */
	credit_word switches;		      /* at which counts were credited */
	credit_word ns;			      /* that they took */
	credit_word passed;		      /* occasions that were passed over since another program was at work */
	credit_word unplaced;		      /* cgroups that came to run while all slots were taken */
	credit_word wired[CREDIT_EVENTS_MAX]; /* the kernel's ids of the perf events; 0: none. The daemon writes them */
	credit_word states[CREDIT_EVENTS_MAX]; /* enum credit_state */
	credit_word values[CREDIT_EVENTS_MAX];
	credit_word enabled[CREDIT_SETS_MAX];
	credit_word running[CREDIT_SETS_MAX];
};

/* Who has the slot. */
struct credit_slot {
	credit_word id;				 /* the cgroup's; 0: nobody */
	credit_word nr_ancestors;		 /* the nearest ones, of which there can be more */
	credit_word ancestors[CREDIT_DEPTH_MAX]; /* their ids: the parent's first */
};
