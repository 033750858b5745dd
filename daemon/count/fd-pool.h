/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Perf events that an earlier instance of the daemon has opened, by their ids: PERF_EVENT_IOC_ID, which no other event
 * has until the machine is restarted.
 */

#include "util/cleanup.h"
#include "util/hash.h"

#include <stdint.h>

struct fd_pool {
	struct pooled_fd *by_id;
	size_t nr, max;	  /* in it; that may be */
	size_t nr_missed; /* that were asked for, and were not there */
};

/* Asks the event for its id and takes the fd over, also on failure: -ENOMEM, or what the ioctl said of an fd that is
 * no perf event. -EEXIST: the event is in the pool already; -EMFILE: the pool is full. */
int fd_pool_add(struct fd_pool *pool, int fd, uint64_t *ret_id);
/* The fd, which is then the caller's; -1 where there is none. */
int fd_pool_take(struct fd_pool *pool, uint64_t id);
/* Closes what was not taken. */
void fd_pool_release(struct fd_pool *pool);
