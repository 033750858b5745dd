/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The engine of the kernel's own perf events: one file per event and CPU, and for cgroups one per event, CPU and cgroup
 * (PERF_FLAG_PID_CGROUP, perf_event_open(2)).
 *
 *   perf.c      what the engine does: opening, taking over, adding and removing targets
 *   handover.h  events whose sets change in a takeover
 *   root.h      the root cgroup, counted by the CPUs' events
 *   image.h     over a restart
 *   target.h    what is open for one target, and reading it
 *   probe.h     for the planner: which events and sets can be counted
 *   group.h     one kernel group on one CPU
 *   run-clock.h the clock in the groups of cgroups
 *   levels.h    cgroups compared with those below them
 *   open.h      perf_event_open(2), and its errors in words
 */

#include "counting/engine/engine.h"

extern const struct engine_ops engine_perf;
