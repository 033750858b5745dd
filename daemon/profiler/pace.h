/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How often an event is sampled, below kernel.perf_event_max_sample_rate (base/host/sample-rate.h).
 */

#include "profiler/protocol.h"

/* Sets the period or rate that was wanted, or the nearest one that the limit, in Hz, allows. True: it is another than
 * before. */
bool pace_set(struct sampled_event *event, const struct sampled_event *wanted, uint64_t limit);

/* Would any of the events have another period or rate? */
bool paces_change(const struct sampled_event *events, const struct sampled_event *wanted, size_t nr, uint64_t limit);
