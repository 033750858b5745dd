/* SPDX-License-Identifier: MIT */

#include "count/estimate.h"

static void move_baseline(struct baseline *base, const struct reading *now, size_t nr)
{
	base->enabled = now->enabled;
	base->running = now->running;
	for (size_t i = 0; i < nr; i++)
		base->values[i] = now->values[i];
}

static bool went_backwards(const struct baseline *base, const struct reading *now, size_t nr, bool exact)
{
	if (!exact && (now->enabled < base->enabled || now->running < base->running))
		return true;
	for (size_t i = 0; i < nr; i++)
		if (now->values[i] < base->values[i])
			return true;
	return false;
}

static uint64_t scale(uint64_t value, uint64_t enabled, uint64_t running)
{
	unsigned __int128 scaled;

	if (running >= enabled)
		return value;
	scaled = ((unsigned __int128)value * enabled + running / 2) / running;
	return scaled > UINT64_MAX ? UINT64_MAX : (uint64_t)scaled;
}

enum estimate estimate(struct baseline *base, const struct reading *now, size_t nr, bool exact, uint64_t *deltas)
{
	uint64_t enabled, running;

	if (went_backwards(base, now, nr, exact))
		return ESTIMATE_BACKWARDS;

	enabled = now->enabled - base->enabled;
	running = now->running - base->running;
	if (!exact && running == 0 && enabled > 0)
		return ESTIMATE_UNOBSERVED;

	for (size_t i = 0; i < nr; i++) {
		uint64_t delta = now->values[i] - base->values[i];

		deltas[i] = exact || running == 0 ? delta : scale(delta, enabled, running);
	}
	move_baseline(base, now, nr);
	return ESTIMATE_COUNTED;
}
