/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The daemon as a whole: takes the files that systemd passed, starts the manager and runs it to its end.
 */

#include "service/cli/options.h"

/* Returns the exit status; errors are logged. */
int service_run(const struct options *options);
