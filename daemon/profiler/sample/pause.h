/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Pauses of a clock that is sampled. The kernel pauses an event that has had its samples of a tick
 * (kernel.perf_event_max_sample_rate; PERF_RECORD_THROTTLE in perf_event_open(2)) until the next tick, and tells both.
 * A clock then begins a new period. So the time of the pause is in no period, and the next sample stands for it, too.
 * That is the sample at the end of the first period after the pause: if it does not come then, the CPU was idle, and
 * nobody has used the time. (Measured on Linux 6.18: samples and pauses add up to the time that a busy CPU had.)
 *
 * Of other events nobody knows how often they happen in a pause.
 */

#include <stdint.h>

/* Of an event on one CPU; zeroed at first. Times are CLOCK_MONOTONIC ns. */
struct pause {
	uint64_t begun; /* 0: it is not paused */
	uint64_t ended; /* the last one; 0: none since the last sample */
	uint64_t ns;	/* the pauses since the last sample */
};

void pause_begin(struct pause *pause, uint64_t time);
void pause_end(struct pause *pause, uint64_t time);

/* The ns of pauses for which a sample stands beside its period. Called with each sample. */
uint64_t pause_take(struct pause *pause, uint64_t time, uint64_t period);
