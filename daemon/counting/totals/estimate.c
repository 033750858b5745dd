/* SPDX-License-Identifier: MIT */

#include "counting/totals/estimate.h"

/* The clock in a group is read some counters before or after the group's times: in virtual machines each of them can
 * take several microseconds. */
#define SKEW_NS 200000U

/* Some turns on the PMU: less time tells nothing of the kernel's times. */
#define TELLING_NS 20000000U

/* By so much the kernel's clock and CLOCK_MONOTONIC may differ between two readings: a constant, and a part. */
#define MISSING_NS 20000000U
#define MISSING_PART 64U

/* The part of the time that a group runs. Equal: all of it. */
struct share {
	uint64_t enabled, running;
};

void baseline_move(struct baseline *base, const struct reading *now, size_t nr)
{
	base->enabled = now->enabled;
	base->running = now->running;
	base->clock = now->clock;
	base->readings = now->readings;
	for (size_t i = 0; i < nr; i++)
		base->values[i] = now->values[i];
}

uint64_t reading_counts(const struct baseline *base, const struct reading *now, size_t i)
{
	uint64_t delta = now->values[i] > base->values[i] ? now->values[i] - base->values[i] : 0;
	double cost = 0;

	if (now->costs && now->costs[i].readings)
		cost = (double)now->costs[i].counts / (double)now->costs[i].readings *
		       (double)(now->readings - base->readings);
	return cost < (double)delta ? delta - (uint64_t)cost : 0;
}

static bool went_backwards(const struct baseline *base, const struct reading *now, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (now->values[i] < base->values[i])
			return true;
	return false;
}

/* The kernel has been seen to return the machine's uptime as time_enabled of a new cgroup event. */
static bool times_are_true(const struct baseline *base, const struct reading *now)
{
	return now->enabled >= base->enabled && now->running >= base->running &&
	       now->enabled - base->enabled <= now->most;
}

static uint64_t scale_count(uint64_t value, const struct share *share)
{
	unsigned __int128 scaled;

	if (share->running >= share->enabled)
		return value;
	scaled = ((unsigned __int128)value * share->enabled + share->running / 2) / share->running;
	return scaled > UINT64_MAX ? UINT64_MAX : (uint64_t)scaled;
}

/* By the kernel's times. */
static enum estimate find_share(const struct baseline *base, const struct reading *now, struct share *ret)
{
	if (now->running == base->running && now->enabled != base->enabled)
		return ESTIMATE_UNOBSERVED;
	*ret = (struct share){};
	if (!times_are_true(base, now) || now->running == base->running)
		return ESTIMATE_COUNTED;
	*ret = (struct share){ now->enabled - base->enabled, now->running - base->running };
	return now->brief && ret->running < ret->enabled ? ESTIMATE_UNOBSERVED : ESTIMATE_COUNTED;
}

/* Each switch to the cgroup takes a little of its time until the clock runs, and a little until it stops: where it is
 * switched to all the time, more than a tenth has been seen. */
bool ran_always(uint64_t enabled, uint64_t running, uint64_t clock, bool doubtful)
{
	uint64_t least = doubtful ? enabled - enabled / 10 : enabled / 2;

	return running >= enabled && clock >= least && clock / 3 * 2 <= enabled + SKEW_NS;
}

bool times_are_false(uint64_t enabled, uint64_t running, uint64_t clock)
{
	uint64_t difference = clock > running ? clock - running : running - clock;

	if (ran_always(enabled, running, clock, false))
		return false;
	return clock > enabled + TELLING_NS ||
	       (enabled >= TELLING_NS && running < enabled && (difference > enabled / 10 || difference > clock / 2));
}

static enum estimate find_clocked_share(const struct baseline *base, const struct reading *now, struct share *ret)
{
	uint64_t running = now->running > base->running ? now->running - base->running : 0;
	uint64_t enabled = now->enabled - base->enabled, clock = now->clock - base->clock;

	if (now->enabled < base->enabled || enabled > now->most || now->clock < base->clock)
		return ESTIMATE_WRONG_TIME;
	/* Counts without any time wait for it. */
	if (clock == 0)
		return ESTIMATE_UNOBSERVED;
	*ret = (struct share){};
	if (ran_always(enabled, running, clock, now->doubtful))
		return ESTIMATE_COUNTED;
	if (clock > enabled && clock - enabled > SKEW_NS)
		return now->last ? ESTIMATE_COUNTED : ESTIMATE_LAGS;
	if (now->doubtful || times_are_false(enabled, running, clock))
		running = clock;
	*ret = (struct share){ enabled, running };
	if (ret->running == 0)
		return ESTIMATE_UNOBSERVED;
	return now->brief && ret->running < enabled ? ESTIMATE_UNOBSERVED : ESTIMATE_COUNTED;
}

enum estimate estimate(struct baseline *base, const struct reading *now, size_t nr, bool exact, uint64_t *deltas)
{
	struct share share = {};
	enum estimate r = ESTIMATE_COUNTED;

	if (went_backwards(base, now, nr))
		return ESTIMATE_BACKWARDS;
	if (!exact)
		r = now->clocked ? find_clocked_share(base, now, &share) : find_share(base, now, &share);
	if (r != ESTIMATE_COUNTED)
		return r;

	for (size_t i = 0; i < nr; i++) {
		uint64_t own = reading_counts(base, now, i);

		deltas[i] = scale_count(own, &share) + (now->values[i] - base->values[i] - own);
		if (now->limits && deltas[i] > now->limits[i])
			r = ESTIMATE_TOO_MANY;
	}
	if (r == ESTIMATE_COUNTED)
		baseline_move(base, now, nr);
	return r;
}

bool time_is_missing(uint64_t enabled, uint64_t elapsed)
{
	return elapsed > enabled && elapsed - enabled > MISSING_NS + elapsed / MISSING_PART;
}
