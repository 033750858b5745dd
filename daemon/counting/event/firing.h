/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Does an event count here at all? Some open, have their full running time, and never count: hardware breakpoints where
 * the host of a virtual machine keeps the debug exceptions to itself, a PMU of which no counter works. Such an event's
 * numbers are those of one that does not happen. So whatever a thread can do by itself is done once, under an event of
 * this thread alone, which has to count it:
 *
 *   breakpoints                                   a write, a read, or a call
 *   cycles, instructions and the like; branches   a loop
 *   page-faults, minor-faults                     the first write to a page
 *   context-switches                              a short sleep
 *   uprobes, uretprobes                           a call of a function in this program with a uprobe
 *   tracepoints of system calls                   the call, with arguments that it refuses
 *
 * The kind of event is tested, and not the event: the test's own breakpoint is at its own word, its own uprobe in its
 * own file. So no answer depends on what others do, and no CPU has to be changed to. An event that can't be provoked,
 * or not be opened for this thread, is taken to count.
 */

#include "base/util/reason.h"
#include "counting/event/event.h"

#include <stdbool.h>

/*
 * False, with the sentence in why: it was provoked, and was not counted. *ret_fd: a file that is slow to close
 * (event_is_slow_to_close()), for the caller to close; or -1. It takes less than a millisecond where no probe has to be
 * made (perf_event_open(2): pid == 0, cpu == -1).
 */
bool event_fires(const struct event *event, int *ret_fd, struct reason *why);
