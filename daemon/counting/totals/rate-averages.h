/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Averages of one counter's rate over about one and five minutes, and the highest rate of one interval within the last
 * minute, which shows bursts that a scrape every 15 s never sees.
 *
 * Averages are damped as the kernel's load average is: an interval counts by its length, and the less the longer it is
 * ago. While less is known than an average reaches back, it is the plain mean of what is known, so that the first
 * interval of a cgroup's life does not stand for minutes. The highest rates are kept in bins of twelve seconds, used in
 * turn: a peak is shown for at least a minute and for less than 72 seconds.
 *
 * The struct is small, because there is one for each of a hundred thousand cells: floats have more digits than an
 * estimate has to show. The part of the work that is the same for all cells is done once a tick, in a rate_step.
 */

#include <stdint.h>

enum {
	RATE_1M,
	RATE_5M,
	_RATE_MAX,
};

#define RATE_BINS 6

struct rate_averages {
	float average[_RATE_MAX]; /* counts per second; NAN: not known */
	float known;		  /* seconds that went into them */
	float highest[RATE_BINS]; /* NAN: nothing was known then */
};

/* An interval that has ended: worked out once, and used for all counters. */
struct rate_step {
	uint64_t ns;		  /* 0: there was no interval */
	double seconds;		  /* NAN then */
	double weight[_RATE_MAX]; /* of the interval in the averages */
	unsigned bin;		  /* the bin that it goes into */
	unsigned fresh;		  /* how many bins, back from that one, begin with it */
};

/* The interval from last to now, CLOCK_MONOTONIC ns. last 0: there was no interval. */
struct rate_step rate_step_of(uint64_t last, uint64_t now);

/* An interval that ends with this one and began `by` ns earlier: nothing was known of that time until now. */
struct rate_step rate_step_longer(const struct rate_step *step, uint64_t by);

/* Forgets everything. */
void rate_averages_forget(struct rate_averages *averages);

/* Adds an interval's rate. NAN: it was not measured: averages begin anew after it, and the highest rates stay. */
void rate_averages_add(struct rate_averages *averages, const struct rate_step *step, double rate);
/* Adds an interval of which nothing is known yet; a later one will be longer by it. Averages stay. */
void rate_averages_wait(struct rate_averages *averages, const struct rate_step *step);

/* Intervals, one after the other, in each of which a rate was 0. */
struct rate_zeros {
	struct rate_step all; /* as one; without weights */
	double interval;      /* seconds: of each */
	double known;	      /* of the averages for which these are worked out: */
	double factor[_RATE_MAX];
};

/* The intervals from last to now, CLOCK_MONOTONIC ns; interval: seconds of each. */
struct rate_zeros rate_zeros_of(uint64_t last, uint64_t now, double interval);
/* Adds them: the averages are as after rate_averages_add() for each of them, and so is the highest rate. */
void rate_averages_add_zeros(struct rate_averages *averages, struct rate_zeros *zeros);

/* The highest rate of an interval within the last minute, or NAN. */
float rate_averages_highest(const struct rate_averages *averages);
