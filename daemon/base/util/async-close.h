/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Closes files in a thread of its own, for files whose close(2) is slow: to close the last event of a tracepoint, or a
 * probe, the kernel waits until no CPU can be in it any more, which takes tens of milliseconds each. The thread does
 * nothing else; it is started for the first file.
 *
 * The kernel holds a lock while it closes such an event, and takes the same lock to open one. So whoever opens many
 * events pauses the thread meanwhile, and waits for one file at most; otherwise each event could wait for another file.
 */

#include "base/util/cleanup.h"

#include <stddef.h>

struct async_close;

/* -ENOMEM. */
int async_close_new(struct async_close **ret);
/* Waits until all files are closed, even if it is paused. */
struct async_close *async_close_free(struct async_close *closer);
DEFINE_CLEANUP(struct async_close *, async_close_free)

/* Takes the fd over. Files are closed in the order of submission. If closer is NULL, or there is no thread or no
 * memory, the fd is closed at once. */
void async_close_submit(struct async_close *closer, int fd);

/* The number of files that are still to be closed. */
size_t async_close_pending(const struct async_close *closer);

/* Waits for the file that is being closed; no other is closed before async_close_resume(), which has to be called as
 * often as this. closer may be NULL. */
void async_close_pause(struct async_close *closer);
void async_close_resume(struct async_close *closer);
