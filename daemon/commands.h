/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What perfmond does besides running: --check, --once and --list-events. Each returns the exit status
 * and prints on standard output.
 */

#include "options.h"

enum {
	EXIT_CANNOT_COUNT = 2, /* --check: something configured can't be counted here */
};

int command_check(const struct options *options);
int command_once(const struct options *options);
int command_list_events(const struct options *options);
