/* SPDX-License-Identifier: MIT */
#pragma once

/* Messages between counting and the profiler that have all there can be: no member is 0 or empty but where this is odd
 * itself, several things of each kind, CPUs, missing texts and numbers, and the largest ones. */

#include "profiler/protocol.h"

const struct profiler_settings *made_settings(void);
extern const struct told_cgroups made_cgroups;
extern const struct profile_question made_question; /* a heat map, of three cgroups in three slots */
extern const struct profiler_refusal made_refusal;
extern const struct capture_order made_order;
extern const struct profiler_state made_state;
