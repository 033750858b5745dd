/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The running daemon: takes the files that systemd passed, owns the loop (sd-event) and everything on it, and knows the
 * order of starting, reloading and stopping. The loop is one thread, and nothing on it may block; work that can block
 * has a thread of its own that does nothing else (base/util/async-close.h, web/http/password-worker.h), and so has work
 * that takes long (web/http/renderer.h).
 *
 * The loop's sources:
 *
 *   signals   SIGTERM and SIGINT stop, SIGHUP reloads
 *   watchdog  systemd's, fed by the loop itself: a loop that hangs is restarted
 *   HTTP      a scrape reads counters again that were read over 100 ms ago
 *   others    intervals, cgroups, CPUs, mounts (schedule.h); saving (saver.h)
 */

#include "service/cli/options.h"
#include "service/profiles/profiler-keeper.h"

/* Starts, and runs until a signal ends it. The keeper is borrowed. Returns the exit status; errors are logged. */
int lifecycle_run(const struct options *options, struct profiler_keeper *keeper);
