/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A file that the loop watches, and that is the watch's own: nobody else can close it while the loop still has it.
 */

#include "base/util/cleanup.h"

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct watch;

/* Calls changed() from the loop when fd has one of the events (EPOLLIN, …). fd is taken over, on success only. Negative
 * errno of the loop; -ENOMEM. */
int watch_new(struct watch **ret, sd_event *loop, int fd, uint32_t events, int64_t priority,
	      void (*changed)(void *userdata), void *userdata);
struct watch *watch_free(struct watch *watch);
DEFINE_CLEANUP(struct watch *, watch_free)

/* A new watch is on. */
int watch_enable(struct watch *watch, bool on);
