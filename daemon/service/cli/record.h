/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * --record: counts for a while, and writes the past of that time (counting/history/history.h) to a file, in the
 * OpenMetrics text of /api/v1/history. SIGINT and SIGTERM end it early: what was recorded up to then is written.
 */

#include "service/cli/options.h"

/* The exit status; errors are logged. */
int record_run(const struct options *options);
