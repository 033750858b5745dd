/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The running daemon: owns the loop, the monitor and the web, and knows the order of starting, reloading
 * and stopping. Everything that happens is an event of the loop, which is one
 * thread; those for what would hold it up (util/closer.h, web/hasher.h) do nothing else:
 *
 *   timer     ends an interval: all counters are read
 *   timer     looks for what nobody tells of: CPUs that have come or gone
 *   inotify   cgroups come and go
 *   deferred  cgroups that wait are opened, a few milliseconds' worth a turn, after everything else
 *   HTTP      a scrape reads afresh what was read over 100 ms ago
 *   signals   SIGTERM and SIGINT stop, SIGHUP reloads
 *   watchdog  systemd's, fed by the loop itself: a loop that hangs is restarted
 */

#include "inherit.h"
#include "options.h"

struct manager;

/* Takes the config over. Listening sockets that were inherited, which have to outlive the manager, take the place of
 * the config's addresses. Everything is started but the loop; negative errno with the sentence in why. */
int manager_new(struct manager **ret, const struct options *options, struct config *config,
		struct inherited *inherited, struct reason *why);
struct manager *manager_free(struct manager *manager);
DEFINE_CLEANUP(struct manager *, manager_free)

/* Runs until a signal ends it: 0, or negative errno where the loop broke. */
int manager_run(struct manager *manager);
