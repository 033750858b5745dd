/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Limits that a test reaches: the number of open files of the process, and the kernel's queue of inotify events.
 */

#include <sys/resource.h>

/* No file of this number or a larger one can be opened (RLIMIT_NOFILE); open ones stay. Returns the limit before. */
rlim_t limit_files(rlim_t nr);

/* The number of the next file that is opened. */
rlim_t next_file(void);

/* fs.inotify.max_queued_events, beyond which the kernel drops events; skips the test where it is too large to fill. */
unsigned long queued_events_max(void);
