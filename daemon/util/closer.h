/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Closes files in a thread of its own, for those with which the kernel takes its time: to close the last event of a
 * tracepoint, or a probe, is to wait until no CPU can be in it any more, which is tens of milliseconds each. The thread
 * does nothing else, and is there from the first file on.
 *
 * The kernel holds a lock while it closes such an event, and takes the same lock to open one: who opens many pauses the
 * thread meanwhile, and waits for one file at most. Otherwise each event could wait for another file.
 */

#include "util/cleanup.h"

#include <stddef.h>

struct closer;

/* -ENOMEM. */
int closer_new(struct closer **ret);
/* Waits until all is closed, also where it is paused. */
struct closer *closer_free(struct closer *closer);
DEFINE_CLEANUP(struct closer *, closer_free)

/* Takes the fd over; files are closed in the order in which they come. Where there is no thread or no memory to be had
 * (or closer is NULL), it is closed at once. */
void closer_close(struct closer *closer, int fd);

/* How many files are still to be closed. */
size_t closer_pending(const struct closer *closer);

/* Waits for the file that is being closed; the next is closed after closer_resume(), of which there is one for each
 * closer_pause(). closer may be NULL. */
void closer_pause(struct closer *closer);
void closer_resume(struct closer *closer);
