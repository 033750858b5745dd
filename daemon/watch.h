/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A file that the loop watches: the mounts, the cgroup tree's inotify. It is the watch's own, so that nobody can close
 * it while the loop waits for it.
 */

#include "util/cleanup.h"

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct watch;

/* Calls changed() from the loop when fd has one of the events (EPOLLIN, …); it takes fd over, also on failure. -1 is a
 * file that could not be opened: -errno. Or what the loop said; -ENOMEM. */
int watch_new(struct watch **ret, sd_event *loop, int fd, uint32_t events, int64_t priority,
	      void (*changed)(void *userdata), void *userdata);
struct watch *watch_free(struct watch *watch);
DEFINE_CLEANUP(struct watch *, watch_free)

/* On from the start. */
int watch_enable(struct watch *watch, bool on);
