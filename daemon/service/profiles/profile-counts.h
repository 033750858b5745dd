/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The counts of a sampled event by the counters of cgroups, from the past that is kept of all numbers
 * (counting/history/history.h): for CPU time it is task-clock, and else the same event.
 *
 * A question gets the slots that its stretch reaches into, and the cgroups that its glob can match, with all below
 * them. They are read in steps of a few ms, since there can be a million numbers. Where the history changes between two
 * steps, reading begins again.
 */

#include "counting/event/event.h"
#include "counting/history/history.h"
#include "profiler/protocol.h"

struct counts_reader;

/* Appends the question without its counts to `out`, which later steps go on with, and which is borrowed for the
 * reader's life, as is the history. sampled: the event, or all that its text makes on this machine; taken over on
 * success. Negative errno with the sentence in why. */
int counts_reader_new(struct counts_reader **ret, struct buf *out, const struct history *history,
		      struct event_list *sampled, const struct profile_question *question, struct reason *why);
struct counts_reader *counts_reader_free(struct counts_reader *reader);
DEFINE_CLEANUP(struct counts_reader *, counts_reader_free)

/* A step. 1: there is more; 0: the message is whole; -ENOMEM. Where the event is not counted in cgroups, or nothing is
 * known yet, the counts are a sentence (`problem`). Times are whole milliseconds, as those of samples. */
int counts_reader_step(struct counts_reader *reader);
