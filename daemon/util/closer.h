/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Closes files in a thread of its own, for those with which the kernel takes its time: to close the last event of a
 * tracepoint, or a probe, is to wait until no CPU can be in it any more, which is tens of milliseconds each. The thread
 * does nothing else, and is there from the first file on.
 */

#include "util/cleanup.h"

#include <stddef.h>

struct closer;

/* -errno: of pipe2(2), -ENOMEM. */
int closer_new(struct closer **ret);
/* Waits until all is closed. */
struct closer *closer_free(struct closer *closer);
DEFINE_CLEANUP(struct closer *, closer_free)

/* Takes the fd over; files are closed in the order in which they come. Where there is no thread to be had (or closer is
 * NULL), or too many wait, it is closed at once. */
void closer_close(struct closer *closer, int fd);

/* How many files are still to be closed. */
size_t closer_pending(const struct closer *closer);
