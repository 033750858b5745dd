/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The running daemon: owns the loop (sd-event) and everything on it, and knows the order of starting, reloading and
 * stopping. The loop is one thread, and nothing on it may block; work that can block has a thread of its own that does
 * nothing else (base/util/async-close.h, web/http/password-worker.h).
 *
 * The loop's sources:
 *
 *   signals   SIGTERM and SIGINT stop, SIGHUP reloads
 *   watchdog  systemd's, fed by the loop itself: a loop that hangs is restarted
 *   HTTP      a scrape reads counters again that were read over 100 ms ago
 *   others    intervals, cgroups, CPUs, mounts (schedule.h); saving (keeper.h)
 */

#include "service/cli/options.h"
#include "service/persist/listen-fds.h"

struct manager;

/* Loads the config and starts everything but the loop. options and passed are borrowed for the manager's life.
 * Listening sockets in passed take the place of the config's addresses. Negative errno with the sentence in why. */
int manager_new(struct manager **ret, const struct options *options, struct listen_fds *passed, struct reason *why);
struct manager *manager_free(struct manager *manager);
DEFINE_CLEANUP(struct manager *, manager_free)

/* Runs until a signal ends it: 0, or negative errno where the loop failed. */
int manager_run(struct manager *manager);
