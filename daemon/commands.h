/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What perfmond does besides running: --check, --once, --list-events and --save-tracepoints. Each returns the exit
 * status; what it has found out goes to standard output.
 */

#include "options.h"

enum {
	EXIT_CANNOT_COUNT = 2, /* --check: something configured can't be counted here */
};

int command_check(const struct options *options);
int command_once(const struct options *options);
int command_list_events(const struct options *options);
int command_save_tracepoints(const struct options *options);
