/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * SIGTERM, SIGINT and SIGHUP as events of the loop.
 */

#include <stdint.h>
#include <systemd/sd-event.h>

/* Blocks the three, so that they wait for the loop, and ignores SIGPIPE. Negative errno. */
int signals_block(void);

/* Calls handler() from the loop for a signal of the three; the loop owns the source. Negative errno. */
int signals_add(sd_event *loop, int signo, sd_event_signal_handler_t handler, int64_t priority, void *userdata);
