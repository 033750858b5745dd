/* SPDX-License-Identifier: MIT */
#pragma once

/* Lists the events that this machine can name, as a configuration would write them. */

#include "counting/event/env.h"

#include <stdbool.h>

struct event_listing {
	const char *kind; /* "Hardware event", "Hardware cache event", "Software event", "Kernel PMU event",
			   * "Hardware breakpoint", "Kernel probe", "User probe", "libpfm event", "Tracepoint" */
	const char *pmu;  /* "cpu", "software", "msr", … */
	const char *name;
	const char *unit; /* "" or a unit's name */
	bool is_generic;  /* one of the kernel's own names for what PMUs count: this PMU may lack it */
};

/* Calls each() for every event, PMU by PMU: generic and software events, cache events, PMU events, the forms of
 * breakpoints and probes, libpfm's events, tracepoints. Hardware and cache events are listed once for each core PMU,
 * whether or not it has them. If each() returns other than 0, the walk ends with that value. -ENOMEM. */
int event_walk(const struct event_env *env, int (*each)(void *userdata, const struct event_listing *listing),
	       void *userdata);
