/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The last times that clocks moved against each other: the wall clock (CLOCK_REALTIME) was set, or the machine was
 * suspended, so that CLOCK_BOOTTIME went on and CLOCK_MONOTONIC did not. From them follows the time that the wall clock
 * showed at a past moment, and the moment at which it showed a time.
 *
 * A moment is a time of CLOCK_BOOTTIME. Whoever owns the steps notes the clocks at each reading. A step is known with
 * the first reading after it, and is taken to have happened right after the reading before it. A wall clock that runs
 * slower or faster moves the times since the last step with it. Of more than CLOCK_STEPS_MAX steps the oldest are
 * forgotten: the oldest that is left then holds for all that was before it.
 *
 * Times are in ns. Pure.
 */

#include "base/util/clock.h"
#include "base/util/moment.h"

#include <stdbool.h>
#include <stddef.h>

#define CLOCK_STEPS_MAX 64

/* Clocks that move against each other by no more than this between two notes drift, and make no step. */
#define CLOCK_STEP_NS (10 * (uint64_t)NS_PER_MS)

/* Differences are modulo 2^64, since a wall clock can show less than the time since boot. */
struct clock_step {
	uint64_t after;	    /* the moment: of the last reading before it */
	uint64_t seen;	    /* the moment of the first reading after it */
	uint64_t shown;	    /* CLOCK_REALTIME less CLOCK_BOOTTIME, later than that */
	uint64_t suspended; /* CLOCK_BOOTTIME less CLOCK_MONOTONIC, later than that */
};

/* A zeroed one knows nothing: all clocks are the same then. */
struct clock_steps {
	struct clock_step items[CLOCK_STEPS_MAX]; /* oldest first; the first is no step, but what is known first */
	size_t nr;
	uint64_t now; /* the last note */
};

void clock_steps_note(struct clock_steps *steps, const struct clock_times *now);

/* The moment of a time of CLOCK_MONOTONIC, and the reverse: while the machine was suspended, the time stood still. */
uint64_t clock_steps_moment(const struct clock_steps *steps, uint64_t monotonic);
uint64_t clock_steps_monotonic(const struct clock_steps *steps, uint64_t moment);

/* How long the machine has been suspended since it was started, up to the last note. */
uint64_t clock_steps_suspended(const struct clock_steps *steps);

/* The wall time that was shown at that moment, or will be if nobody sets the clock. */
uint64_t clock_steps_shown(const struct clock_steps *steps, uint64_t moment);

#define CLOCK_STEPS_REVERSED "from is later than to"

/*
 * The stretch of moments that a user's `from` and `to` mean, at the last note. Without one, the stretch has no bound on
 * that side. A wall time means the latest moment that showed it. If the clock was only ever set past it, or may have
 * shown it between the last reading and the step, it means the moment of the step. A time that is still to come is
 * UINT64_MAX, and so is a `to` that was not reached since `from`. -EINVAL: CLOCK_STEPS_REVERSED.
 */
int clock_steps_stretch(const struct clock_steps *steps, const struct moment *from, const struct moment *to,
			uint64_t *ret_from, uint64_t *ret_to);
