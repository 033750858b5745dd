/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Counting without the service's loop, for commands that end by themselves: a world that has everything open, and
 * waiting while cgroups are followed.
 */

#include "counting/world/world.h"
#include "service/cli/options.h"

#include <signal.h>

/* Makes a world of the config that the options name. It counts, with all cgroups open, and has been read once. Errors
 * are logged. */
int counting_start(struct world **ret, const struct options *options);

/* Waits until that time, CLOCK_MONOTONIC ns, and follows the cgroups meanwhile. False: one of the signals came, which
 * are blocked; NULL: none ends it. */
bool counting_wait(struct world *world, uint64_t until, const sigset_t *signals);
