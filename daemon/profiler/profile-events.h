/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The events that are sampled, from the config: cpu-clock, and that of each [profile "NAME"].
 */

#include "base/config/config.h"
#include "counting/event/parse.h"
#include "profiler/sample/sampler.h"

/* The name of what is always sampled, … */
#define PROFILE_CPU_CLOCK "cpu-clock"

struct profile_event {
	char *name; /* … or that of the section */
	char *key;  /* its name in the archive: another event of the same name has another */
	struct event_list events;
	struct sampled_event what; /* borrows the events */
};

struct profile_events {
	struct profile_event *items; /* cpu-clock first */
	size_t nr;
	const char **names; /* of all of them, and NULL; borrowed from items */
};

void profile_events_release(struct profile_events *events);

/* max_rate: the highest that may be asked for, > 0; rates above, and periods of clocks that come to more, are changed
 * to it. -EINVAL with FILE:LINE in why: a text is no event; -ENOMEM. */
int profile_events_parse(struct profile_events *ret, const struct config *config, const struct event_env *env,
			 uint64_t max_rate, struct reason *why);

/* The number of the event of that name; SIZE_MAX: there is none. */
size_t profile_events_find(const struct profile_events *events, const char *name);
