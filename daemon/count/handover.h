/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The hand-over of events from sets of one engine to sets of its successor, where those are not equal: an event was
 * added to a group, or moved to another.
 *
 * Old and new are open at the same time, so that both count for a moment, and it has to be settled for each event up to
 * where the old one counts, and from where the new one does. CPU by CPU, the new sets are started, and read; the old
 * one is read for the last time; the new ones are read again. An event that has not happened between the two readings
 * of a new set is handed over without one lost or counted twice; that is tried a few times. Where it happens all the
 * time, as cycles do, the new one counts from half way between them, which is when the old one was read.
 *
 * What is pinned or exclusive does not share the PMU: that is closed first, as is what has no room beside the new.
 */

#include "count/engine-perf.h"

struct handover;

/* What the columns of an engine become in its successor, which knows its predecessor's sets. NULL when there is no
 * memory. */
struct handover *handover_new(const struct perf_engine *to);
struct handover *handover_free(struct handover *handover);
DEFINE_CLEANUP(struct handover *, handover_free)

/* Starts what is open of `to`, as far as it counts what `from` does on the same CPU, and ends that. handover may be
 * NULL: nothing is done, as with all that is not handed over. */
void handover_run(struct handover *handover, struct perf_engine *engine, struct station *to, struct station *from);
