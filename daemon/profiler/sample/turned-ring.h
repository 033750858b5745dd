/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The ring of an event whose records have copies of stacks, of which nothing may stay in memory once they were used.
 *
 * The kernel maps the data of a ring read-only (perf_mmap() in kernel/events/core.c), so a reader can't zero it. But it
 * gives out zeroed pages for a new ring. So the event has two rings by turns, each of a dummy event on the same CPU,
 * and writes to one of them (PERF_EVENT_IOC_SET_OUTPUT). When records were taken from that one, the event is turned to
 * the other, which has never been written to; the first is read to its end, unmapped, and mapped anew. No sample is
 * lost: the kernel exchanges the two at once. A copy is in memory for less than a second (ring.h erases its own).
 *
 * The kernel waits for a grace period of RCU at each turn, some 10 ms to 30 ms. So a thread does that, for all rings
 * that are due, one after the other: with 64 CPUs, that adds a second.
 *
 * A step that fails is tried again at the next turn. Until it succeeds, copies stay in the ring, which goes on.
 *
 * An event without copies has one ring, its own.
 */

#include "profiler/sample/ring-size.h"
#include "profiler/sample/ring.h"

enum turn {
	TURN_READY,    /* the other ring was never written to */
	TURN_ASKED,    /* the thread turns the event to the other ring, … */
	TURN_DONE,     /* … and has done so */
	TURN_UNMAPPED, /* the other ring is to be mapped */
};

struct turned_ring {
	int epoll_fd, fd; /* borrowed */
	bool has_two;
	int holders[2]; /* then: the events whose rings these are; else there is the event's own ring alone */
	struct ring rings[2];
	size_t pages;	   /* of each */
	unsigned first;	   /* the ring that is read first; the other one may have later records */
	struct ring *from; /* of the record that was looked at last */
	uint64_t broken;   /* of rings that were unmapped */
	enum turn turn;
	uint64_t turned_at; /* CLOCK_MONOTONIC ns, when TURN_DONE */
	int error;	    /* of the last step, which is tried again: negative errno of ioctl(2) or mmap(2); 0: none */
};

/* Maps the ring, or both, and adds them to a poll. fd: the event, which is not enabled yet. Negative errno of mmap(2),
 * perf_event_open(2), ioctl(2) and epoll_ctl(2): nothing is mapped then. */
int turned_ring_open(struct turned_ring *ret, int epoll_fd, int fd, int cpu, const struct ring_size *size,
		     size_t pages);
/* Before the event is closed. Not while the thread runs. */
void turned_ring_close(struct turned_ring *ring);

/* As those of ring.h. */
void turned_ring_look(struct turned_ring *ring);
const void *turned_ring_peek(struct turned_ring *ring, size_t *ret_size);
void turned_ring_leave(struct turned_ring *ring);
void turned_ring_take(struct turned_ring *ring, size_t size);
uint64_t turned_ring_broken(const struct turned_ring *ring);

/* Is there, in one of them, less room than that, or than a quarter of it? */
bool turned_ring_was_full(const struct turned_ring *ring, size_t record_max);

/* Of both, also while one of them is about to be mapped anew. */
size_t turned_ring_bytes(const struct turned_ring *ring);

/* --- turning */

struct ring_turns;

/* For so many rings. -ENOMEM. */
int ring_turns_new(struct ring_turns **ret, size_t nr);
/* Waits for the thread. */
struct ring_turns *ring_turns_free(struct ring_turns *turns);
DEFINE_CLEANUP(struct ring_turns *, ring_turns_free)

/* Begins: what the thread has done is noted. False: it is still at work, and no ring can be added. */
bool ring_turns_begin(struct ring_turns *turns);
/* The next step of a ring. looked: when it was looked at, CLOCK_MONOTONIC ns; all due records were taken since. adds:
 * it may be turned. The ring stays where it is until the thread has ended. */
void ring_turns_step(struct ring_turns *turns, struct turned_ring *ring, uint64_t looked, bool adds);
/* Ends: the thread begins if any ring was added. */
void ring_turns_end(struct ring_turns *turns);
