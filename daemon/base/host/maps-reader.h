/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reads mappings of other processes in threads of its own. A process that changes its mappings, or forks, has them
 * locked meanwhile (mmap_lock), and whoever reads /proc/PID/maps waits until it is done. That takes many seconds where
 * the process gets little CPU time, as at idle priority or in a cgroup that is throttled; and any user can run one.
 *
 * So the caller waits for an answer only briefly, and for all that do not come in time no more than a tenth of its
 * time. A late answer is kept until it is asked for again. While all threads wait, other processes are refused.
 */

#include "base/host/proc-maps.h"

/* Wait for as long as it takes. */
#define MAPS_READER_FOREVER UINT64_MAX

struct maps_reader;

/* procroot as of proc_maps_read(); patience: how long to wait for an answer, in ns. -ENOMEM. */
int maps_reader_new(struct maps_reader **ret, const char *procroot, uint64_t patience);
/* Does not wait for threads that wait. */
struct maps_reader *maps_reader_free(struct maps_reader *reader);
DEFINE_CLEANUP(struct maps_reader *, maps_reader_free)

/* As proc_maps_read(), for at most MAPPINGS_MAX mappings. And -EAGAIN: it takes longer, and maps_reader_late() tells
 * when the answer is there; -EBUSY: all threads wait, or there can be no thread. */
int maps_reader_read(struct maps_reader *reader, uint32_t pid,
		     int (*take)(void *userdata, const struct proc_mapping *mapping), void *userdata);

/* A process whose answer has come late: it can be read now. 0: there is none. Each is to be read or forgotten. */
uint32_t maps_reader_late(struct maps_reader *reader);
void maps_reader_forget(struct maps_reader *reader, uint32_t pid);
