/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The hand-over of events between sets that are not equal, in a takeover: an event was added to a group, or moved to
 * another.
 *
 * Old and new groups are open at the same time, and for a moment both count. For each event it has to be settled up to
 * where the old group counts, and from where the new one does. This goes CPU by CPU: the new groups are started and
 * read, the old one is read for the last time, and the new ones are read again. An event that did not happen between
 * the two readings of its new group is handed over exactly; that is tried a few times. An event that happens all the
 * time, as cycles do, is counted by the new group from half way between the two readings, which is when the old one was
 * read.
 *
 * Pinned and exclusive groups do not share the PMU: the old ones are closed first. So are groups for which there is no
 * room beside the new ones.
 *
 * Without it, a reload that changes a busy group loses some hundred events: system/test_totals.py,
 * test_a_reload_that_changes_a_busy_group_loses_microseconds.
 */

#include "counting/engine/perf/target.h"

struct handover;

/* Works out which columns of the preceding engine go on in which sets of `to`, which knows equal sets already. NULL: no
 * memory. */
struct handover *handover_new(const struct perf_engine *to);
struct handover *handover_free(struct handover *handover);
DEFINE_CLEANUP(struct handover *, handover_free)

/* Hands over the events of the preceding engine's target `from` to the open groups of `to`, starts those, and ends the
 * old ones. Does nothing where handover is NULL. */
void handover_run(struct handover *handover, struct perf_engine *engine, struct perf_target *to,
		  struct perf_target *from);
