/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * --dump-image: prints a saved image (counting/session/session-image.h) as JSON, to find faults. It reads with the
 * readers that a restart uses, and has no perf events, maps or privileges: so an image of another boot or machine can
 * be looked at too. A damaged image is refused, with the part that makes no sense.
 */

#include "service/cli/options.h"

/* The exit status; errors are logged. */
int dump_image_run(const struct options *options);
