/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The session's members, and functions that its files share. For this room alone.
 */

#include "counting/session/cpu-canary.h"
#include "counting/session/engines.h"
#include "counting/session/session-options.h"
#include "counting/session/states.h"

struct session {
	struct plan *plan;
	struct totals *totals;
	struct engines engines;
	const struct privilege *privilege;
	struct cpulist cpus;	      /* that are counted */
	struct cpulist known_cpus;    /* with those that were, and are offline now: their rows are kept */
	struct cpu_topology topology; /* of an image, where it was restored */
	struct cpulist lost;	      /* in a takeover: CPUs on which the predecessor counts no more */
	const struct cpulist *online; /* session_note_online(), or NULL */
	struct cpu_canaries canaries; /* of those of the cpus that need one */
	struct session_options options;
	struct states *states;
	struct totals_row **rows; /* scratch: a row a CPU */
	size_t nr_cgroups, nr_cpus;
	uint64_t reads, read_ns, last_read;
	/* CLOCK_MONOTONIC ns: when sets were judged, when the last interval ended, session_sampled(). */
	uint64_t judged, last_tick, sampled;
	struct engine_stats inherited; /* errors counted by the engines before this one */
	const struct session *from;    /* in a takeover: the predecessor */
};

/* Files that are open for counting. */
size_t session_nr_fds(const struct session *session);
