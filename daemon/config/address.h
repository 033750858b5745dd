/* SPDX-License-Identifier: MIT */
#pragma once

/* The addresses in [web] listen and --listen. */

#include "util/reason.h"

/* Is it ADDR:PORT, [V6]:PORT with a numeric address, or the absolute path of a Unix socket? -EINVAL with the sentence
 * in why. */
int config_check_listen(const char *text, struct reason *why);
