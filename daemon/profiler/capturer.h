/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Keeps captures as they are ordered (profiler/protocol.h): copies samples out of the profiler's archive, those from
 * before at once, and others as they come. While a capture runs, the event can be sampled at a higher rate, of its
 * cgroup alone: these samples then take the place of the others, and weigh less. When its stretch is over it waits for
 * the names of its functions.
 *
 * Captures are as old as the profiler's archive: where that begins anew, since others may be seen now or profiles are
 * off, captures are dropped too.
 */

#include "profiler/capture/captures.h"
#include "profiler/profiler.h"
#include "profiler/protocol.h"

struct capturer;

/* The profiler is borrowed for its life. -ENOMEM. */
int capturer_new(struct capturer **ret, struct profiler *profiler);
struct capturer *capturer_free(struct capturer *capturer);
DEFINE_CLEANUP(struct capturer *, capturer_free)

/* Before the profiler's settings change, or its events are opened anew: events that are sampled for a while end. */
void capturer_pause(struct capturer *capturer);
/* After other settings, and at first: the bytes that captures may take in memory, and how many of each rule. */
void capturer_use(struct capturer *capturer, const struct profiler_settings *settings);

/* Begins a capture. -EACCES: the cgroup may not be seen; -EEXIST: there is one with that id; -EBUSY: there are too
 * many, or there is no room beside them; -ENOMEM; errors of profiler_describe(). */
int capturer_keep(struct capturer *capturer, const struct capture_order *order);
/* Samples may have come. True: a capture has changed its state. */
bool capturer_turn(struct capturer *capturer);

/* Nothing comes any more: captures that run end. */
void capturer_finish(struct capturer *capturer);

/* They stay at their place for the capturer's life. */
struct captures *capturer_captures(struct capturer *capturer);
