/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Commands that end by themselves: --check, --once, --record, --list-events, --save-… and --dump-image. Results go
 * to standard output, errors to the log.
 */

#include "service/cli/options.h"
#include "service/profiles/profiler-keeper.h"

enum {
	EXIT_CANNOT_COUNT = 2, /* --check: something configured can't be counted here */
};

/* Runs the command of the options and returns the exit status. keeper: of --check, borrowed. The daemon itself
 * (COMMAND_RUN) is the service's. */
int command_run(const struct options *options, struct profiler_keeper *keeper);
