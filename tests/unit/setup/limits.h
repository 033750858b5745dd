/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Limits that a test reaches: the number of open files of the process, and the kernel's queue of inotify events.
 */

#include <stddef.h>
#include <sys/resource.h>

/* No file of this number or a larger one can be opened (RLIMIT_NOFILE); open ones stay. Returns the limit before. */
rlim_t limit_files(rlim_t nr);

/* The number of the next file that is opened. */
rlim_t next_file(void);

/* How many files are open, and a constant: to be compared with an earlier call. */
size_t nr_open_files(void);

/* fs.inotify.max_queued_events, beyond which the kernel drops events; skips the test where it is too large to fill. */
unsigned long queued_events_max(void);
