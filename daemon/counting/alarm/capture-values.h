/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The values of captures: the rates of a capture's counter over its stretch, from the history. The daemon orders a
 * capture under an id of its own making, and keeps the values under that id for as long as whoever keeps the samples
 * has the capture.
 *
 * Values are worked out at each new slot of the history that the stretch reaches into, and stay as they are when the
 * history has passed the end of the stretch.
 */

#include "counting/history/history.h"

/* More than these are not kept: the oldest go. There are fewer captures, unless a rule keeps more than 16 of them. */
#define CAPTURE_VALUES_MAX 512

/* A rate of the counter over a slot. */
struct capture_point {
	uint64_t end; /* CLOCK_REALTIME ns of the slot's end, as it was shown then */
	double rate;  /* per second, in the event's unit; NAN: not known */
};

/* The values of one capture. */
struct capture_values {
	const char *id;
	const char *cgroup; /* label; NULL: all CPUs together */
	const char *counter;
	uint64_t from, to; /* the stretch, CLOCK_MONOTONIC ns */
	uint64_t taken;	   /* CLOCK_MONOTONIC ns: the end of the newest slot that was looked at; 0: none yet */
	struct capture_point *points;
	size_t nr_points;
};

/* Zeroed, it has none. */
struct capture_values_list {
	struct capture_values items[CAPTURE_VALUES_MAX]; /* oldest first */
	size_t nr;
	uint64_t ever; /* captures that were ordered so far */
};

void capture_values_release(struct capture_values_list *list);

/* An id for the next capture, for users and files: the section's name, the wall time in ns, and a number; to be freed.
 * NULL: out of memory. */
char *capture_values_new_id(const struct capture_values_list *list, const char *rule, uint64_t realtime);

/* A capture was ordered: `capture` tells its id, cgroup, counter and stretch. Texts are copied. -ENOMEM: it has no
 * values. */
int capture_values_add(struct capture_values_list *list, const struct capture_values *capture);

/* Works values out, after history_take(). Without memory it is tried again at the next slot. */
void capture_values_take(struct capture_values_list *list, const struct history *history);

/* Drops the values of captures that are not there any more. */
void capture_values_trim(struct capture_values_list *list, bool (*is_there)(const void *userdata, const char *id),
			 const void *userdata);

/* Number i, valid until the next call that changes the list; NULL after the last. */
const struct capture_values *capture_values_at(const struct capture_values_list *list, size_t i);
