/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How often the kernel lets events be sampled.
 *
 * It pauses an event whose samples come faster than kernel.perf_event_max_sample_rate (perf_event_open(2), "perf_event
 * related configuration files"), which it lowers by itself where samples take it long. Linux 6.16 to 6.17.7 can hang
 * when it pauses a software clock (since its commit bc4394e5e79c, until eb3182ef0405). There, clocks are sampled only
 * far below that limit: a tenth of it at most, and not at all where it is low, since then few samples within a tick are
 * too many.
 */

#include "base/util/reason.h"

#include <stdbool.h>
#include <stdint.h>

struct sample_rate {
	uint64_t max;	  /* Hz; UINT64_MAX: not known */
	bool hangs;	  /* the kernel is one of those */
	char release[64]; /* of the kernel, as uname(2) has it */
};

/* Of the kernel, by its procfs. */
void sample_rate_read(struct sample_rate *ret, const char *procfs);

/* In Hz: the highest rate to ask for. */
uint64_t sample_rate_limit(const struct sample_rate *rate);

/* May a clock be sampled? -EOPNOTSUPP, with the sentence. */
int sample_rate_check(const struct sample_rate *rate, struct reason *why);
