/* SPDX-License-Identifier: MIT */

#include "totals/estimate.h"

static void move_baseline(struct baseline *base, const struct reading *now, size_t nr)
{
	base->enabled = now->enabled;
	base->running = now->running;
	for (size_t i = 0; i < nr; i++)
		base->values[i] = now->values[i];
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

static uint64_t scale_count(uint64_t value, uint64_t enabled, uint64_t running)
{
	unsigned __int128 scaled;

	if (running >= enabled)
		return value;
	scaled = ((unsigned __int128)value * enabled + running / 2) / running;
	return scaled > UINT64_MAX ? UINT64_MAX : (uint64_t)scaled;
}

enum estimate estimate(struct baseline *base, const struct reading *now, size_t nr, bool exact, uint64_t *deltas)
{
	bool plain = exact || !times_are_true(base, now);

	if (went_backwards(base, now, nr))
		return ESTIMATE_BACKWARDS;
	if (!exact && now->running == base->running && now->enabled != base->enabled)
		return ESTIMATE_UNOBSERVED;
	if (!plain && now->brief && now->running - base->running < now->enabled - base->enabled)
		return ESTIMATE_UNOBSERVED;

	for (size_t i = 0; i < nr; i++) {
		uint64_t delta = now->values[i] - base->values[i];

		deltas[i] = plain || now->running == base->running ?
				    delta :
				    scale_count(delta, now->enabled - base->enabled, now->running - base->running);
	}
	move_baseline(base, now, nr);
	return ESTIMATE_COUNTED;
}
