/* SPDX-License-Identifier: MIT */

#include "profiler/pace.h"

#include "base/util/clock.h"

/* A clock's period is in ns. */
bool pace_set(struct sampled_event *event, const struct sampled_event *wanted, uint64_t limit)
{
	uint64_t shortest = sampled_event_is_clock(wanted) ? NS_PER_S / limit : 0;
	uint64_t period = wanted->period && wanted->period < shortest ? shortest : wanted->period;
	uint64_t rate = wanted->rate < limit ? wanted->rate : limit;
	bool changes = event->period != period || event->rate != rate;

	event->period = period;
	event->rate = rate;
	return changes;
}

bool paces_change(const struct sampled_event *events, const struct sampled_event *wanted, size_t nr, uint64_t limit)
{
	bool change = false;

	for (size_t i = 0; i < nr; i++) {
		struct sampled_event event = events[i];

		change |= pace_set(&event, &wanted[i], limit);
	}
	return change;
}
