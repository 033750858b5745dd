/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * When the rate of a counter is unusual: a threshold, and how long a rate has to be beyond it, for many targets. Pure.
 *
 * A round is the end of an interval: trigger_see() for each target, then trigger_end_round(). A target that is beyond
 * the threshold begins an episode, which ends when its rate is known and not beyond it. It is due once in an episode:
 * from `duration` on, until trigger_take(). An interval of which the rate is not known proves nothing: the time that
 * counts begins anew after it, and the episode goes on. So a gap makes nobody due, neither at once nor once more.
 */

#include "base/util/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Targets in an episode; more are passed over. */
#define TRIGGER_TARGETS_MAX 4096

struct trigger_rule {
	bool below;
	double threshold;
	uint64_t duration; /* ns */
};

struct trigger;

/* -ENOMEM. */
int trigger_new(struct trigger **ret, const struct trigger_rule *rule);
struct trigger *trigger_free(struct trigger *trigger);
DEFINE_CLEANUP(struct trigger *, trigger_free)

/* Is a rate beyond the threshold? NAN is not. */
bool trigger_is_beyond(const struct trigger *trigger, double rate);

/* Nobody is in an episode: trigger_see() with a rate that is not beyond the threshold would change nothing. */
bool trigger_is_idle(const struct trigger *trigger);

/* The rate of a target over the interval from `begin` to `now`, CLOCK_MONOTONIC ns; NAN: not known. True: it is due. */
bool trigger_see(struct trigger *trigger, const char *target, double rate, uint64_t begin, uint64_t now);

/* It is not due any more in this episode. */
void trigger_take(struct trigger *trigger, const char *target);

/* It was due, and nothing came of it; it stays due. True: for the first time in this episode. */
bool trigger_pass_over(struct trigger *trigger, const char *target);

/* The rates of targets that were not seen in this round are not known; those not seen for a minute are forgotten. */
void trigger_end_round(struct trigger *trigger, uint64_t now);
