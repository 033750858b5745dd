/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How one counter's rate has gone lately: its averages over about one and five minutes, and the highest rate of one
 * interval within the last minute, which shows the bursts that a scrape every 15 s never sees.
 *
 * Averages are damped as the kernel's load average is: an interval counts by its length, and what is long ago by less
 * and less. As long as less is known than they go back, they are plain means of what is known, so that the first
 * interval of a cgroup's life does not stand for minutes. The highest rates are kept in bins of twelve seconds that are
 * used in turns, so that what is shown is at least a minute old when it goes, and less than 72 seconds.
 *
 * Small, since there is one for each of a hundred thousand cells: floats have more digits than an estimate has to show.
 * What is the same for all of them in a tick is worked out once, as its step.
 */

#include <stdint.h>

enum {
	TREND_1M,
	TREND_5M,
	_TREND_MAX,
};

#define TREND_BINS 6

struct trend {
	float average[_TREND_MAX]; /* counts per second; NAN: not known */
	float known;		   /* seconds that went into them */
	float highest[TREND_BINS]; /* NAN: nothing was known then */
};

/* An interval that has ended: worked out once, taken by each trend. */
struct trend_step {
	uint64_t ns;		   /* 0: there was no interval */
	double seconds;		   /* NAN then */
	double weight[_TREND_MAX]; /* of it in the averages */
	unsigned bin;		   /* that it goes into */
	unsigned fresh;		   /* bins that begin with it, back from that one */
};

/* From the moment before to now, CLOCK_MONOTONIC ns; last 0: there was none before. */
struct trend_step trend_step_of(uint64_t last, uint64_t now);

/* The same at the end of an interval that is longer by so many ns, of which nothing was known until now. */
struct trend_step trend_step_longer(const struct trend_step *step, uint64_t by);

/* Nothing is known. */
void trend_forget(struct trend *trend);

/* Takes an interval's rate in. NAN: it was not measured, and averages begin anew after it; the highest rates stay. */
void trend_add(struct trend *trend, const struct trend_step *step, double rate);
/* An interval of which nothing is known yet: another will be longer by it. Averages stay. */
void trend_wait(struct trend *trend, const struct trend_step *step);

/* The highest rate of an interval within the last minute, or NAN. */
float trend_highest(const struct trend *trend);
