/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Has a CPU been offline? Its events say so by their time, which stands still from then on, also when the CPU is back.
 * Those of cgroups don't: their time is their tasks'. Where nothing else is counted on the CPU as a whole, a lifeline
 * is: an event that counts nothing (PERF_COUNT_SW_DUMMY) and has its time.
 */

#include "util/cleanup.h"

#include <stdbool.h>
#include <stdint.h>

struct lifeline {
	int cpu;
	int fd; /* -1: it could not be opened, and so says nothing; a CPU that was offline then is broken at once */
	uint64_t enabled, read_at; /* ns; CLOCK_MONOTONIC ns */
	bool broken;		   /* it has been offline, and this lifeline says nothing more */
};

void lifeline_open(struct lifeline *ret, int cpu, uint64_t now);
void lifeline_close(struct lifeline *lifeline);
/* Reads it: `broken` is known then. */
void lifeline_check(struct lifeline *lifeline, uint64_t now);
